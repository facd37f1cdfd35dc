"""The normal form: an OR of conjunctions, each with one set of values per attribute, spelled in one way.

Law: the normal form matches the same events, and is its own normal form. No conjunction in it is empty or lies within
another, and no two without text tests differ in one attribute only: those are one. `size_of_normal` says beforehand how
many conjunctions have to be written out on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from routing.errors import FilterTooLarge
from routing.filters import line
from routing.filters.ast import Filter
from routing.filters.parse import parse
from routing.filters.printer import to_sql
from routing.filters.region import NOTHING, Box, Region, box_inhabited, narrow, region
from routing.filters.spell import spelled, spelled_box
from routing.filters.values import EVERY_VALUE, Values
from routing.filters.words import BUDGET

LARGEST = 256


def normalise(filter: str | Filter, *, limit: int = LARGEST) -> Filter:
    """The normal form of the filter; FilterTooLarge if it would take more than `limit` conjunctions.

    >>> to_sql(normalise("NOT (x < 5 OR (y <> 1 AND x <> 7)) OR x = 9 AND x = 10"))
    'x = 7 OR x >= 5 AND y = 1'
    """
    whole = region(as_tree(filter))
    size = size_of(whole)
    if size > limit:
        raise FilterTooLarge(
            f"the normal form has up to {size} conjunctions, more than limit = {limit}",
            column=1,
            hint="ask size_of_normal before, or raise the limit",
        )
    return spelled(fewest(boxes(whole)))


def is_normal(filter: str | Filter, *, limit: int = LARGEST) -> bool:
    """Whether the filter is in normal form, of at most `limit` conjunctions.

    >>> is_normal("x = 1 OR x = 2"), is_normal("x IN (1, 2)")
    (False, True)
    """
    tree = as_tree(filter)
    return size_of_normal(tree) <= limit and normalise(tree, limit=limit) == tree


def size_of_normal(filter: str | Filter) -> int:
    """How many conjunctions the filter has when its ORs are written out; the normal form has no more.

    >>> size_of_normal(" AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(30))) == 2**30
    True
    """
    return size_of(region(as_tree(filter)))


def as_tree(filter: str | Filter) -> Filter:
    """The filter, parsed if it is text; what is neither the parser refuses."""
    return filter if isinstance(filter, Filter) else parse(filter)


def size_of(part: Region) -> int:
    """The same of a region."""
    return prod(sum(map(size_of, clause)) for clause in part.clauses)


def boxes(part: Region) -> list[Box]:
    """The boxes whose union the region is; as many as its size, or fewer."""
    found: list[Box] = [] if part is NOTHING else [part.box]
    for clause in part.clauses:
        alternatives = [box for alternative in clause for box in boxes(alternative)]
        found = list(_both(found, alternatives))
    return found


def _both(some: list[Box], others: list[Box]) -> Iterator[Box]:
    for one in some:
        for other in others:
            box = dict(one)
            if narrow(box, other):
                yield box


def fewest(found: list[Box]) -> list[Box]:
    """The same union: without empty boxes and those within another, with those joined that differ in one attribute."""
    left = inhabited_boxes(found)
    while True:
        before = len(left)
        left = _outermost(joined_boxes(left))
        if len(left) == before:
            return in_order(left)


def inhabited_boxes(found: list[Box], budget: int = BUDGET) -> list[Box]:
    """Without the boxes that are known to be empty; those that the budget does not reach stay."""
    kept = []
    for box in found:
        if budget < 0 or box_inhabited(box, budget) is not False:
            kept.append(box)
        budget -= sum(values.any().steps for values in box.values()) if budget >= 0 else 0
    return kept


def in_order(some: list[Box]) -> list[Box]:
    """The boxes as their texts sort."""
    return sorted(some, key=lambda box: to_sql(spelled_box(box)))


def joined_boxes(some: list[Box]) -> list[Box]:
    """Boxes that differ in one attribute only are joined, which changes no event's fate; as often as it can be done."""
    while True:
        before = len(some)
        for name in sorted({name for box in some for name in box}):
            some = _joined_in(name, some)
        if len(some) == before:
            return some


def _joined_in(name: str, some: list[Box]) -> list[Box]:
    """The boxes that are equal but for this attribute become one, with the union of its values."""
    together: dict[object, list[Box]] = {}
    for at, box in enumerate(some):
        mine = box.get(name)
        alike: object = at if mine is None or not mine.plain else frozenset(box.items() - {(name, mine)})
        together.setdefault(alike, []).append(box)
    return [_join(name, alike) if len(alike) > 1 else alike[0] for alike in together.values()]


def _join(name: str, alike: list[Box]) -> Box:
    spans = line.joined(pair for box in alike for pair in line.pairs(box[name].spans))
    rest = {other: values for other, values in alike[0].items() if other != name}
    return rest if spans == line.EVERYTHING else {**rest, name: Values(spans)}


def _outermost(some: list[Box]) -> list[Box]:
    """The boxes that lie within no other; of equal ones the first."""
    kept: list[Box] = []
    for box in sorted(some, key=len):
        if not any(box_within(box, other) for other in kept):
            kept = [other for other in kept if not box_within(other, box)]
            kept.append(box)
    return kept


def box_within(one: Box, other: Box) -> bool:
    """Whether one lies within the other, where comparing attribute by attribute shows it."""
    for name, values in other.items():
        mine = one.get(name, EVERY_VALUE)
        tests = values.required <= mine.required and values.refused <= mine.refused
        if not (tests and line.within(mine.spans, values.spans)):
            return False
    return True
