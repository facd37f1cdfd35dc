"""LIKE against a regular expression, and against the clock."""

from __future__ import annotations

import re
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import FilterError
from routing.filters import evaluate
from routing.filters.like import Wildcard, compile_like, escaped, like, like_filter
from tests.strategies import patterns

TEXTS = st.text("ab%_\\'é😀\n", max_size=8)


def as_regex(pattern: str) -> str:
    """The pattern character by character, as a regular expression."""
    regex, characters = "", iter(pattern)
    for character in characters:
        if character == "\\":
            regex += re.escape(next(characters))
        else:
            regex += {"%": ".*", "_": "."}.get(character, re.escape(character))
    return regex


@settings(deadline=None, max_examples=500)
@given(patterns(), TEXTS)
def test_a_regular_expression_agrees(pattern: str, text: str) -> None:
    expected = re.fullmatch(as_regex(pattern), text, re.DOTALL) is not None
    assert like(compile_like(pattern), text) is expected
    assert evaluate(like_filter("s", pattern), {"s": text}) is expected


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_an_escaped_text_matches_itself_only(text: str, other: str) -> None:
    assert like(compile_like(escaped(text)), text)
    assert like(compile_like(escaped(text)), other) is (text == other)


@settings(deadline=None)
@given(patterns())
def test_pieces(pattern: str) -> None:
    pieces = compile_like(pattern)
    assert "" not in pieces
    for one, next_one in pairwise(pieces):
        assert (one, next_one) != (Wildcard.MANY, Wildcard.MANY)
        assert not (isinstance(one, str) and isinstance(next_one, str))


@pytest.mark.parametrize(("pattern", "column"), [("\\", 1), ("a\\", 2), ("a%\\n", 3), ("\\\\\\", 3), ("\\%\\a", 3)])
def test_wrong_escapes(pattern: str, column: int) -> None:
    with pytest.raises(FilterError, match="escapes only") as caught:
        compile_like(pattern)
    assert caught.value.column == column


@pytest.mark.parametrize("pattern", ["%a" * 40 + "%b", "%a_a" * 20 + "b", "%_" * 40 + "b", "%" + "a_" * 40 + "b%c"])
def test_no_blow_up(pattern: str) -> None:
    pieces = compile_like(pattern)
    started = time.perf_counter()
    assert not like(pieces, "a" * 5000)
    assert time.perf_counter() - started < 5
