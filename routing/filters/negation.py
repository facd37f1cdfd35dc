"""The positive form of a filter: every NOT pushed down to the leaves, for matchers that only know "is true".

Law: for every event the positive form has the same truth value, UNKNOWN included. De Morgan holds in Kleene's logic,
and a flipped comparison is UNKNOWN exactly where the comparison is. (It is no complement: an absent attribute
satisfies neither `x < 5` nor `x >= 5`.)
"""

from __future__ import annotations

from collections.abc import Iterable

from routing.filters.ast import (
    And,
    Comparison,
    Constant,
    Filter,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    TextTest,
    conjunction,
    disjunction,
)

FLIPPED = {
    Operator.EQ: Operator.NE,
    Operator.NE: Operator.EQ,
    Operator.LT: Operator.GE,
    Operator.GE: Operator.LT,
    Operator.GT: Operator.LE,
    Operator.LE: Operator.GT,
}
_TRUE, _FALSE = Constant(True), Constant(False)


def push_negations(filter: Filter) -> Filter:
    """The filter with NOT only around text tests and IS NULL, and with a constant only if it is nothing else.

    >>> from routing.filters import parse, to_sql
    >>> to_sql(push_negations(parse("NOT (x < 5 AND y NOT IN (1, 2) AND s LIKE 'a%')")))
    "x >= 5 OR y IN (1, 2) OR s NOT LIKE 'a%'"
    """
    return _push(filter, positive=True)


def is_positive(filter: Filter) -> bool:
    """Whether the filter is in the form that `push_negations` gives.

    >>> is_positive(Not(IsNull("a"))), is_positive(Not(Not(IsNull("a"))))
    (True, False)
    """
    match filter:
        case And(parts) | Or(parts):
            return all(not isinstance(part, Constant) and is_positive(part) for part in parts)
        case Not(part):
            return isinstance(part, TextTest | IsNull)
        case _:
            return True


def _push(filter: Filter, *, positive: bool) -> Filter:
    match filter:
        case Not(part):
            return _push(part, positive=not positive)
        case And(parts):
            pushed = (_push(part, positive=positive) for part in parts)
            return _all(pushed) if positive else _any(pushed)
        case Or(parts):
            pushed = (_push(part, positive=positive) for part in parts)
            return _any(pushed) if positive else _all(pushed)
        case Constant(truth):
            return Constant(truth is positive)
        case Comparison(attribute, operator, literal) if not positive:
            return Comparison(attribute, FLIPPED[operator], literal)
        case In(attribute, literals) if not positive:
            return conjunction(Comparison(attribute, Operator.NE, literal) for literal in literals)
        case _:
            return filter if positive else Not(filter)


def _all(parts: Iterable[Filter]) -> Filter:
    kept = [part for part in parts if part != _TRUE]
    if _FALSE in kept:
        return _FALSE
    return conjunction(kept) if kept else _TRUE


def _any(parts: Iterable[Filter]) -> Filter:
    kept = [part for part in parts if part != _FALSE]
    if _TRUE in kept:
        return _TRUE
    return disjunction(kept) if kept else _FALSE
