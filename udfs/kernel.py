"""Matching: all subscriptions of a program against a batch of events, run by run.

Law: a result depends on the program and the batch alone. Nothing is done per event or per subscription in Python, and
memory beyond the result is bounded: a run's pairs of events and matches by MOST_PAIRS, its codes and its bitmaps of
visible token sets by MOST_BYTES, its strings by the bounds of `udfs.strings`. A run that turns out to need more is
taken again in halves; only a single event may have more. What a worker keeps between batches (strings, scratch space)
changes no result.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udfs.columns import frozen
from udfs.encode import Encoder
from udfs.gather import by_cluster, by_event, meet_all, order, pair, spread
from udfs.index import INLINE, Batch
from udfs.intern import TooLarge
from udfs.sweep import table
from udfs.tokens import Visible, visible

if TYPE_CHECKING:
    from udfs.program import Program

ROWS = 20_480
"""Events of a run: enough of them to share a cluster, few enough that their codes stay in the processor's cache."""

SMALL = 1 << 13
"""An index with fewer entries stays in the processor's cache by itself: events are taken one by one."""

MANY = 64
"""Events of a run that meet a cluster, from which its entries are compared with whole columns of them."""

TILE = 4096
"""Of those events, how many are compared at a time: their codes stay in the processor's cache."""

SHARED = 2
"""Pairs of an event and a cluster it may meet, for each cluster, from which sorting them by cluster pays."""

GROWTH = 16
"""By this part of it a run may be longer than the one before: slowly, as one that is too large is work for nothing."""

MOST_PAIRS = 1 << 24
MOST_BYTES = 1 << 26
MOST_ITEMS = (1 << 31) - 1  # what the offsets of an Arrow list can count


