"""Covering over sets: the forest of filters, each under one that covers it. The roots are what a broker forwards.

    x ANY ─┬─ x > 3 ─── x = 5          add and remove one at a time
           └─ x = 1

Law: every filter is covered by its parent, so the roots together match whatever any member matches; and where covering
is decided attribute by attribute, no filter lies beside another that covers it. An undecided pair, or a cover that only
text tests bring about (`s < 'b'` of `s NOT LIKE '_%'`), may leave a root too many.

To find who covers a filter, and whom it covers, comparing with all would do. Instead each member is filed by the hull
of each attribute that it constrains (`routing.filters.neighbours`); the few whose hulls fit are compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar, cast

import numpy as np

from routing.filters.hull import tightest_box
from routing.filters.neighbours import Neighbours
from routing.filters.region import Region
from routing.filters.relation import Given, as_region, region_covers
from routing.filters.search import any_event

Key = TypeVar("Key", bound=Hashable)
_NO_ONE = -1
_NOWHERE = -2


class Forest(Generic[Key]):
    """Filters by key.

    >>> forest = Forest([("all", "x ANY"), ("five", "x = 5"), ("big", "x > 3")])
    >>> list(forest.roots()), forest.parent("five")
    (['all'], 'big')
    >>> forest.remove("all")
    >>> list(forest.roots())
    ['big']
    """

    def __init__(self, members: Iterable[tuple[Key, Given]] = ()) -> None:
        self._places: dict[Key, int] = {}
        self._keys: list[Key | None] = []
        self._regions: list[Region] = []
        self._children: list[dict[int, None]] = []
        self._parents = np.empty(0, np.int64)
        self._free: list[int] = []
        self._roots: dict[int, None] = {}
        self._empty: dict[Key, Region] = {}
        self._neighbours = Neighbours()
        for key, filter in members:
            self.add(key, filter)

    def __len__(self) -> int:
        return len(self._places) + len(self._empty)

    def __contains__(self, key: object) -> bool:
        return key in self._places or key in self._empty

    def roots(self) -> Iterator[Key]:
        """The filters that no other covers. One that matches nothing is no root: there is nothing to forward."""
        return map(self._key, self._roots)

    def parent(self, key: Key) -> Key | None:
        """The filter right above, or None for a root or for a filter that matches nothing."""
        if key in self._empty:
            return None
        above = int(self._parents[self._places[key]])
        return None if above == _NO_ONE else self._key(above)

    def children(self, key: Key) -> list[Key]:
        """The filters right below."""
        return [] if key in self._empty else list(map(self._key, self._children[self._places[key]]))

    def region(self, key: Key) -> Region:
        """The events that the member matches."""
        return self._empty[key] if key in self._empty else self._regions[self._places[key]]

    def add(self, key: Key, filter: Given) -> None:
        """Put the filter under one that covers it, and those beside it that it covers under it."""
        if key in self:
            raise ValueError(f"{key!r} is in the forest already")
        part = as_region(filter)
        if any_event(part) is False:
            self._empty[key] = part
            return
        place = self._seat(key, part)
        self._neighbours.add(place, tightest_box(part))
        self._settle(place, _NO_ONE)

    def remove(self, key: Key) -> None:
        """Take the filter out; those below it find another parent, or become roots."""
        if key in self._empty:
            del self._empty[key]
            return
        place = self._places.pop(key)
        above = int(self._parents[place])
        orphans = list(self._children[place])
        self._neighbours.remove(place)
        self._leave(place)
        self._vacate(place)
        for orphan in orphans:
            self._parents[orphan] = _NOWHERE
        for orphan in orphans:
            self._settle(orphan, above)

    def _settle(self, place: int, above: int) -> None:
        """Find the filter's parent, from `above` downwards, and take over those beside it that it covers."""
        mine = self._regions[place]
        around = self._neighbours.around(place)
        parents = self._parents[around]
        beside, under = around[parents == above].tolist(), dict[int, list[int]]()
        while (below := next((other for other in beside if self._covers(other, place)), None)) is not None:
            if not under:  # only now is it worth knowing who is below whom
                for other, parent in zip(around.tolist(), parents.tolist(), strict=True):
                    under.setdefault(parent, []).append(other)
            above, beside = below, under.get(below, [])
        inside = self._neighbours.inside(place)
        for other in inside[self._parents[inside] == above].tolist():
            if region_covers(mine, self._regions[other]) is True:
                self._leave(other)
                self._hang(other, place)
        self._hang(place, above)

    def _covers(self, other: int, place: int) -> bool:
        return region_covers(self._regions[other], self._regions[place]) is True

    def _hang(self, place: int, above: int) -> None:
        self._parents[place] = above
        (self._roots if above == _NO_ONE else self._children[above])[place] = None

    def _leave(self, place: int) -> None:
        above = int(self._parents[place])
        del (self._roots if above == _NO_ONE else self._children[above])[place]
        self._parents[place] = _NOWHERE

    def _seat(self, key: Key, part: Region) -> int:
        """A place for a new member; it hangs nowhere yet."""
        if not self._free:
            self._grow()
        place = self._free.pop()
        self._places[key] = place
        self._keys[place], self._regions[place], self._children[place] = key, part, {}
        return place

    def _vacate(self, place: int) -> None:
        self._keys[place], self._children[place] = None, {}
        self._free.append(place)

    def _grow(self) -> None:
        old, new = len(self._keys), max(64, 2 * len(self._keys))
        self._keys += [None] * (new - old)
        self._regions += [Region({})] * (new - old)
        self._children += [{} for _ in range(new - old)]
        self._parents = np.concatenate([self._parents, np.full(new - old, _NOWHERE, np.int64)])
        self._free = list(range(new - 1, old - 1, -1))

    def _key(self, place: int) -> Key:
        return cast(Key, self._keys[place])
