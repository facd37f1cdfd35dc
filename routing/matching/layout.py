"""The index as flat arrays: entries sorted by cluster, run and key, with what is left to test.

Law: an entry's tests, its run and its cluster together are exactly its conjunction. What the cluster or the run
settles is not tested again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.matching.access import GRIDS, LONG, RUN, SPLIT, TOKEN, Access, access, second, selectivity
from routing.matching.clauses import Clauses
from routing.matching.encodings import Encodings
from routing.matching.jumps import Jumps
from routing.matching.predicates import HOLE, Lanes, Predicates
from udfs.columns import Domain
from udfs.index import HIGH, HOLDS, INLINE, INTERVAL, LACKS, LANES, LOW, PLAIN, REST, Index
from udfs.jit import compiled

_HOLE = int(HOLE)


def index(clauses: Clauses, lanes: Lanes, predicates: Predicates, made: Encodings) -> Index:
    """The index of all conjunctions and trees."""
    if len(lanes.columns) >= LANES:
        raise ValueError(f"the filters name {len(lanes.columns)} attributes; fewer than {LANES} are possible")
    count = len(clauses.owners)
    starts = np.searchsorted(predicates.conjunctions, np.arange(count + 1))
    jumps = Jumps(predicates, starts, made.text_slots)
    trees = [(owner, first) for owner, tree in clauses.trees if (first := jumps.first(tree)) != Jumps.REJECT]
    owners = np.append(clauses.owners, [owner for owner, _ in trees]).astype(np.int32)
    starts = np.append(starts, np.full(len(trees), starts[-1]))
    share = selectivity(predicates, clauses, lanes.tops)
    hung = _living(access(predicates, share, len(owners), lanes.tops), owners, predicates.dead)
    clusters, place, sizes = _clusters(hung.keys)
    rows = (predicates.tests, predicates.lanes, predicates.a, predicates.b, share)
    ordering, shapes, keys = second(hung.conjunctions, hung.used, sizes[place] >= SPLIT, starts, *rows, lanes.tops)
    group = _groups(place, ordering, shapes, keys, predicates.lanes)
    rest = (ordering, shapes, starts, *rows, _limits(lanes, made), made.text_slots)
    entries, more, tests = _entries(hung.conjunctions, hung.used, owners, *rest)
    of_trees = np.flatnonzero(hung.conjunctions >= count)
    begin = np.array([first for _, first in trees], np.int32)[hung.conjunctions[of_trees] - count]
    more[of_trees] = np.where(begin >= 0, begin + len(tests), begin)
    group |= _plain(group, more < 0).astype(np.int64) * PLAIN
    order = np.lexsort((keys, group))
    entries, more = entries[order], more[order]
    runs, cluster_runs = _runs(group[order], len(clusters))
    jumped = np.concatenate([tests, jumps.shifted(len(tests))])
    doors = _doors(clusters, lanes.tops, len(predicates.tokens))
    filled = (keys[order], entries.ravel(), more, jumped.ravel(), predicates.bounds)
    return Index(*doors, cluster_runs, runs, *filled)


def _living(hung: Access, owners: NDArray[np.int32], dead: NDArray[np.bool_]) -> Access:
    """Without the conjunctions that are never true, and those that are leaves of trees."""
    keep = owners >= 0
    keep[: len(dead)] &= ~dead
    kept = keep[hung.conjunctions]
    return Access(hung.conjunctions[kept], hung.keys[kept], hung.used[kept])


def _clusters(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The distinct keys, each entry's place among them, and the size of each; the first is the root's."""
    clusters, place, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    if not len(clusters) or clusters[0] >= 0:
        return np.append(-1, clusters), place + 1, np.append(0, sizes)
    return clusters, place, sizes


def _groups(
    place: NDArray[np.int64],
    ordering: NDArray[np.int32],
    shapes: NDArray[np.int32],
    keys: NDArray[np.int32],
    lanes: Any,
) -> NDArray[np.int64]:
    """Cluster, lane and shape of each entry's run as one number; runs too small to search join the rest, in place."""
    lane = np.where(ordering >= 0, lanes[ordering] if len(lanes) else 0, 0)
    group: NDArray[np.int64] = place << 20 | lane.astype(np.int64) << 5 | shapes
    _, run, sizes = np.unique(group, return_inverse=True, return_counts=True)
    small = (sizes[run] < RUN) & (ordering >= 0)
    ordering[small], shapes[small], keys[small] = -1, REST, 0
    return np.where(small, place << 20, group)


