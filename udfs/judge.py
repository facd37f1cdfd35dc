"""Judging the rows of a batch by their keys and times alone: which came before, which comes first, and in which order.

Law: of the rows with one key the first by (time, content) stays, unless it was remembered; those that stay are ranked
by (time, order column, publisher, id). What follows depends on the rows, not on the order in which they come.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from udfs.runs import Recall, words

ROW, MARK, TIE = "row", "mark", "tie"
PIECE, RANKS, MARKS, TWIN, SEEN, MANY, LARGEST = "piece", "ranks", "marks", "twin", "seen", "many", "largest"
DUPLICATE, CONFLICT = "duplicate", "conflict"
VERDICT = pa.schema(
    {
        PIECE: pa.int64(),
        RANKS: pa.list_(pa.int64()),
        MARKS: pa.list_(pa.int64()),
        ROW: pa.int64(),
        TWIN: pa.int64(),
        SEEN: pa.int64(),
        "reason": pa.string(),
        MANY: pa.int64(),
        LARGEST: pa.int64(),
    }
)
"""For each piece of a partition the ranks and marks of its rows, in their order; a refused row has the rank -1.

For each row that is refused here: the content of the twin that was preferred, or what was remembered. And how many
there are for each reason; of those admitted the reason is NULL, and the rows of the largest partition are told too.
"""
BITS = 33
"""So many bits of a row's number count the rows of its partition, from 0; the rest is the partition."""
PLACES = 6
"""So many bits of a row's number are its place in a piece: Spark may copy a piece for each of its rows."""


def judge(rows: pa.Table, recall: Recall | None) -> pa.Table:
    """The verdicts on all rows of a batch.

    A row has a number, a mark, a reason if it is refused already, published_at, tie, publisher, event_id, key_hash and
    content_hash.
    """
    rows = rows.take(pa.array(np.argsort(rows[ROW].to_numpy(), kind="stable")))
    alive = np.flatnonzero(pc.is_null(rows["reason"]).to_numpy())
    live = rows if len(alive) == len(rows) else rows.take(pa.array(alive))
    contents, times = live["content_hash"].to_numpy(), live["published_at"].to_numpy()
    keys = live["key_hash"].combine_chunks()
    first = _first(words(keys), times, contents)
    again = first != np.arange(len(live))
    remembered = recall.of(keys) if recall else pa.nulls(len(live), pa.int64())
    known = remembered.is_valid().to_numpy(zero_copy_only=False) & ~again
    refused = again | known
    stay = np.flatnonzero(~refused)
    ranks = np.full(len(rows), -1, np.int64)
    staying = live if len(stay) == len(live) else live.take(pa.array(stay))
    ranks[alive[stay[_ordered(staying, times[stay])]]] = np.arange(len(stay))

    before = np.where(again, contents[first], remembered.fill_null(0).to_numpy(zero_copy_only=False))
    same = before == contents
    counts = Counter(rows["reason"].drop_null().to_pylist())
    counts.update({DUPLICATE: int((same & refused).sum()), CONFLICT: int((~same & refused).sum())})
    told = [{"reason": reason, MANY: many} for reason, many in counts.items() if many]
    verdicts = {ROW: live[ROW], TWIN: pa.array(before, mask=~again), SEEN: pa.array(before, mask=~known)}
    return pa.concat_tables(
        [
            _in_pieces(rows, ranks),
            _filled(pa.table(verdicts).filter(pa.array(refused))),
            pa.Table.from_pylist([{MANY: len(stay), LARGEST: _largest(rows)}, *told], VERDICT),
        ]
    )


def _in_pieces(rows: pa.Table, ranks: NDArray[np.int64]) -> pa.Table:
    """The ranks and marks of rows that are sorted by their numbers."""
    pieces, begins = np.unique(rows[ROW].to_numpy() >> PLACES, return_index=True)
    ends = pa.array([*begins, len(rows)], pa.int32())
    lists = (pa.ListArray.from_arrays(ends, pa.array(values)) for values in (ranks, rows[MARK].to_numpy()))
    return _filled(pa.table([pa.array(pieces), *lists], [PIECE, RANKS, MARKS]))


def _largest(rows: pa.Table) -> int:
    """How many rows the largest partition has."""
    return int(np.unique(rows[ROW].to_numpy() >> BITS, return_counts=True)[1].max(initial=0))


def _filled(some: pa.Table) -> pa.Table:
    """With all columns of a verdict."""
    names = some.column_names
    return pa.table([some[f.name] if f.name in names else pa.nulls(len(some), f.type) for f in VERDICT], VERDICT)


def _first(keys: NDArray[np.uint64], times: NDArray[np.int64], contents: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the one that is first under its key, mostly itself."""
    first = np.arange(len(keys))
    order = np.argsort(keys[:, 0], kind="stable")
    high = keys[order, 0]
    near = np.zeros(len(keys), np.bool_)  # those that share half a key with a neighbour: few
    near[1:] |= high[1:] == high[:-1]
    near[:-1] |= high[1:] == high[:-1]
    some = np.sort(order[near])
    some = some[np.lexsort((contents[some], times[some], keys[some, 1], keys[some, 0]))]
    begins = np.ones(len(some), np.bool_)
    begins[1:] = (keys[some[1:]] != keys[some[:-1]]).any(axis=1)
    heads = np.flatnonzero(begins)
    if len(some):
        first[some] = some[heads[np.cumsum(begins) - 1]]
    return first


def _ordered(rows: pa.Table, times: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of the rows in their order; times alone mostly tell."""
    order = np.argsort(times, kind="stable")
    if not (np.diff(times[order]) == 0).any():
        return order
    told = rows.select(["published_at", "publisher", "event_id"])
    told = told.append_column(TIE, rows[TIE]).append_column("told", pc.is_valid(rows[TIE]))  # NULL comes first
    by = ("published_at", "told", TIE, "publisher", "event_id")
    return np.asarray(pc.sort_indices(told, sort_keys=[(name, "ascending") for name in by]), np.int64)
