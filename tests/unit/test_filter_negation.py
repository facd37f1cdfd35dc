"""The positive form has the same truth value as the filter, and NOT only where it is allowed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from routing.filters import Filter, evaluate, parse, push_negations, to_sql
from routing.filters.ast import And, Not, Or
from routing.filters.negation import is_positive
from tests.strategies import MIXED, TYPED, events, filters

NAMES = (*TYPED, *MIXED)


@settings(deadline=None, max_examples=500)
@given(filters(NAMES), events(NAMES))
def test_the_truth_value_stays(filter: Filter, event: dict[str, object]) -> None:
    assert evaluate(push_negations(filter), event) is evaluate(filter, event)
    assert evaluate(push_negations(Not(filter)), event) is evaluate(Not(filter), event)


@settings(deadline=None)
@given(filters(NAMES))
def test_the_form_is_positive_and_final(filter: Filter) -> None:
    positive = push_negations(filter)
    assert is_positive(positive)
    assert push_negations(positive) == positive
    assert keeps_the_law(positive)


def keeps_the_law(filter: Filter) -> bool:
    match filter:
        case And(parts) | Or(parts):
            return len(parts) > 1 and all(type(part) is not type(filter) and keeps_the_law(part) for part in parts)
        case Not(part):
            return keeps_the_law(part)
        case _:
            return True


@pytest.mark.parametrize(
    ("text", "positive"),
    [
        ("NOT x < 5", "x >= 5"),
        ("NOT x <= 5", "x > 5"),
        ("NOT x > 5", "x <= 5"),
        ("NOT x >= 5", "x < 5"),
        ("NOT x = 5", "x <> 5"),
        ("NOT x <> 5", "x = 5"),
        ("NOT NOT x = 5", "x = 5"),
        ("NOT flag", "flag <> TRUE"),
        ("x NOT BETWEEN 1 AND 3", "x < 1 OR x > 3"),
        ("x NOT IN (1, 'a')", "x <> 1 AND x <> 'a'"),
        ("x NOT IN (1)", "x <> 1"),
        ("y = 1 AND x NOT IN (1, 2)", "y = 1 AND x <> 1 AND x <> 2"),
        ("NOT x IS NOT NULL", "x IS NULL"),
        ("NOT (s LIKE 'a%' OR x IS NULL)", "s NOT LIKE 'a%' AND x IS NOT NULL"),
        ("NOT (a AND (b OR NOT c))", "a <> TRUE OR b <> TRUE AND c"),
        ("x = 1 AND TRUE", "x = 1"),
        ("x = 1 AND NOT TRUE", "FALSE"),
        ("x = 1 OR NOT (y = 2 AND FALSE)", "TRUE"),
        ("NOT (TRUE AND TRUE)", "FALSE"),
        ("a AND (b OR FALSE)", "a AND b"),
        ("a OR (FALSE OR FALSE)", "a"),
        ("a AND (b AND TRUE OR c AND FALSE)", "a AND b"),
    ],
)
def test_examples(text: str, positive: str) -> None:
    assert to_sql(push_negations(parse(text))) == positive
