"""A filter as a set of events: one set of values per attribute, and clauses of alternatives where there is an OR.

Law: a region holds exactly the events that the filter matches. Absence and types are values here, so a region has a
true complement, which a filter has not (an event without `x` matches neither `x < 5` nor `x >= 5`), and every question
of the algebra is one question: does this region hold any event?
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from routing.filters import line
from routing.filters.ast import And, Comparison, Constant, Filter, In, IsNull, Not, Or, Text, TextTest
from routing.filters.like import compile_like
from routing.filters.negation import FLIPPED
from routing.filters.values import EVERY_VALUE, Values, text_values
from routing.filters.words import BUDGET, Pattern

Box: TypeAlias = Mapping[str, Values]


class Region(NamedTuple):
    """The events in the box that are also, for each clause, in one of its alternatives."""

    box: Box
    clauses: tuple[tuple[Region, ...], ...] = ()

    def holds(self, event: Mapping[str, line.Cut]) -> bool:
        """Whether the event, given by the cut before each value (absence if none), is in the region."""
        return all(values.holds(event.get(name, line.ABSENT)) for name, values in self.box.items()) and all(
            any(part.holds(event) for part in clause) for clause in self.clauses
        )


EVERYTHING = Region({})
NOTHING = Region({}, ((),))


def region(filter: Filter) -> Region:
    """The events that the filter matches.

    >>> from routing.filters.parse import parse
    >>> region(parse("x > 3 AND x <= 5")).box["x"].spans
    ((3, 3, 1), (3, 5, 1))
    >>> region(parse("x > 3 AND NOT x > 3")) is NOTHING
    True
    """
    return _region(filter, True)


def _region(filter: Filter, positive: bool) -> Region:
    """The events for which the filter is true or, if not positive, false: De Morgan holds in three-valued logic."""
    if isinstance(filter, And):
        return _all(filter.parts, positive) if positive else union(_region(part, positive) for part in filter.parts)
    if isinstance(filter, Or):
        return union(_region(part, positive) for part in filter.parts) if positive else _all(filter.parts, positive)
    if isinstance(filter, Not):
        return _region(filter.part, not positive)
    if isinstance(filter, Constant):
        return EVERYTHING if filter.value is positive else NOTHING
    return leaf(filter.attribute, _VALUES[type(filter)](filter, positive))


def _all(parts: tuple[Filter, ...], positive: bool) -> Region:
    """The intersection of the parts' regions. Leaves, which most parts are, narrow the box without a detour."""
    box: dict[str, Values] = {}
    others: list[Region] = []
    for part in parts:
        values = _VALUES.get(type(part))
        if values is None:
            others.append(_region(part, positive))
            continue
        name = part.attribute  # type: ignore[union-attr]
        more = values(part, positive)
        before = box.get(name)
        box[name] = both = more if before is None else before & more
        if not both.spans:
            return NOTHING
    return intersection([Region(box), *others]) if others else Region(box)


def _compared(filter: Comparison, positive: bool) -> Values:
    return Values(line.compared(filter.operator if positive else FLIPPED[filter.operator], filter.literal))


def _among(filter: In, positive: bool) -> Values:
    """NOT IN wants a value of the kind of every literal: of two kinds there is none."""
    points = line.among(filter.literals)
    if positive:
        return Values(points)
    kinds = {literal.kind for literal in filter.literals}
    return Values(line.intersection(line.DOMAIN[kinds.pop()], line.complement(points)) if len(kinds) == 1 else ())


def _null(filter: IsNull, positive: bool) -> Values:
    return Values(line.ABSENCE if positive else line.PRESENCE)


def _text(filter: TextTest, positive: bool) -> Values:
    if filter.test is not Text.PREFIX:
        values = text_values(Pattern(filter.test, filter.text), passed=positive)
        if filter.test is not Text.LIKE or not positive:
            return values
        begins = compile_like(filter.text)[0]  # with a text, perhaps: the spans may say so
        return values._replace(spans=line.prefixed(begins)) if isinstance(begins, str) else values
    spans = line.prefixed(filter.text)
    return Values(spans if positive else line.intersection(line.STRINGS, line.complement(spans)))


_VALUES: dict[type, Callable[[Any, bool], Values]] = {
    Comparison: _compared,
    In: _among,
    IsNull: _null,
    TextTest: _text,
}


def leaf(name: str, values: Values) -> Region:
    """The events whose attribute has one of the values."""
    if not values.spans:
        return NOTHING
    return EVERYTHING if values == EVERY_VALUE else Region({name: values})


def intersection(parts: Iterable[Region]) -> Region:
    """The events in all parts."""
    box: dict[str, Values] = {}
    clauses: list[tuple[Region, ...]] = []
    for part in parts:
        if part is NOTHING or not narrow(box, part.box):
            return NOTHING
        clauses += part.clauses
    if not box and not clauses:
        return EVERYTHING
    return Region(box, tuple(clauses))


def narrow(box: dict[str, Values], other: Box) -> bool:
    """Narrow the box to what the other allows as well; whether anything is left."""
    for name, values in other.items():
        before = box.get(name)
        box[name] = both = values if before is None else before & values
        if not both.spans:
            return False
    return True


def box_inhabited(box: Box, budget: int = BUDGET) -> bool | None:
    """Whether each attribute has a value to take; None if that takes more steps than the budget."""
    sure = True
    for values in box.values():
        answer = values.any()
        if answer.found is False:
            return False
        budget -= answer.steps
        sure = sure and answer.found is True
        if budget < 0:
            return None
    return True if sure else None


def union(parts: Iterable[Region]) -> Region:
    """The events in any part. Plain constraints on one attribute become one, so that they need no clause."""
    plain: dict[str, list[Values]] = {}
    others: list[Region] = []
    for part in parts:
        if not part.clauses and len(part.box) == 1:
            [(name, values)] = part.box.items()
            if values.plain:
                plain.setdefault(name, []).append(values)
                continue
        if part is not NOTHING:
            others.append(part)
    alternatives = [*(leaf(name, _any_of(some)) for name, some in plain.items()), *others]
    if EVERYTHING in alternatives:
        return EVERYTHING
    if len(alternatives) == 1:
        return alternatives[0]
    return Region({}, (tuple(alternatives),)) if alternatives else NOTHING


def _any_of(some: list[Values]) -> Values:
    if len(some) == 1:
        return some[0]
    return Values(line.joined(pair for values in some for pair in line.pairs(values.spans)))


def complement(part: Region) -> Region:
    """The events that are not in the part."""
    outside = [leaf(name, values) for name, inside in part.box.items() for values in inside.complement()]
    none_of = [intersection(map(complement, clause)) for clause in part.clauses]
    return union([*outside, *none_of])