def _plain(group: NDArray[np.int64], plain: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The entries that form runs without tests: all of a run, or the part of a long one that has none."""
    _, run, sizes = np.unique(group, return_inverse=True, return_counts=True)
    without = np.bincount(run, plain, minlength=len(sizes))
    found: NDArray[np.bool_] = plain & ((without == sizes) | (sizes >= LONG))[run]
    return found


def _limits(lanes: Lanes, made: Encodings) -> NDArray[np.int64]:
    """The greatest code that a value of each lane can have: `top` is for NaN, and for what no slot reads."""
    limits = lanes.tops.copy()
    for slot in made.slots:
        if not slot.child and slot.domain is not Domain.DOUBLE:
            limits[slot.column] = lanes.tops[slot.column] - 1
    return limits


@compiled
def _entries(
    conjunctions: Any, used: Any, owners: Any, ordering: Any, shapes: Any, starts: Any,
    tests: Any, lanes: Any, a: Any, b: Any, share: Any, limits: Any, text_slots: Any,
) -> Any:  # fmt: skip
    """The entries, and the tests that do not fit into them; first the intervals, the most selective ones foremost."""
    room = 0
    for entry in range(len(conjunctions)):
        room += starts[conjunctions[entry] + 1] - starts[conjunctions[entry]]
    entries, left = np.zeros((len(conjunctions), 8), np.int32), np.zeros((room, 8), np.int32)
    more, inline, total = np.full(len(conjunctions), -1, np.int32), np.empty(3, np.int64), 0
    for entry in range(len(conjunctions)):
        conjunction = conjunctions[entry]
        first, last = starts[conjunction], starts[conjunction + 1]
        settled = used[entry]
        order = ordering[entry]
        if order >= 0 and not _settled(order, shapes[entry], a, b, limits, lanes):
            order = -1
        entries[entry, 0] = owners[conjunction]
        inline[:] = -1
        for place in range(3):
            entries[entry, 3 + 2 * place] = -1
            best: Any = np.int64(-1)
            for row in range(first, last):
                plain = (tests[row] == INTERVAL or tests[row] == _HOLE) and lanes[row] < INLINE
                free = row != settled and row != order and row != inline[0] and row != inline[1]
                if plain and free and (best < 0 or share[row] < share[best]):
                    best = row
            if best >= 0:
                inline[place] = best
                entries[entry, 1] |= lanes[best] << (10 * place)
                entries[entry, 2 + 2 * place], entries[entry, 3 + 2 * place] = a[best], b[best] - a[best]
        begin = total
        for row in range(first, last):
            free = row != settled and row != order and row != inline[0] and row != inline[1]
            if not free or row == inline[2]:
                continue
            width = tests[row] == INTERVAL or tests[row] == _HOLE
            left[total, 0] = INTERVAL if width else tests[row]
            left[total, 1] = text_slots[lanes[row]] if tests[row] == HOLDS or tests[row] == LACKS else lanes[row]
            left[total, 2], left[total, 3] = a[row], b[row] - a[row] if width else b[row]
            left[total, 4], left[total, 5] = total + 1, -2
            total += 1
        if total > begin:
            more[entry] = begin
            left[total - 1, 4] = -1
    return entries, more, left[:total].copy()


@compiled
def _settled(row: int, shape: int, a: Any, b: Any, limits: Any, lanes: Any) -> Any:
    """Whether the run leaves nothing of its predicate to test."""
    if shape == LOW:
        return b[row] >= limits[lanes[row]]
    return shape != HIGH or a[row] <= 0


def _runs(group: NDArray[np.int64], clusters: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The runs of the sorted entries, and where those of each cluster begin."""
    distinct, starts = np.unique(group, return_index=True)
    stops = np.append(starts, len(group))[1:]
    runs = np.stack([distinct & 31, distinct >> 5 & (LANES - 1), starts, stops], axis=1).astype(np.int32)
    return runs, np.searchsorted(distinct >> 20, np.arange(clusters + 1)).astype(np.int32)


def _doors(
    clusters: NDArray[np.int64], tops: NDArray[np.int64], tokens: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """How an event finds its clusters: a table per grid and lane, dense in the cells; and one over the tokens."""
    token_clusters = np.full(tokens, -1, np.int32)
    of_tokens = np.flatnonzero(clusters >= TOKEN)
    token_clusters[clusters[of_tokens] - TOKEN] = of_tokens
    of_cells = np.flatnonzero((clusters >= 0) & (clusters < TOKEN))
    kinds = np.unique(clusters[of_cells] >> 32)
    kinds = kinds[np.argsort(kinds & (LANES - 1), kind="stable")]  # an event's code is looked up in all grids at once
    shifts, lanes = np.array(GRIDS)[kinds >> 15], kinds & (LANES - 1)
    sizes = (tops[lanes] >> shifts) + 1
    starts = np.cumsum(sizes) - sizes
    cells = np.full(int(sizes.sum()), -1, np.int32)
    sorter = np.argsort(kinds)
    kind = sorter[np.searchsorted(kinds, clusters[of_cells] >> 32, sorter=sorter)]
    cells[starts[kind] + (clusters[of_cells] & 0xFFFF_FFFF)] = of_cells
    return np.stack([lanes, shifts, starts], axis=1).astype(np.int32).reshape(-1, 3), cells, token_clusters
