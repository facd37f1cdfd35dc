"""Boxes back to filters: each set of values in its shortest plain spelling.

Law: a set has one spelling, and `region(spelled(boxes))` holds the events of the boxes. Points are `=` or IN, a span
is its two comparisons, spans parted only by points or prefixes are one span with `<>` or NOT LIKE, and a prefix is
LIKE.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Any

from routing.filters import line
from routing.filters.ast import (
    Comparison,
    Constant,
    Filter,
    In,
    IsNull,
    Kind,
    Literal,
    Not,
    Operator,
    Text,
    TextTest,
    conjunction,
    disjunction,
)
from routing.filters.like import compile_like
from routing.filters.line import DOMAIN, EPOCH, Cut, Spans
from routing.filters.region import Box
from routing.filters.values import Values
from routing.filters.words import in_order


def spelled(boxes: Iterable[Box]) -> Filter:
    """The filter that matches what any of the boxes holds.

    >>> from routing.filters import parse, to_sql
    >>> from routing.filters.region import region
    >>> to_sql(spelled([region(parse("y ANY AND NOT (x < 3 AND x ANY) AND x <> 7 AND x <= 9")).box]))
    'x >= 3 AND x <= 9 AND x <> 7 AND y IS NOT NULL'
    """
    parts = [spelled_box(box) for box in boxes]
    if not parts:
        return Constant(False)
    return Constant(True) if Constant(True) in parts else disjunction(parts)


def spelled_box(box: Box) -> Filter:
    """The conjunction that the box is, its attributes in order of their names."""
    parts = [_values(name, box[name]) for name in sorted(box)]
    return conjunction(parts) if parts else Constant(True)


def _values(name: str, values: Values) -> Filter:
    tests: list[Filter] = [TextTest(name, *pattern) for pattern in in_order(values.required)]
    tests += [Not(TextTest(name, *pattern)) for pattern in in_order(values.refused)]
    if not tests:
        return _spans(name, values.spans)
    return conjunction(tests if values.spans in _implied(values) else [_spans(name, values.spans), *tests])


def _implied(values: Values) -> list[Spans]:
    """The spans that the tests say already: any string, or those that begin as a LIKE does."""
    likes = (compile_like(pattern.text)[0] for pattern in values.required if pattern.test is Text.LIKE)
    return [line.STRINGS, *(line.prefixed(begins) for begins in likes if isinstance(begins, str))]


def _spans(name: str, spans: Spans) -> Filter:
    """The parts of the line one after the other; presence as a whole has a spelling of its own."""
    null = [IsNull(name)] if line.contains(spans, line.ABSENT) else []
    if line.contains(spans, line.OTHER):
        return disjunction([*null, Not(IsNull(name))])
    points: list[Literal] = []
    runs: list[Filter] = []
    for kind, (start, end) in DOMAIN.items():
        _kind(name, kind, line.intersection(spans, (start, end)), points, runs)
    listed: list[Filter] = []
    if points:
        equals = Comparison(name, Operator.EQ, points[0])
        listed = [equals if len(points) == 1 else In(name, tuple(points))]
    return disjunction([*null, *listed, *runs])


def _kind(name: str, kind: Kind, spans: Spans, points: list[Literal], runs: list[Filter]) -> None:
    """The spans of one kind: its points, and its runs of spans that only points and prefixes part."""
    if kind is Kind.BOOLEAN:
        points += [Literal(kind, truth) for truth in (False, True) if line.within(_around(kind, truth), spans)]
        return
    run: list[Cut] = []
    for low, high in line.pairs(spans):
        point = _point(kind, low, high)
        if point is not None:
            points.append(Literal(kind, point))
        elif run and _hole(name, kind, run[-1], low):
            run += (low, high)
        else:
            runs += _run(name, kind, run)
            run = [low, high]
    runs += _run(name, kind, run)


def _run(name: str, kind: Kind, run: list[Cut]) -> Iterator[Filter]:
    """The run as a conjunction of its two ends and its holes."""
    if not run:
        return
    start, end = DOMAIN[kind]
    if kind is Kind.STRING and len(run) == 2 and (prefix := _prefix(run[0], run[1])) is not None:
        yield TextTest(name, Text.PREFIX, prefix)
        return
    low = [_bound(name, kind, run[0], Operator.GE, Operator.GT)] if run[0] != start else []
    high = [_bound(name, kind, run[-1], Operator.LT, Operator.LE)] if run[-1] != end else []
    holes = [_hole(name, kind, run[at], run[at + 1]) for at in range(1, len(run) - 1, 2)]
    parts = [part for part in (*low, *high, *holes) if part]
    if parts:
        yield conjunction(parts)
    else:  # all values of the kind, which has no word of its own
        middle = Literal(kind, _MIDDLE[kind])
        yield Comparison(name, Operator.LT, middle)
        yield Comparison(name, Operator.GE, middle)


def _hole(name: str, kind: Kind, low: Cut, high: Cut) -> Filter | None:
    """What leaves out just these values, if there is such a predicate."""
    point = _point(kind, low, high)
    if point is not None:
        return Comparison(name, Operator.NE, Literal(kind, point))
    prefix = _prefix(low, high) if kind is Kind.STRING else None
    return Not(TextTest(name, Text.PREFIX, prefix)) if prefix else None


def _point(kind: Kind, low: Cut, high: Cut) -> Any:
    """The value that alone lies between the cuts, or None."""
    value = _VALUE[kind](low)
    return value if value is not None and _around(kind, value) == (low, high) else None


def _prefix(low: Cut, high: Cut) -> str | None:
    """The prefix whose strings lie between the cuts, or None."""
    text = _text(low)
    return text if line.after_prefix(text) == high else None


def _bound(name: str, kind: Kind, cut: Cut, at: Operator, past: Operator) -> Filter:
    """One end of a span: at the value after the cut (`>=`, `<`) or, where that reads better, past the one before it."""
    before = _before(kind, cut)
    if before is not None:
        return Comparison(name, past, Literal(kind, before))
    return Comparison(name, at, Literal(kind, _VALUE[kind](cut)))


def _before(kind: Kind, cut: Cut) -> Any:
    """The value right before the cut, if the cut is better spelled by it."""
    if kind is Kind.NUMBER:
        return cut[1] if cut[2] else None
    if kind is Kind.STRING:
        return cut[1][:-1] if cut[1].endswith("\0") else None
    value = _VALUE[kind](cut)
    return _VALUE[kind]((cut[0], cut[1] - 1)) if value is None else None


def _around(kind: Kind, value: Any) -> Spans:
    return line.compared(Operator.EQ, Literal(kind, value))


def _number(cut: Cut) -> Any:
    return cut[1] if len(cut) > 1 and not cut[2] else None


def _day(cut: Cut) -> date | None:
    return date.fromordinal(cut[1]) if len(cut) > 1 and 1 <= cut[1] <= date.max.toordinal() else None


def _instant(cut: Cut) -> datetime | None:
    try:
        return EPOCH + timedelta(microseconds=cut[1]) if len(cut) > 1 else None
    except OverflowError:  # a microsecond past the last that a literal can name
        return None


def _text(cut: Cut) -> str:
    return cut[1] if len(cut) > 1 else ""


_VALUE: dict[Kind, Callable[[Cut], Any]] = {
    Kind.NUMBER: _number,
    Kind.DATE: _day,
    Kind.TIMESTAMP: _instant,
    Kind.STRING: _text,
}
_MIDDLE: dict[Kind, Any] = {Kind.NUMBER: 0, Kind.DATE: EPOCH.date(), Kind.TIMESTAMP: EPOCH}
