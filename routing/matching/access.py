"""Where each conjunction hangs: under its most selective predicate, and within a large cluster by a second one.

Law: an access predicate is implied by its conjunction, so an event that fails it cannot match; a wrong guess of how
selective it is costs time only. Never under a negation or an absence, which most events satisfy. What equals a code
hangs in that code's cell; an interval of codes in the two or three cells of a grid that it touches; a few
values of an IN in a cell each; a suffix, substring or LIKE in the cluster of its token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.matching.clauses import Clauses
from routing.matching.predicates import Predicates
from udfs.index import EQUAL, HIGH, HOLDS, INTERVAL, LOW, SET, Test
from udfs.jit import compiled

GRIDS = (0, 2, 4, 6, 8, 10, 12, 14, 16)
"""The widths of cells, as powers of two."""

FEW = 8
"""Members up to which an IN is an access predicate."""

SPLIT, RUN, LONG = 128, 64, 64
"""Entries from which a cluster is split, a run worth its search, and a run cut into those with tests and without."""

MEETING = 64
"""What it costs that an event meets one more cluster, in entries that it is compared with in vain."""

TOKEN = 1 << 60
"""Cluster keys from here on are tokens; below, grid, lane and cell."""

_NONE = np.float32(2)


@dataclass(frozen=True, slots=True)
class Access:
    """An entry per conjunction and cell that it hangs in."""

    conjunctions: NDArray[np.int32]
    keys: NDArray[np.int64]
    """What makes an event meet the cluster; -1 for the cluster that all meet."""
    used: NDArray[np.int32]
    """The predicate that the cluster settles, or -1."""


def selectivity(predicates: Predicates, clauses: Clauses, tops: NDArray[np.int64]) -> NDArray[np.float32]:
    """The guessed share of events that pass each predicate.

    Values that many subscriptions name are common in events too; among the rest, a share of the codes stands for a
    share of the values; a text is found the less often the longer it is.
    """
    tests, lanes, a, b = predicates.tests, predicates.lanes, predicates.a, predicates.b
    share = np.full(len(tests), 0.9, np.float32)
    interval = np.flatnonzero((tests == Test.INTERVAL) & (a >= 0))
    share[interval] = np.maximum((b - a + 1)[interval] / (tops[lanes[interval]] + 1), 1e-3)
    points = interval[a[interval] == b[interval]]
    share[points] = _popularity(lanes[points], a[points])
    lengths = np.diff(clauses.texts.starts)[predicates.tokens[:, 2]]
    holds = np.flatnonzero(tests == Test.HOLDS)
    share[holds] = np.maximum(0.3 / 4.0 ** (np.minimum(lengths[a[holds]], 6) - 1), 0.002)
    return share


def _popularity(lanes: NDArray[Any], codes: NDArray[Any]) -> NDArray[np.float32]:
    """How often each (lane, code) is named among all that are named on its lane."""
    keys = lanes.astype(np.int64) << 32 | codes
    distinct, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
    total = np.bincount(lanes) if len(lanes) else np.zeros(1, np.int64)
    own = np.bincount(distinct >> 32, minlength=len(total))
    smooth: NDArray[np.float64] = (counts + 1) / (total + own)[distinct >> 32]
    return smooth[place].astype(np.float32)


def access(predicates: Predicates, share: NDArray[np.float32], conjunctions: int, tops: NDArray[np.int64]) -> Access:
    """The clusters of each conjunction; one without rows, or without a usable predicate, hangs in the root."""
    eligible = _eligible(predicates, share, tops)
    best = _best(predicates.conjunctions, eligible, conjunctions)
    grids = _grids(predicates, best, tops)
    counts = _cells(predicates, best, grids, np.empty(0, np.int64), np.empty(0, np.int32))
    total = int(counts.sum())
    keys, used = np.empty(total, np.int64), np.empty(total, np.int32)
    _cells(predicates, best, grids, keys, used)
    return Access(np.repeat(np.arange(conjunctions, dtype=np.int32), counts), keys, used)


def _eligible(predicates: Predicates, share: NDArray[np.float32], tops: NDArray[np.int64]) -> NDArray[np.float32]:
    """The share, or more than 1 for what cannot be an access predicate."""
    tests, a, b = predicates.tests, predicates.a, predicates.b
    found = np.full(len(tests), _NONE, np.float32)
    interval = (tests == Test.INTERVAL) & (a >= 0)
    point = interval & (a == b)
    narrow = interval & ~point & (share < 0.2) & (a > 0) & (b - a < 1 << GRIDS[-1])
    holds = tests == Test.HOLDS
    found[point | holds] = share[point | holds]
    found[narrow] = 2 * share[narrow]  # cells stick out at both ends
    sets = np.flatnonzero(tests == Test.SET)
    found[sets] = _set_share(predicates, sets, tops)
    return found


def _set_share(predicates: Predicates, sets: NDArray[Any], tops: NDArray[np.int64]) -> NDArray[np.float32]:
    bounds, a, b = predicates.bounds, predicates.a[sets], predicates.b[sets]
    found = np.full(len(sets), _NONE, np.float32)
    for place in np.flatnonzero(b - a <= 2 * FEW).tolist():
        some = bounds[a[place] : b[place]]
        if (some[1::2] - some[::2] == 1).all():
            found[place] = len(some) / 2 / (tops[predicates.lanes[sets[place]]] / 2 + 1)
    return found


@compiled
def _best(conjunctions: Any, share: Any, count: int) -> Any:
    """The row of the least share of each conjunction, or -1 if none is at most 1."""
    best = np.full(count, -1, np.int32)
    for row in range(len(conjunctions)):
        now = best[conjunctions[row]]
        if share[row] <= 1 and (now < 0 or share[row] < share[now]):
            best[conjunctions[row]] = row
    return best


def _grids(predicates: Predicates, best: NDArray[np.int32], tops: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each conjunction the grid that its interval hangs in: the first for a point, and for what is none."""
    widths = np.where(predicates.tests == Test.INTERVAL, predicates.b - predicates.a + 1, 1)
    hung = np.flatnonzero(best >= 0)
    wide = hung[widths[best[hung]] > 1]
    lanes, levels = predicates.lanes[best[wide]], np.searchsorted(2 << np.array(GRIDS), widths[best[wide]])
    found = np.zeros(len(best), np.int64)
    found[wide] = _coarse(lanes, levels, tops)[lanes, levels]
    return found


