"""The paths of many pairs of a trail and a party at once.

Law: each is what `Chart.path` says. What turns where it was published, and came over no boundary, is most of what there
is: of that only the scope where it turns is looked for, for all pairs together, among the bits of the scopes above the
publisher and above the consumer; the way down depends on nothing else. Of other pairs each is looked up by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udfs.places import Places

Path: TypeAlias = tuple[str, ...]
Numbers: TypeAlias = NDArray[np.int64]

_PATHS = pa.list_(pa.string())
_AT_ONCE = 1 << 21
"""Words of bits that are compared at once."""
_TABLE = 1 << 23
"""Pairs of a trail and a party of which a table is kept: 32 MB."""


@dataclass(frozen=True, eq=False)
class Paths:
    """`direct` are the scopes of each trail that only turns, None of another; `under` those above each party.

    `single` gives the path of any pair.
    """

    places: Places
    direct: Sequence[frozenset[str] | None]
    under: Sequence[frozenset[str]]
    single: Callable[[int, int], Path]
    _paths: list[Path] = field(default_factory=list)
    _numbers: dict[Path, int] = field(default_factory=dict)
    _pairs: dict[int, int] = field(default_factory=dict)
    _ways: dict[int, int] = field(default_factory=dict)
    _texts: list[pa.ListArray] = field(default_factory=list)

    def of(self, trails: Numbers, parties: Numbers) -> pa.ListArray:
        """The path of each pair."""
        pairs = trails * len(self.under) + parties
        if not len(self._known):
            used, rows = np.unique(self._numbered(pairs), return_inverse=True)
            return pa.array([self._paths[number] for number in used.tolist()], _PATHS).take(pa.array(rows))
        numbers = self._known[pairs]
        if (new := numbers < 0).any():
            distinct = np.unique(pairs[new])
            self._known[distinct] = self._numbered(distinct)
            numbers = self._known[pairs]
        if not self._texts or len(self._texts[0]) != len(self._paths):
            self._texts[:] = [pa.array(self._paths, _PATHS)]
        return self._texts[0].take(pa.array(numbers))

    @cached_property
    def _known(self) -> NDArray[np.int32]:
        """The number of each pair's path, -1 if it was not looked up yet; empty if there are too many pairs."""
        size = len(self.direct) * len(self.under)
        return np.full(size if size <= _TABLE else 0, -1, np.int32)

    def _numbered(self, every: Numbers) -> Numbers:
        """The numbers of the paths of these pairs."""
        pairs, places = np.unique(every, return_inverse=True)
        trail, party = np.divmod(pairs, len(self.under))
        turns, numbers = self._turns[trail], np.empty(len(pairs), np.int64)
        numbers[turns] = self._turned(trail[turns], party[turns])
        numbers[~turns] = [self._pair(pair) for pair in pairs[~turns].tolist()]
        return numbers[places]

    def _turned(self, trails: Numbers, parties: Numbers) -> Numbers:
        """The numbers of the paths of what turns in the first scope that is above both."""
        ways, places = np.unique(self._tops(trails, parties) * len(self.under) + parties, return_inverse=True)
        return np.array([self._way(way) for way in ways.tolist()], np.int64)[places]

    def _tops(self, trails: Numbers, parties: Numbers) -> Numbers:
        """The first scope above both of each pair, counted from 1; 0 if there is none."""
        found = np.zeros(len(trails), np.int64)
        above, mine = self._rows(trails, self._closure)
        below, theirs = self._rows(parties, self._origins)
        step = max(1, _AT_ONCE // self._words)
        for start in range(0, len(trails), step):
            piece = slice(start, start + step)
            shared = above[mine[piece]] & below[theirs[piece]]
            word = (shared != 0).argmax(axis=1)
            bits = shared[np.arange(len(shared)), word]
            lowest = np.frexp((bits & (~bits + np.uint64(1))).astype(np.float64))[1].astype(np.int64) - 1
            found[piece] = np.where(bits == 0, 0, word * 64 + lowest + 1)
        return found

    def _rows(self, numbers: Numbers, bits: Callable[[int], int]) -> tuple[NDArray[np.uint64], Numbers]:
        """A row of bits for each number that occurs, and the row of each."""
        distinct, rows = np.unique(numbers, return_inverse=True)
        packed = b"".join(bits(number).to_bytes(8 * self._words, "little") for number in distinct.tolist())
        return np.frombuffer(packed, np.uint64).reshape(len(distinct), self._words), rows

    def _closure(self, trail: int) -> int:
        return self.places.closure(self.direct[trail] or frozenset())

    def _origins(self, party: int) -> int:
        return self.places.origins(self.under[party])

    @cached_property
    def _words(self) -> int:
        return len(self.places.names) // 64 + 1

    @cached_property
    def _turns(self) -> NDArray[np.bool_]:
        return np.array([direct is not None for direct in self.direct], np.bool_)

    def _way(self, way: int) -> int:
        """The number of the path from a scope down to a party; the empty one, if it is from none."""
        if way not in self._ways:
            top, party = divmod(way, len(self.under))
            path = self.places.descent(self.places.names[top - 1], self.under[party]) if top else ()
            self._ways[way] = self._number(path)
        return self._ways[way]

    def _pair(self, pair: int) -> int:
        if pair not in self._pairs:
            path = self.single(*divmod(pair, len(self.under)))
            self._pairs[pair] = self._number(path)
        return self._pairs[pair]

    def _number(self, path: Path) -> int:
        if path not in self._numbers:
            self._numbers[path] = len(self._paths)
            self._paths.append(path)
        return self._numbers[path]
