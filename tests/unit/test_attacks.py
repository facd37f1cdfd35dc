"""Hostile texts against the parsers and the configuration: an answer, or the documented error; never anything else."""

from __future__ import annotations

import os
import random
import string
from pathlib import Path

import pytest

from routing.config import load
from routing.errors import ConfigError, FilterError, MappingError, RoutingError
from routing.filters import evaluate, parse, to_sql
from routing.mappings import parse_mapping
from routing.scopes.policy import parse_publishing
from tests.attacks import Attack, attacks


def named(attack: Attack) -> str:
    return attack.name


def test_the_list_is_long_and_its_names_are_names() -> None:
    every = attacks()
    assert len(every) >= 150
    assert len({attack.name for attack in every}) == len(every)


@pytest.mark.parametrize("attack", attacks("filter"), ids=named)
def test_filters(attack: Attack) -> None:
    if attack.answer == "rejected":
        with pytest.raises(FilterError):
            parse(attack.text)
    else:
        assert parse(to_sql(parse(attack.text))) == parse(attack.text)
        assert evaluate(parse(attack.text), {"price": 1, "symbol": "a" * 500}) in (True, False, None)


@pytest.mark.parametrize("attack", attacks("mapping"), ids=named)
def test_mappings(attack: Attack) -> None:
    if attack.answer == "rejected":
        with pytest.raises(MappingError):
            parse_mapping(attack.text)
    else:
        parse_mapping(attack.text)


@pytest.mark.parametrize("attack", attacks("policy"), ids=named)
def test_policies(attack: Attack) -> None:
    with pytest.raises(RoutingError):
        parse_publishing(attack.text)


@pytest.mark.parametrize("attack", attacks("config"), ids=named)
def test_configurations(attack: Attack, tmp_path: Path) -> None:
    canary, file = tmp_path / "canary", tmp_path / "sluice.yaml"
    file.write_text(attack.text.replace("CANARY", str(canary)))
    with pytest.raises(ConfigError):
        load(file)
    assert not canary.exists()


WORDS = (  # noqa: SIM905
    "x price `a b` AND OR NOT IN LIKE BETWEEN IS NULL ANY TRUE FALSE DATE TIMESTAMP STARTSWITH CONTAINS DROP CASE WHEN "
    "THEN ELSE END CAST AS BIGINT UPPER ( ) , . ; = <> != < <= > >= + - * / % || 'a' '' 'it''s' '%' '2026-01-31' 1 -1 "
    '1.5 1e9 1e400 0x1 99999999999999999999 \\ " $ { } # -- /* */ \u0000 \u202e \u200b 😀 é \ud800'
).split(" ")


def test_the_parsers_answer_any_text() -> None:
    """100,000 texts, or as many as asked for, by a seed: of words, of characters, of attacks with something exchanged."""
    draw = random.Random(int(os.environ.get("SLUICE_SEED", "7")))
    known = [a.text for a in attacks("filter", "mapping", "policy") if len(a.text) < 300]
    for number in range(int(os.environ.get("SLUICE_TEXTS", "100000"))):
        match number % 4:
            case 0:
                text = " ".join(draw.choices(WORDS, k=draw.randrange(1, 12)))
            case 1:
                text = "".join(draw.choices(WORDS, k=draw.randrange(1, 12)))
            case 2:
                text = "".join(draw.choices(string.printable, k=draw.randrange(1, 30)))
            case _:
                text = draw.choice(known)
                cut, end = sorted(draw.randrange(len(text) + 1) for _ in range(2))
                text = text[:cut] + draw.choice(WORDS) + text[end:]
        for parser, error in ((parse, FilterError), (parse_mapping, MappingError)):
            try:
                parser(text)
            except error:
                continue
