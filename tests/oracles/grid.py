"""Sampling: events at and around all constants of some filters, and what is matched among them.

Law: of the values of one attribute only those are kept that some leaf tells apart; and if the grid is `exact`, all of
these are there, in all combinations. Then a counterexample that is not found does not exist.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from routing.filters import Filter, evaluate
from routing.filters.ast import And, Constant, Leaf, Not, Or
from tests.oracles.values import values

Event = dict[str, object]

LARGEST = 1 << 18  # events of a grid: its masks are integers of as many bits
SAMPLE = 1 << 10  # events that are drawn where all would be more than that
STATES = 4000  # joint states of the text tests of one attribute that are looked at


def counterexample_to_cover(f: Filter, g: Filter, grid: Grid | None = None) -> Event | None:
    """An event that g matches and f does not.

    >>> from routing.filters import parse
    >>> counterexample_to_cover(parse("x < 5 OR x >= 5"), parse("y = 1"))
    {'y': 1}
    """
    grid = grid or Grid([f, g])
    return grid.first(grid.matched(g) & ~grid.matched(f))


def witness_of_overlap(f: Filter, g: Filter, grid: Grid | None = None) -> Event | None:
    """An event that both match."""
    grid = grid or Grid([f, g])
    return grid.first(grid.matched(f) & grid.matched(g))


def witness(f: Filter, grid: Grid | None = None) -> Event | None:
    """An event that f matches."""
    grid = grid or Grid([f])
    return grid.first(grid.matched(f))


class Grid:
    """Events for some filters. A set of them is an integer: bit n stands for event n."""

    def __init__(self, filters: Iterable[Filter], *, states: int = STATES, seed: int = 0) -> None:
        tests: dict[str, dict[Leaf, None]] = {}
        for leaf in (leaf for filter in filters for leaf in leaves(filter)):
            tests.setdefault(leaf.attribute, {})[leaf] = None
        self.columns = {name: Column(name, list(found), states) for name, found in tests.items()}
        sizes = [len(column.values) for column in self.columns.values()]
        self.exact = prod(sizes) <= LARGEST and all(column.exact for column in self.columns.values())
        if prod(sizes) <= LARGEST:
            self.events = prod(sizes)
            masks = _masks_of_all(sizes)
        else:
            self.events = SAMPLE
            masks = _masks_of_some(sizes, random.Random(seed))
        self._chosen = dict(zip(self.columns, masks, strict=True))
        self._truths: dict[Filter, tuple[int, int]] = {
            leaf: tuple(
                sum(mask for mask, truth in zip(self._chosen[column.name], truths, strict=True) if truth is wanted)
                for wanted in (True, False)
            )
            for column in self.columns.values()
            for leaf, truths in column.truths.items()
        }

    def matched(self, filter: Filter) -> int:
        """The events that the filter matches."""
        return self.truth(filter)[0]

    def truth(self, filter: Filter) -> tuple[int, int]:
        """The events of which the filter is TRUE, and those of which it is FALSE."""
        found = self._truths.get(filter)
        if found is None:
            found = self._truths[filter] = self._connected(filter)
        return found

    def first(self, events: int) -> Event | None:
        """One event of the set."""
        if not events:
            return None
        bit = events & -events
        return {
            name: value
            for name, column in self.columns.items()
            for mask, value in zip(self._chosen[name], column.values, strict=True)
            if mask & bit and value is not None
        }

    def project(self, events: int, name: str) -> set[int]:
        """The values that the attribute has in these events, as places in the column."""
        return {place for place, mask in enumerate(self._chosen[name]) if mask & events}

    def box(self, sides: dict[str, set[int]]) -> int:
        """The events whose every attribute has one of the values."""
        events = (1 << self.events) - 1
        for name, places in sides.items():
            events &= sum(self._chosen[name][place] for place in places)
        return events

    def _connected(self, filter: Filter) -> tuple[int, int]:
        match filter:
            case Constant(value):
                every = (1 << self.events) - 1
                return (every, 0) if value else (0, every)
            case Not(part):
                true, false = self.truth(part)
                return false, true
            case And(parts):
                true, false = (1 << self.events) - 1, 0
                for part in parts:
                    more = self.truth(part)
                    true, false = true & more[0], false | more[1]
                return true, false
            case Or(parts):
                true, false = 0, (1 << self.events) - 1
                for part in parts:
                    more = self.truth(part)
                    true, false = true | more[0], false & more[1]
                return true, false
        raise TypeError(f"{filter} is a leaf of no filter of the grid")


def _masks_of_all(sizes: list[int]) -> list[list[int]]:
    """For each attribute and each of its values the events that have it, of the product of all."""
    masks, stride, events = [], 1, prod(sizes)
    for size in sizes:
        period = stride * size
        repeated = ((1 << events) - 1) // ((1 << period) - 1)
        run = (1 << stride) - 1
        masks.append([repeated * (run << place * stride) for place in range(size)])
        stride = period
    return masks


def _masks_of_some(sizes: list[int], draw: random.Random) -> list[list[int]]:
    masks = [[0] * size for size in sizes]
    for event in range(SAMPLE):
        for mask in masks:
            mask[draw.randrange(len(mask))] |= 1 << event
    return masks


class Column:
    """The values of one attribute that its leaves tell apart (None is absence), and the leaves' truth of each."""

    def __init__(self, name: str, tests: Sequence[Leaf], states: int) -> None:
        self.name, self.tests = name, tests
        self.pool, self.exact = values(tests, states)
        self._places: dict[tuple[bool | None, ...], int] = {}
        self.values = [value for value in self.pool if self._is_new(value)]
        self.truths = dict(zip(tests, zip(*self._places, strict=True), strict=True))

    def place(self, value: object) -> int:
        """Where the value is, or the one that no leaf tells from it."""
        return self._places[self._seen(value)]

    def _is_new(self, value: object) -> bool:
        place = len(self._places)
        return self._places.setdefault(self._seen(value), place) == place

    def _seen(self, value: object) -> tuple[bool | None, ...]:
        event = {} if value is None else {self.name: value}
        return tuple(evaluate(leaf, event) for leaf in self.tests)


def leaves(filter: Filter) -> Iterator[Leaf]:
    """The predicates of the filter but TRUE and FALSE."""
    waiting = [filter]
    while waiting:
        node = waiting.pop()
        if isinstance(node, And | Or):
            waiting.extend(reversed(node.parts))
        elif isinstance(node, Not):
            waiting.append(node.part)
        elif not isinstance(node, Constant):
            yield node
