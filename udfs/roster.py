"""Who holds each subscription of a program, and what each event's matches are per consumer.

Law: subscriptions are sorted by consumer and id, so the matches of an event come out grouped, and one notification per
consumer needs no shuffle. A change does not touch the large program: a second, small one holds what is new, `dead` has
the positions that count no more, and `before` says where in the order of the first each of the second belongs. What
comes out is the same as from one program of all. It comes in pieces of some `PIECE` matches, however many there are.

    first      a/1   a/3   b/1   d/1          dead: 2 (b/1)
    second        a/2         c/1             before: 1, 3
    together   a/1 a/2 a/3 c/1 d/1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udfs.chart import Chart
from udfs.jit import compiled
from udfs.program import Program
from udfs.tokens import Visible

ROWS = 16_384
PIECE = 1 << 22
"""Matches, and so strings, that are to be in memory at once; a piece that turns out to have four times as many is
given up and taken in parts."""


@dataclass(frozen=True, eq=False)
class Roster:
    """A program and the consumer of each of its positions: numbers into names. With scopes, each name's party too."""

    program: Program
    numbers: NDArray[np.int32]
    names: pa.StringArray
    parties: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))


@dataclass(frozen=True, eq=False)
class Patch:
    """What has changed since the first roster was made. The second's names are numbered on from the first's."""

    second: Roster
    before: NDArray[np.int64]
    dead: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Sight:
    """Who may see each event of a batch: a chart, and the events' trails in it."""

    chart: Chart
    trails: NDArray[np.int64]

    def slice(self, start: int, length: int) -> Sight:
        """Of so many events from the start on."""
        return Sight(self.chart, self.trails[start : start + length])

    def of(self, parties: NDArray[np.int32]) -> Visible:
        """For positions of these parties."""
        trails, rows = np.unique(self.trails, return_inverse=True)
        return Visible(rows.astype(np.int32), self.chart.visible(trails), parties)


