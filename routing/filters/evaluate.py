"""What a filter means for one event: the slow, obvious reference that every faster matcher is tested against.

Law: SQL's three-valued logic; None is UNKNOWN, and a filter matches iff it is TRUE. A comparison with an absent
attribute, with a value of another kind or with NaN is UNKNOWN, so neither it nor its negation matches (SPEC §3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from routing.filters.ast import And, Comparison, Constant, Filter, In, IsNull, Kind, Literal, Not, Operator, Or, Text
from routing.filters.exact import exact
from routing.filters.like import compile_like, like
from routing.filters.parse import parse


def matches(filter: Filter | str, event: Mapping[str, object], *, zone: tzinfo = UTC) -> bool:
    """Whether the filter, or the filter that the text says, matches the event.

    >>> matches("x > 3", {"x": 4}), matches("x > 3", {}), matches("NOT x > 3", {})
    (True, False, False)
    """
    tree = parse(filter, zone=zone) if isinstance(filter, str) else filter
    return evaluate(tree, event, zone=zone) is True


def evaluate(filter: Filter, event: Mapping[str, object], *, zone: tzinfo = UTC) -> bool | None:
    """TRUE, FALSE or UNKNOWN (None) of the event; datetimes without a zone are read in `zone`.

    >>> evaluate(parse("NOT (x < 5 AND y = 1)"), {"y": 2})
    True
    >>> evaluate(parse("x < 5"), {"x": "4"}) is None
    True
    """
    match filter:
        case Constant(truth):
            return truth
        case And(parts):
            return _all(evaluate(part, event, zone=zone) for part in parts)
        case Or(parts):
            return _any(evaluate(part, event, zone=zone) for part in parts)
        case Not(part):
            return _not(evaluate(part, event, zone=zone))
        case IsNull(attribute):
            return event.get(attribute) is None
        case Comparison(attribute, operator, literal):
            return _compare(event.get(attribute), operator, literal, zone)
        case In(attribute, literals):
            return _any(_compare(event.get(attribute), Operator.EQ, literal, zone) for literal in literals)
        case _:
            return _look(event.get(filter.attribute), filter.test, filter.text)


def _all(truths: Iterable[bool | None]) -> bool | None:
    seen = set(truths)
    return False if False in seen else None if None in seen else True


def _any(truths: Iterable[bool | None]) -> bool | None:
    seen = set(truths)
    return True if True in seen else None if None in seen else False


def _not(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


_COMPARE = {Operator.EQ: eq, Operator.NE: ne, Operator.LT: lt, Operator.LE: le, Operator.GT: gt, Operator.GE: ge}


def _compare(value: object, operator: Operator, literal: Literal, zone: tzinfo) -> bool | None:
    left, right = _ordered(value, zone), _ordered(literal.value, zone)
    if left is None or right is None or left[0] is not right[0]:
        return None
    return bool(_COMPARE[operator](left[1], right[1]))


def _ordered(value: object, zone: tzinfo) -> tuple[Kind, Any] | None:
    """The kind of a value, and something that orders as its kind does; none for a value that compares with nothing."""
    match value:
        case bool():
            return Kind.BOOLEAN, value
        case int() | float() | Decimal():
            number = exact(value)
            return None if isinstance(number, Decimal) and number.is_nan() else (Kind.NUMBER, number)
        case str():
            return Kind.STRING, value
        case datetime():
            return Kind.TIMESTAMP, _since_epoch(value, zone)
        case date():
            return Kind.DATE, value
        case _:
            return None


def _since_epoch(moment: datetime, zone: tzinfo) -> timedelta:
    """The instant. Not `astimezone`, which overflows at the ends, nor the wall clock, which repeats an hour a year."""
    offset = moment.utcoffset()
    if offset is None:
        offset = moment.replace(tzinfo=zone).utcoffset()
    wall = datetime.combine(moment.date(), moment.time())
    return wall - datetime(1970, 1, 1) - (offset or timedelta(0))


def _look(value: object, test: Text, text: str) -> bool | None:
    if not isinstance(value, str):
        return None
    match test:
        case Text.PREFIX:
            return value.startswith(text)
        case Text.SUFFIX:
            return value.endswith(text)
        case Text.SUBSTRING:
            return text in value
        case Text.LIKE:
            return like(compile_like(text), value)
