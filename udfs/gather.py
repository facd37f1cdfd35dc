"""From (subscription, rows) answers to one list of subscriptions per row.

Law: within a row the positions ascend, because subscriptions are added in ascending order and every sort here is
stable. Memory beyond the result itself is bounded: pairs are folded into the compact form every few million.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

MOST_ROWS = 1 << 16  # a row of a run fits 16 bits, which numpy sorts by radix
_PAIRS = 1 << 22
_MOST_PAIRS = (1 << 31) - 1  # what the offsets of an Arrow list can count


@dataclass(frozen=True, slots=True)
class Lists:
    """A list per row, flat: row r has `items[starts[r]:starts[r + 1]]`."""

    starts: NDArray[np.int64]
    items: NDArray[np.int32]


class Gather:
    """Collects the matches of one run of rows.

    >>> gather = Gather(3)
    >>> gather.add(0, np.array([0, 2])); gather.add(5, np.array([2]))
    >>> as_arrow([gather.lists()]).to_pylist()
    [[0], [], [0, 5]]
    """

    def __init__(self, rows: int, pairs: int = _PAIRS) -> None:
        self._rows, self._limit = rows, pairs
        self._folded: list[Lists] = []
        self._clear()

    def add(self, subscription: int, rows: NDArray[np.intp]) -> None:
        """The subscription (never less than the one before) matches these rows, which ascend."""
        self._subscriptions.append(subscription)
        self._matches.append(rows.astype(np.uint16))
        self._pairs += len(rows)
        if self._pairs >= self._limit:
            self._fold()

    def lists(self) -> Lists:
        """All that was added, row by row."""
        self._fold()
        return self._folded[0] if len(self._folded) == 1 else _join(self._folded, self._rows)

    def _clear(self) -> None:
        self._subscriptions: list[int] = []
        self._matches: list[NDArray[np.uint16]] = []
        self._pairs = 0

    def _fold(self) -> None:
        rows = np.concatenate([np.empty(0, np.uint16), *self._matches])
        lengths = np.fromiter(map(len, self._matches), np.int64, len(self._matches))
        subscriptions = np.repeat(np.array(self._subscriptions, np.int32), lengths)
        order = np.argsort(rows, kind="stable")
        self._folded.append(Lists(_starts(np.bincount(rows, minlength=self._rows)), subscriptions[order]))
        self._clear()


def as_arrow(runs: list[Lists]) -> pa.ListArray:
    """The runs, one after the other, as one Arrow array of int32 lists."""
    starts = _starts(np.concatenate([np.empty(0, np.int64), *(np.diff(run.starts) for run in runs)]))
    if starts[-1] > _MOST_PAIRS:
        raise OverflowError(
            f"{starts[-1]:,} matches in one batch are more than a list array holds: use smaller batches"
        )
    items = np.concatenate([np.empty(0, np.int32), *(run.items for run in runs)])
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), pa.array(items))


def _join(parts: list[Lists], rows: int) -> Lists:
    """Per row, the lists of all parts in their order."""
    lengths = np.stack([np.diff(part.starts) for part in parts])
    starts = _starts(lengths.sum(axis=0))
    items = np.empty(starts[-1], np.int32)
    ends = starts[:-1].copy()
    for part, part_lengths in zip(parts, lengths, strict=True):
        shift = np.repeat(ends - part.starts[:-1], part_lengths)
        items[np.arange(len(part.items)) + shift] = part.items
        ends += part_lengths
    return Lists(starts, items)


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts
