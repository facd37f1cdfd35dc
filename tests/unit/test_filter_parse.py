"""Which texts are filters: the accepted and the rejected ones as plain lines, the limits, and any text whatever."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from routing.errors import ConfigError, FilterError, FilterTooLarge
from routing.filters import Limits, attributes, evaluate, parse, push_negations, to_sql
from routing.filters.ast import And, Comparison, In, IsNull, Kind, Literal, Not, Operator, Text, TextTest
from routing.filters.limits import DEEPEST

FIXTURES = Path(__file__).parent.parent / "fixtures" / "filters"


def lines(name: str) -> list[tuple[str, ...]]:
    text = (FIXTURES / name).read_text(encoding="utf-8")
    return [tuple(line.split(" ⇒ ")) for line in text.splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize(("text", "printed"), lines("accepted.txt"))
def test_accepted(text: str, printed: str) -> None:
    assert to_sql(parse(text)) == printed
    assert parse(printed) == parse(text)


@pytest.mark.parametrize(("text", "column", "message"), lines("rejected.txt"))
def test_rejected(text: str, column: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert caught.value.column == int(column)


def test_trees() -> None:
    one, two = Literal(Kind.NUMBER, 1), Literal(Kind.NUMBER, Decimal("2.5"))
    assert parse("x between 1 and 2.50") == And((Comparison("x", Operator.GE, one), Comparison("x", Operator.LE, two)))
    assert parse("x NOT IN (1, 2.5, 1.0)") == Not(In("x", (one, two)))
    assert parse("a.`b` ANY") == Not(IsNull("a.b"))
    assert parse("s LIKE '%a%'") == parse("CONTAINS(s, 'a')") == TextTest("s", Text.SUBSTRING, "a")
    assert parse("flag") == Comparison("flag", Operator.EQ, Literal(Kind.BOOLEAN, True))
    assert attributes(parse("a = 1 AND NOT (b.c IN (2) OR `d e` LIKE 'x_')")) == {"a", "b.c", "d e"}


def test_kinds_of_literals_stay_apart() -> None:
    texts = ["x = 1", "x = TRUE", "x = '1'", "x = DATE '2026-01-31'", "x = TIMESTAMP '2026-01-31'", "x = '2026-01-31'"]
    assert len({parse(text) for text in texts}) == len(texts)


def test_equal_numbers_are_equal_literals_and_others_are_not() -> None:
    assert len({parse(text) for text in ("x = 0.1", "x = 1e-1", "x = .10", "x = 0.01e1")}) == 1
    assert len({parse(text) for text in ("x = 100", "x = 100.0", "x = 1e2")}) == 1
    # 2⁻³⁰ as a double stands for its shortest decimal, not for its 21 binary-exact digits.
    assert parse("x = 9.313225746154785e-10") != parse("x = 0.000000000931322574615478515625")
    assert parse("x = 9007199254740993") != parse("x = 9007199254740993e0")


def test_white_space_and_case_do_not_matter() -> None:
    assert parse("\t not(\r\nx<1 aNd `y`\nin(2))  ") == parse("NOT (x < 1 AND y IN (2))")
    assert parse("X = 1") != parse("x = 1")


def test_text_may_hold_anything_but_half_characters() -> None:
    assert parse("s < 'a\x00\n\x1b'") == Comparison("s", Operator.LT, Literal(Kind.STRING, "a\x00\n\x1b"))
    assert parse("`a\x00b` IS NULL") == IsNull("a\x00b")
    for text, column in [("s = 'a\ud800'", 7), ("`\udfff`", 2), ("\ud83d", 1), ("x\ude00", 2)]:
        with pytest.raises(FilterError, match="half a character") as caught:
            parse(text)
        assert caught.value.column == column
        assert str(caught.value).isascii()


@pytest.mark.parametrize("character", ["\x00", "\x0b", "\x0c", "\x7f", "\x85", "\xa0", "\u200b", "\u2028", "\ufeff"])
def test_only_plain_white_space_separates(character: str) -> None:
    with pytest.raises(FilterError, match=rf"U\+{ord(character):04X}") as caught:
        parse(f"x {character}= 5")
    assert caught.value.column == 3


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_empty(text: str) -> None:
    with pytest.raises(FilterError, match="column 1: the filter is empty"):
        parse(text)


@pytest.mark.parametrize("value", [None, 5, b"x = 5", ["x = 5"], True])
def test_not_a_text(value: object) -> None:
    with pytest.raises(FilterError, match="column 1: a filter is text"):
        parse(value)  # type: ignore[arg-type]


def test_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert parse("x = TIMESTAMP '2026-07-01 12:00'", zone=berlin) == parse("x = TIMESTAMP '2026-07-01 10:00Z'")
    assert parse("x = TIMESTAMP '2026-07-01'", zone=berlin) == parse("x = TIMESTAMP '2026-06-30 22:00Z'")
    assert parse("x = TIMESTAMP '2026-07-01 12:00Z'", zone=berlin) == parse("x = TIMESTAMP '2026-07-01 12:00Z'")
    with pytest.raises(FilterError, match="0001 to 9999"):
        parse("x = TIMESTAMP '0001-01-01'", zone=timezone(timedelta(hours=9)))
    found = parse("x = TIMESTAMP '2026-07-01 12:00+02:00'")
    assert isinstance(found, Comparison)
    assert found.literal.value == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert isinstance(found.literal.value, datetime)
    assert found.literal.value.tzinfo is UTC


def test_limits_on_the_text() -> None:
    text = "s = 'é'"  # eight bytes, seven characters
    assert parse(text, limits=Limits(text_bytes=8)) == parse(text)
    with pytest.raises(FilterTooLarge, match="text_bytes = 7") as caught:
        parse(text, limits=Limits(text_bytes=7))
    assert caught.value.column == 7
    with pytest.raises(FilterTooLarge, match="text_bytes = 4096") as caught:
        parse("x OR " * 1000 + "x")
    assert caught.value.column == 4097


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        *(("x", 0), ("(x)", 1), ("NOT x", 1), ("NOT (NOT x)", 3), ("(x) AND (y)", 1), ("x BETWEEN 1 AND 2", 1)),
        *(("NOT x BETWEEN 1 AND 2", 2), ("x NOT BETWEEN 1 AND 2", 2), ("NOT x NOT IN (1)", 2)),
        *(("x NOT IN (1)", 1), ("x IS NOT NULL", 0), ("a AND b OR c AND d", 0)),
    ],
)
def test_limits_on_depth(text: str, depth: int) -> None:
    assert parse(text, limits=Limits(depth=max(depth, 1))) == parse(text)
    if depth > 1:
        with pytest.raises(FilterTooLarge, match=f"depth = {depth - 1}"):
            parse(text, limits=Limits(depth=depth - 1))


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        *(("x", 1), ("TRUE", 1), ("NOT x", 2), ("x IS NOT NULL", 2), ("a AND b AND c", 4), ("a AND b OR c", 5)),
        *(("x IN (1, 2, 3, 4)", 1), ("x NOT IN (1, 2)", 2), ("x BETWEEN 1 AND 2", 3), ("STARTSWITH(x, 'a')", 1)),
    ],
)
def test_limits_on_nodes(text: str, nodes: int) -> None:
    assert parse(text, limits=Limits(nodes=nodes)) == parse(text)
    if nodes > 1:
        with pytest.raises(FilterTooLarge, match=f"nodes = {nodes - 1}"):
            parse(text, limits=Limits(nodes=nodes - 1))


def test_limits_on_in() -> None:
    assert parse("x IN (1, 2, 2)", limits=Limits(in_literals=3)) == parse("x IN (1, 2)")
    with pytest.raises(FilterTooLarge, match="in_literals = 2"):
        parse("x IN (1, 2, 2)", limits=Limits(in_literals=2))
    with pytest.raises(FilterTooLarge, match="in_literals = 1000"):
        parse(f"x IN ({','.join(['1'] * 1001)})")


@pytest.mark.parametrize("wrong", [{"depth": 0}, {"nodes": -1}, {"depth": DEEPEST + 1}, {"text_bytes": 0}])
def test_limits_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Limits(**wrong)


DEEP = [
    *("(" * 5000, "(" * 5000 + "x" + ")" * 5000, "NOT " * 5000 + "x", "NOT(" * 5000, "x IN " + "(" * 5000),
    *("x = " + "-" * 5000, "'" * 5000, "'" * 4999, "`" * 5000, "`" * 4999, "a." * 5000, "x AND " * 5000),
    *("x = " + "9" * 5000, "x = 1e" + "9" * 5000, "x = " + "1" * 5000 + "e5", "x = ." + "0" * 5000 + "1"),
    *("s LIKE '" + "\\" * 5000 + "'", "s LIKE '" + "%_" * 5000 + "'", "é≤" * 2500, "x = DATE '" + "9" * 5000 + "'"),
]


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:12])
@pytest.mark.parametrize("limits", [Limits(), Limits(10**9, DEEPEST, 10**9, 10**9)], ids=["default", "loose"])
def test_long_and_deep_texts_are_no_trouble(text: str, limits: Limits) -> None:
    accepted_or_refused(text, limits)


def test_the_deepest_filter_can_be_used() -> None:
    limits = Limits(10**6, DEEPEST, 10**6)
    for text in [
        "(a AND b OR " * DEEPEST + "c" + ")" * DEEPEST,
        "NOT (a AND b OR " * (DEEPEST // 2) + "c" + ")" * (DEEPEST // 2),
    ]:
        filter = parse(text, limits=limits)
        assert parse(to_sql(filter), limits=limits) == filter
        assert hash(filter) == hash(parse(text, limits=limits))
        assert evaluate(filter, {"a": True}) == evaluate(push_negations(filter), {"a": True})
        assert repr(filter)


def accepted_or_refused(text: str, limits: Limits) -> None:
    try:
        parse(text, limits=limits)
    except FilterError as error:
        assert 1 <= error.column <= len(text) + 1
        str(error).encode()


PIECES = [
    *("AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "ANY", "STARTSWITH", "CONTAINS"),
    *("x", "y.z", "`q q`", "date", "DATE", "TIMESTAMP", "ILIKE", "SELECT", "é", "😀", "\n", "\x00", "\ud800"),
    *("(", "(", ")", ")", ",", "=", "<>", "!=", "<", "<=", ">", ">=", "==", "<=>", "≤", "!", "|", "\\", "::", ";"),
    *("'a'", "'a%'", "'%\\_'", "'2026-01-31'", "''", "'", '"', "`", "5", "-5", "5.", ".5", "1e9", "1e999", "-", "."),
    *("DATE'2026-01-31'", "TIMESTAMP '2026-01-31T10:00Z'"),
]


@settings(deadline=None, max_examples=400)
@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(["", " "]))
def test_any_words_give_a_filter_or_an_error(words: list[str], between: str) -> None:
    accepted_or_refused(between.join(words), Limits())


@settings(deadline=None, max_examples=400)
@given(st.text(st.characters(exclude_categories=[]), max_size=60))
@example("x = '\ud800'")
@example("\x00")
def test_any_text_gives_a_filter_or_an_error(text: str) -> None:
    accepted_or_refused(text, Limits())
    accepted_or_refused(f"x = '{text}", Limits())
    accepted_or_refused(f"`{text}` LIKE '{text}'", Limits())


def test_the_recursion_limit_is_left_alone() -> None:
    before = sys.getrecursionlimit()
    parse("x = 1")
    assert sys.getrecursionlimit() == before