def matches(
    batch: pa.RecordBatch, first: Roster, patch: Patch | None = None, sight: Sight | None = None
) -> Iterator[pa.ListArray]:
    """For each event an entry per consumer: its name, and the ids of its subscriptions that matched; piece by piece.

    With a sight only those match who may see the event, and an entry has the path too.
    """
    start, step = 0, ROWS
    while start < batch.num_rows:
        seen = sight.slice(start, step) if sight else None
        try:
            piece, found = _piece(batch.slice(start, step), first, patch, seen, None if step == 1 else 4 * PIECE)
        except (OverflowError, pa.ArrowInvalid):  # too many matches, or longer ids than one array holds
            if step == 1:
                raise
            step = max(1, min(step, batch.num_rows - start) // 16)
            continue
        yield piece
        start += step
        step = max(1, min(ROWS, step * PIECE // max(found, 1)))


def _piece(
    batch: pa.RecordBatch, first: Roster, patch: Patch | None, sight: Sight | None, most: int | None
) -> tuple[pa.ListArray, int]:
    parties = np.concatenate([first.parties, patch.second.parties]) if patch else first.parties
    found = _matched(batch, first, parties, sight, most)
    if patch is None:
        positions, offsets = found.flatten().to_numpy(), _offsets(found)
    else:
        second = _matched(batch, patch.second, parties, sight, most)
        positions, offsets = merged(found, second, patch, len(first.numbers))
    new = np.flatnonzero(positions >= len(first.numbers))
    old = np.flatnonzero(positions < len(first.numbers)) if len(new) else None
    both = _Both(first, patch.second if patch and len(new) else None, old, new)
    return _entries(positions, offsets, both, parties, sight), len(positions)


def _matched(
    batch: pa.RecordBatch, roster: Roster, parties: NDArray[np.int32], sight: Sight | None, most: int | None
) -> pa.ListArray:
    visible = sight.of(parties[roster.numbers]) if sight else None
    return roster.program.match(batch, visible=visible, most=most)


def merged(
    first: pa.ListArray, second: pa.ListArray, patch: Patch, size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Positions and offsets of both, without the dead; those of the second are numbered on from the first's size."""
    dead = np.zeros(size, np.bool_)
    dead[patch.dead] = True
    offsets = np.zeros(len(first) + 1, np.int64)
    a, b = first.flatten().to_numpy(), second.flatten().to_numpy()
    positions = np.empty(len(a) + len(b), np.int64)
    total = _merge(a, _offsets(first), b, _offsets(second), dead, patch.before, offsets, positions)
    return positions[:total], offsets


@compiled
def _merge(a: Any, a_starts: Any, b: Any, b_starts: Any, dead: Any, before: Any, offsets: Any, positions: Any) -> Any:
    """Two ascending lists per event into one, by place in the common order; returns how many are left."""
    at, split = 0, len(dead)
    for event in range(len(a_starts) - 1):
        other, last = b_starts[event], b_starts[event + 1]
        for place in range(a_starts[event], a_starts[event + 1]):
            while other < last and before[b[other]] <= a[place]:
                positions[at] = split + b[other]
                other, at = other + 1, at + 1
            if not dead[a[place]]:
                positions[at] = a[place]
                at += 1
        while other < last:
            positions[at] = split + b[other]
            other, at = other + 1, at + 1
        offsets[event + 1] = at
    return at


@dataclass(frozen=True, eq=False)
class _Both:
    """Values by position, of one roster or, where both have a part, of two."""

    first: Roster
    second: Roster | None
    old: NDArray[np.int64] | None
    new: NDArray[np.int64]

    def numbers(self, positions: NDArray[Any]) -> NDArray[np.int32]:
        if self.second is None:
            alone: NDArray[np.int32] = self.first.numbers[positions]
            return alone
        found = np.empty(len(positions), np.int32)
        found[self.old] = self.first.numbers[positions[self.old]]
        found[self.new] = self.second.numbers[positions[self.new] - len(self.first.numbers)]
        return found

    def ids(self, positions: NDArray[Any]) -> pa.StringArray:
        if self.second is None:
            return self.first.program.ids.take(pa.array(positions))
        return _interleaved(self.first.program.ids, self.second.program.ids, positions)

    def names(self, numbers: NDArray[np.int32]) -> pa.StringArray:
        if self.second is None:
            return self.first.names.take(pa.array(numbers))
        return _interleaved(self.first.names, self.second.names, numbers)


def _interleaved(one: pa.StringArray, other: pa.StringArray, places: NDArray[Any]) -> pa.StringArray:
    """The values at places of both arrays end to end, without joining them."""
    new = places >= len(one)
    taken = pa.concat_arrays([one.take(pa.array(places[~new])), other.take(pa.array(places[new] - len(one)))])
    order = np.empty(len(places), np.int64)
    order[np.flatnonzero(~new)] = np.arange(len(places) - new.sum())
    order[np.flatnonzero(new)] = np.arange(len(places) - new.sum(), len(places))
    return taken.take(pa.array(order))


def _entries(
    positions: NDArray[Any], offsets: NDArray[np.int64], both: _Both, parties: NDArray[np.int32], sight: Sight | None
) -> pa.ListArray:
    numbers = both.numbers(positions)
    starts, lists = _groups(numbers, offsets)
    groups = pa.ListArray.from_arrays(pa.array(np.append(starts, len(positions)), pa.int32()), both.ids(positions))
    columns = {"consumer": both.names(numbers[starts]), "subscription_ids": groups}
    if sight is not None:
        trails = np.repeat(sight.trails, np.diff(lists))
        columns["path"] = sight.chart.paths(trails, parties[numbers[starts]].astype(np.int64))
    entries = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    return pa.ListArray.from_arrays(pa.array(lists, pa.int32()), entries)


@compiled
def _groups(numbers: Any, offsets: Any) -> Any:
    """Where each run of one consumer within one event begins, and which run each event begins with."""
    starts, lists = np.empty(len(numbers), np.int64), np.zeros(len(offsets), np.int64)
    at = 0
    for event in range(len(offsets) - 1):
        for place in range(offsets[event], offsets[event + 1]):
            if place == offsets[event] or numbers[place] != numbers[place - 1]:
                starts[at] = place
                at += 1
        lists[event + 1] = at
    return starts[:at], lists


def _offsets(lists: pa.ListArray) -> NDArray[np.int64]:
    offsets: NDArray[np.int64] = lists.offsets.to_numpy().astype(np.int64)
    offsets -= offsets[0]
    return offsets
