"""Plain texts read by compiled code give what the parser gives; all others are left to it."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from routing.errors import FilterError
from routing.filters import Filter, Limits, parse, push_negations, to_sql
from routing.filters.ast import conjunction
from routing.filters.limits import DEFAULT
from routing.matching import batch
from routing.matching.clauses import KINDS, STRING, Clauses, Op
from routing.matching.lower import Lowering
from tests.strategies import leaves


def shown(clauses: Clauses) -> list[tuple[int, list[Any]]]:
    """Each conjunction's subscription and predicates, in an order of their own; the `<>` of one attribute apart."""
    found: list[tuple[int, list[Any]]] = [(owner, []) for owner in clauses.owners.tolist()]
    for row, (number, name, op) in enumerate(zip(clauses.conjunctions, clauses.attributes, clauses.ops, strict=True)):
        first, last = clauses.member_starts[row : row + 2]
        members = [
            (str(KINDS[kind]), clauses.texts[value] if kind == STRING else clauses.numbers.exactly(value))
            for kind, value in zip(clauses.kinds[first:last].tolist(), clauses.values[first:last].tolist(), strict=True)
        ]
        if op == Op.IN:
            members = sorted(set(members), key=str)
        apart = [[member] for member in members] if op == Op.NOT_IN else [members]
        found[number][1].extend((clauses.names[name], Op(op), some) for some in apart)
    return [(owner, sorted(rows, key=str)) for owner, rows in found]


def by_parser(texts: list[str]) -> Clauses:
    lowering = Lowering()
    for number, text in enumerate(texts):
        lowering.add(number, push_negations(parse(text)))
    return lowering.clauses()


def taken(texts: list[str], limits: Limits = DEFAULT) -> tuple[list[bool], Clauses]:
    plain = batch._Plain(limits)
    return plain.take(0, texts).tolist(), plain.clauses()


PLAIN = [
    "a = 1",
    "a=-1.50 AND b>='x'",
    "  a.b_c9 <> 'it is'\tAND\n c != +7 ",
    "x BETWEEN 1 AND 2.5 AND y = TRUE",
    "x in (1, 2, 'a', false)",
    "s LIKE 'abc' AND s LIKE 'abc%' AND s LIKE '%abc' AND s LIKE '%%abc%'",
    "s LIKE '%' AND t LIKE '' AND CONTAINS(t, '') AND startsWith ( u , 'é😀' )",
    "ENDSWITH(s, '\\') AND contains = 'x' AND s ANY AND t IS NULL AND u is not null",
    "a < 0 AND a <= -0 AND a > 00012 AND a >= 0.000 AND a = 999999999999999",
]


@pytest.mark.parametrize("text", PLAIN)
def test_plain_texts_are_taken(text: str) -> None:
    took, clauses = taken([text])
    assert took == [True]
    assert shown(clauses) == shown(by_parser([text]))


LEFT = [
    "",
    " ",
    "a",
    "NOT a = 1",
    "a = 1 OR b = 2",
    "(a = 1)",
    "`a` = 1",
    "é = 1",
    "a.é = 1",
    "a. = 1",
    "a.and = 1",
    "1 = a",
    "a = 'it''s'",
    "a = 1e3",
    "a = 1.",
    "a = .5",
    "a = 1x",
    "a = 1.2.3",
    "a = 1234567890123456",
    "a = 0.1234567890123456",
    "a = - 1",
    "a == 1",
    "a => 1",
    "a =< 1",
    "a <=> 1",
    "a = NULL",
    "a = b",
    "a = 'x",
    "a = 1 AND",
    "a = 1 AND AND b = 1",
    "a = 1 b = 2",
    "a NOT IN (1)",
    "a IN ()",
    "a IN (1,)",
    "a IN (1",
    "a LIKE 'a_b'",
    "a LIKE 'a%b'",
    r"a LIKE 'a\%'",
    "a LIKE 1",
    "a = DATE '2026-01-01'",
    "date = 1",
    "TRUE",
    "startswithx(a, 'b')",
    "containsx(a, 'b')",
    "STARTSWITH(a, 1)",
    "a\u00a0= 1",
    "a = 1;",
    "a = 1 -- x",
    "a IS NOT",
    "a BETWEEN 1",
    "a BETWEEN 1 OR 2",
]


@pytest.mark.parametrize("text", LEFT)
def test_doubtful_texts_are_left_to_the_parser(text: str) -> None:
    assert taken([text])[0] == [False]


def test_limits_are_the_parsers() -> None:
    assert taken(["a = 1"], Limits(text_bytes=4))[0] == [False]
    assert taken(["a IN (1, 2, 3)"], Limits(in_literals=2))[0] == [False]
    assert taken(["a = 1 AND b = 1"], Limits(nodes=2))[0] == [False]
    assert taken(["a = '\ud800'", "b = 1"])[0] == [False, False]


PIECES = [
    "a",
    "b.c",
    "AND",
    "and",
    "OR",
    "NOT",
    "IN",
    "LIKE",
    "BETWEEN",
    "IS",
    "NULL",
    "ANY",
    "TRUE",
    "(",
    ")",
    ",",
    "=",
]
PIECES += [
    "<",
    ">",
    "<=",
    ">=",
    "<>",
    "!=",
    "1",
    "-2.50",
    "'x'",
    "'%y%'",
    "''",
    "CONTAINS(",
    "STARTSWITH",
    "é",
    "`q`",
    ".",
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["", " ", " "])), max_size=14))
@example([("a", ""), ("=", ""), ("-2.50", ""), ("AND", " "), ("a", " "), ("ANY", "")])
def test_what_is_taken_is_what_the_parser_says(pieces: list[tuple[str, str]]) -> None:
    text = "".join(piece + space for piece, space in pieces)
    took, clauses = taken([text])
    if took[0]:
        assert shown(clauses) == shown(by_parser([text]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(leaves(), min_size=1, max_size=4).map(conjunction), max_size=6))
def test_printed_conjunctions(trees: list[Filter]) -> None:
    texts = [to_sql(tree) for tree in trees]
    with mock.patch.object(batch, "CHUNK", 2):
        joined = batch.clauses_of(texts, Limits(), lambda place: parse(texts[place]))
    assert sorted(shown(joined), key=str) == sorted(shown(by_parser(texts)), key=str)


def test_an_error_is_the_parsers() -> None:
    with pytest.raises(FilterError, match="nothing equals NULL"):
        batch.clauses_of(["x = 1", "x = NULL"], Limits(), lambda place: parse("x = NULL"))