class Worker:
    """A program at work in one process: its encoder, and scratch space that is used again."""

    def __init__(self, program: Program) -> None:
        self._program, self._index = program, program.index
        self._encoder = Encoder(program.columns, program.slots, program.encoding, program.words, program.patterns)
        self._clusters = np.empty(len(self._index.tables) + len(self._index.token_clusters) + 1, np.int32)
        self._found = np.empty((2, len(self._index.keys) + 1), np.int32)
        self._bits = np.zeros((len(program.ids) >> 6) + 1, np.uint64)
        self._summary = np.zeros((len(program.ids) >> 12) + 1, np.uint64)
        self._met, self._events = np.empty(0, np.int32), np.empty(0, np.int32)
        self._pairs = np.empty((2, 0), np.int32)
        self._table = table(min(len(program.columns), INLINE), TILE)
        self._rows = ROWS
        self._lock = Lock()

    def match(
        self, columns: list[pa.Array], rows: int, seen: pa.ListArray | Visible, most: int | None = None
    ) -> pa.ListArray:
        """For each row the positions of the subscriptions that match it (see `Program.match`, the front door)."""
        with self._lock:
            self._items, self._total = np.empty(max(1024, rows), np.int32), 0
            self._most = MOST_ITEMS if most is None else min(most, MOST_ITEMS)
            lengths = np.zeros(rows, np.int32)
            self._runs(columns, seen, lengths)
            return self._lists(lengths)

    def _step(self) -> int:
        """The events of a run at most: fewer if the codes or the bitmap of one are wide."""
        program = self._program
        width = 4 * len(program.columns) + 12 * len(program.words.slots) + int(program.token_sets.number[0]) // 8
        return max(1, min(ROWS, MOST_BYTES // max(1, width)))

    def _runs(self, columns: list[pa.Array], seen: pa.ListArray | Visible, lengths: NDArray[np.int32]) -> None:
        """Run by run; one that is too large again, half as long, and from then on a little longer each time."""
        start = 0
        while start < len(lengths):
            most, left = min(self._rows, self._step()), len(lengths) - start
            length = -(-left // -(-left // most))  # all runs alike
            part = [column.slice(start, length) for column in columns]
            if self._fits(part, seen.slice(start, length), lengths[start : start + length]):
                start, self._rows = start + length, most + most // GROWTH + 1
            else:
                self._rows = length // 2

    def _fits(self, columns: list[pa.Array], seen: pa.ListArray | Visible, lengths: NDArray[np.int32]) -> bool:
        """Match a run; False, and nothing done, if it is too large."""
        try:
            self._run(self._batch(columns, len(lengths), seen), lengths)
        except TooLarge:
            return False
        return True

    def _batch(self, columns: list[pa.Array], rows: int, seen: pa.ListArray | Visible) -> Batch:
        codes, strings, marks = self._encoder.encode(columns, rows)
        known, program = self._encoder.strings, self._program
        if not isinstance(seen, Visible):
            seen = visible(seen, program.token_texts, program.token_numbers, program.token_sets)
        who = (frozen(seen.rows), frozen(seen.bits), frozen(seen.sets))
        return Batch(codes, codes.reshape(-1), strings, marks, known.held_starts, known.held, *who)

    def _run(self, batch: Batch, lengths: NDArray[np.int32]) -> None:
        if len(lengths) > 1 and self._worth_sorting(batch):
            self._by_cluster(batch, lengths)
        else:
            self._by_event(batch, lengths)

    def _worth_sorting(self, batch: Batch) -> bool:
        """Whether a cluster is expected to be met by several events, and would not stay in the cache anyway."""
        rows, slots = batch.strings.shape
        doors = len(self._index.tables) + slots + (1 if self._index.cluster_runs[1] else 0)  # the last is the root's
        return len(self._index.keys) >= SMALL and rows * doors >= SHARED * len(self._index.cluster_runs)

    def _by_event(self, batch: Batch, lengths: NDArray[np.int32]) -> None:
        event = 0
        while True:
            event, self._total = by_event(
                self._index, batch, event, self._clusters, self._found[0], self._found[1], self._bits, self._summary,
                lengths, self._items, self._total,
            )  # fmt: skip
            if event == len(lengths):
                return
            self._reserve(len(self._index.keys))

    def _by_cluster(self, batch: Batch, lengths: NDArray[np.int32]) -> None:
        """TooLarge, and nothing done, if the run has too many pairs."""
        starts, room = np.empty(len(lengths) + 1, np.int64), len(self._clusters)
        while meet_all(self._index, batch, starts, self._met, room) < 0:
            if len(self._met) > MOST_PAIRS:
                raise TooLarge
            self._met = np.empty(2 * len(self._met) + room, np.int32)
            self._events = np.zeros(len(self._met), np.int32)
        ends = np.empty(len(self._index.cluster_runs) - 1, np.int32)
        pair(starts, self._met, ends, self._events)
        place, total = np.zeros(4, np.int64), 0
        while True:
            done, total = by_cluster(
                self._index, batch, ends, self._events, MANY, self._table, place,
                self._pairs[0], self._pairs[1], total,
            )  # fmt: skip
            if done:
                break
            if self._pairs.shape[1] >= MOST_PAIRS:
                raise TooLarge
            self._widen(total)
        self._order(total, lengths)

    def _widen(self, total: int) -> None:
        """Room for twice as many matches, and for all entries of any cluster."""
        wider = np.empty((2, 2 * self._pairs.shape[1] + max(ROWS, len(self._index.keys)) + 1), np.int32)
        wider[:, :total] = self._pairs[:, :total]
        self._pairs = wider

    def _order(self, total: int, lengths: NDArray[np.int32]) -> None:
        found, ends = np.empty(total, np.int32), np.empty(len(lengths), np.int64)
        spread(self._pairs[0], self._pairs[1], total, ends, found)
        self._reserve(total)
        self._total = order(found, ends, self._bits, self._summary, lengths, self._items, self._total)

    def _reserve(self, more: int) -> None:
        """Room for so many items more; the array doubles, so that all copying together is a copy of the result."""
        self._check()
        needed = self._total + more
        if needed > len(self._items):
            longer = np.empty(max(needed, 2 * len(self._items)), np.int32)
            longer[: self._total] = self._items[: self._total]
            self._items = longer

    def _check(self) -> None:
        if self._total > self._most:
            limit = "a list array holds" if self._most == MOST_ITEMS else f"the {self._most:,} that are allowed"
            raise OverflowError(f"{self._total:,} matches in one batch are more than {limit}: use smaller batches")

    def _lists(self, lengths: NDArray[np.int32]) -> pa.ListArray:
        self._check()
        starts = np.zeros(len(lengths) + 1, np.int32)
        np.cumsum(lengths, out=starts[1:])
        items, self._items = self._items[: self._total], np.empty(0, np.int32)
        return pa.ListArray.from_arrays(pa.array(starts), pa.array(items))