def _coarse(lanes: NDArray[np.int32], levels: NDArray[np.int64], tops: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each lane and width of intervals the grid that they hang in.

    A finer grid shows an event fewer intervals in vain, and one cluster more: of all choices of grids, each lane has
    the cheapest for the number of its intervals.
    """
    counts = np.bincount(lanes * len(GRIDS) + levels, minlength=len(tops) * len(GRIDS))
    counts, coarse = counts.reshape(-1, len(GRIDS)), np.tile(np.arange(len(GRIDS)), (len(tops), 1))
    reach = (1 << np.append(GRIDS, 62))[_CHOICES] + (1 << np.array(GRIDS))  # the values that show an event an interval
    for lane in np.flatnonzero(counts.any(axis=1)).tolist():
        wide_enough = _CHOICES[:, np.flatnonzero(counts[lane])[-1]] < len(GRIDS)
        cost = np.minimum(1, reach / (tops[lane] + 1)) @ counts[lane] + MEETING * _SIZES
        coarse[lane] = _CHOICES[np.argmin(np.where(wide_enough, cost, np.inf))]
    return coarse


def _choices() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every set of grids: for each width the finest of them that is wide enough, or one that does not exist."""
    sets = np.arange(1 << len(GRIDS))
    finest, found = np.full(len(sets), len(GRIDS)), []
    for level in reversed(range(len(GRIDS))):
        finest = np.where(sets >> level & 1, level, finest)
        found.append(finest)
    return np.stack(found[::-1], axis=1), np.array([int(one).bit_count() for one in sets])


_CHOICES, _SIZES = _choices()


def _cells(
    predicates: Predicates, best: NDArray[np.int32], grids: NDArray[np.int64], keys: Any, used: Any
) -> NDArray[np.int64]:
    columns = (predicates.tests, predicates.lanes, predicates.a, predicates.b, predicates.bounds)
    found: NDArray[np.int64] = _fill_cells(*columns, best, grids, np.array(GRIDS), keys, used)
    return found


@compiled
def _fill_cells(
    tests: Any, lanes: Any, a: Any, b: Any, bounds: Any, best: Any, grids: Any, shifts: Any, keys: Any, used: Any
) -> Any:
    """The keys of each conjunction's clusters, if there is room for them; returns how many each has."""
    counts = np.ones(len(best), np.int64)
    at = 0
    for conjunction in range(len(best)):
        row = best[conjunction]
        if row < 0:
            grid, first, last = -1, 0, 0
        elif tests[row] == HOLDS:
            grid, first, last = -2, a[row], a[row]
        elif tests[row] == SET:
            grid, first, last = -3, 0, (b[row] - a[row]) // 2 - 1
        else:
            grid = grids[conjunction]
            first, last = a[row] >> shifts[grid], b[row] >> shifts[grid]
        counts[conjunction] = last - first + 1
        if len(keys):
            for cell in range(first, last + 1):
                exact = grid < 0 or shifts[grid] == 0
                used[at] = row if exact else -1
                if grid == -1:
                    keys[at] = -1
                elif grid == -2:
                    keys[at] = TOKEN + cell
                elif grid == -3:
                    keys[at] = np.int64(lanes[row]) << 32 | bounds[a[row] + 2 * cell]
                else:
                    keys[at] = (np.int64(grid) << 15 | lanes[row]) << 32 | np.int64(cell)
                at += 1
    return counts


@compiled
def second(
    entries: Any, used: Any, large: Any, starts: Any, tests: Any, lanes: Any, a: Any, b: Any, share: Any, tops: Any
) -> Any:
    """For each entry the row that orders it within its cluster, its shape and its key; -1 and REST if there is none.

    `large` tells whether its cluster is, `starts` where the rows of each conjunction begin.
    """
    rows, shapes = np.full(len(entries), -1, np.int32), np.zeros(len(entries), np.int32)
    keys = np.zeros(len(entries), np.int32)
    for entry in range(len(entries)):
        if not large[entry]:
            continue
        conjunction = entries[entry]
        best = np.float32(0.8)
        for row in range(starts[conjunction], starts[conjunction + 1]):
            if row != used[entry] and tests[row] == INTERVAL and a[row] >= 0 and share[row] < best:
                best = share[row]
                rows[entry] = row
                if a[row] == b[row]:
                    shapes[entry], keys[entry] = EQUAL, a[row]
                elif a[row] > tops[lanes[row]] - b[row]:
                    shapes[entry], keys[entry] = LOW, a[row]
                else:
                    shapes[entry], keys[entry] = HIGH, -b[row]
    return rows, shapes, keys
