"""Printed filters read back as themselves."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.errors import FilterTooLarge
from routing.filters import Filter, Limits, parse, to_sql
from routing.filters.ast import And, Comparison, In, IsNull, Kind, Literal, Not, Operator, Or, conjunction
from routing.filters.exact import canonical
from tests.strategies import MIXED, TYPED, filters, patterns

LOOSE = Limits(text_bytes=10**6, depth=64, nodes=10**5)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=20, min_value=-(10**17), max_value=10**17)
NUMBERS = st.integers(-(10**38) + 1, 10**38 - 1) | st.floats(allow_nan=False, allow_infinity=False) | DECIMALS
MOMENTS = st.datetimes(timezones=st.just(UTC))


@settings(deadline=None, max_examples=300)
@given(filters((*TYPED, *MIXED)))
def test_round_trip(filter: Filter) -> None:
    text = to_sql(filter)
    assert parse(text, limits=LOOSE) == filter
    assert to_sql(parse(text, limits=LOOSE)) == text


@settings(deadline=None)
@given(TEXTS.filter(bool))
def test_any_name(name: str) -> None:
    assert parse(to_sql(IsNull(name))) == IsNull(name)
    assert parse(to_sql(Comparison(name, Operator.EQ, Literal(Kind.BOOLEAN, True)))).attribute == name  # type: ignore[union-attr]


@settings(deadline=None, max_examples=300)
@given(
    st.builds(Literal, st.just(Kind.STRING), TEXTS)
    | st.builds(Literal, st.just(Kind.NUMBER), NUMBERS.map(canonical))
    | st.builds(Literal, st.just(Kind.DATE), st.dates())
    | st.builds(Literal, st.just(Kind.TIMESTAMP), MOMENTS)
)
def test_any_literal(literal: Literal) -> None:
    filter = And((Comparison("x", Operator.LT, literal), In("x", (literal,))))
    again = parse(to_sql(filter), limits=LOOSE)
    assert again == filter
    assert type(again.parts[0].literal.value) is type(literal.value)  # type: ignore[union-attr]


@settings(deadline=None)
@given(patterns())
def test_any_pattern(pattern: str) -> None:
    quoted = pattern.replace("'", "''")
    filter = parse(f"s LIKE '{quoted}'")
    assert parse(to_sql(filter)) == filter
    assert parse(to_sql(Not(filter))) == Not(filter)


def test_parentheses_are_few() -> None:
    a, b, c = (Comparison(name, Operator.EQ, Literal(Kind.BOOLEAN, True)) for name in "abc")
    assert to_sql(Or((And((a, b)), c))) == "a AND b OR c"
    assert to_sql(And((Or((a, b)), c))) == "(a OR b) AND c"
    assert to_sql(Not(And((a, Not(Or((b, c))))))) == "NOT (a AND NOT (b OR c))"
    assert to_sql(conjunction([a, Not(Not(b))])) == "a AND NOT NOT b"


def test_a_timestamp_prints_in_utc() -> None:
    moment = datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))
    assert (
        to_sql(Comparison("x", Operator.EQ, Literal(Kind.TIMESTAMP, moment))) == "x = TIMESTAMP '2026-01-31 10:00:00Z'"
    )


@pytest.mark.parametrize("value", [0.1, 1e300, 5e-324, -2.5])
def test_a_float_prints_as_the_number_it_stands_for(value: float) -> None:
    again = parse(to_sql(Comparison("x", Operator.EQ, Literal(Kind.NUMBER, value))))
    assert again == Comparison("x", Operator.EQ, Literal(Kind.NUMBER, canonical(value)))


@settings(deadline=None, max_examples=100)
@given(filters(TYPED))
def test_printing_needs_no_more_depth_or_nodes_than_the_text_did(filter: Filter) -> None:
    limits = Limits(10**6, smallest(parenthesised(filter), "depth"), smallest(parenthesised(filter), "nodes"))
    assert parse(to_sql(filter), limits=limits) == filter


@pytest.mark.parametrize(
    "text",
    [
        "x NOT BETWEEN 1 AND 2",
        "NOT x BETWEEN 1 AND 2",
        "a OR (x BETWEEN 1 AND 2 AND b)",
        "s NOT LIKE 'a'",
        "s NOT LIKE '\\%%'",
    ],
)
def test_nor_than_other_spellings_did(text: str) -> None:
    limits = Limits(10**6, smallest(text, "depth"), smallest(text, "nodes"))
    assert parse(to_sql(parse(text)), limits=limits) == parse(text)


def smallest(text: str, limit: str) -> int:
    """The least value of the limit under which the text parses."""
    for value in range(1, 10**4):
        try:
            parse(text, limits=replace(LOOSE, **{limit: value}))
        except FilterTooLarge:
            continue
        return value
    raise AssertionError(text)


def parenthesised(filter: Filter) -> str:
    match filter:
        case And(parts):
            return " AND ".join(f"({parenthesised(part)})" for part in parts)
        case Or(parts):
            return " OR ".join(f"({parenthesised(part)})" for part in parts)
        case Not(part):
            return f"NOT ({parenthesised(part)})"
        case _:
            return to_sql(filter)
