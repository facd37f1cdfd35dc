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

ROW, MARK, TIE, TWIN, SEEN = "row", "mark", "tie", "twin", "seen"
DUPLICATE, CONFLICT = "duplicate", "conflict"
VERDICT = pa.schema(
    {ROW: pa.int64(), MARK: pa.int64(), "rank": pa.int64(), TWIN: pa.int64(), SEEN: pa.int64(), "reason": pa.string()}
)
"""Of each row: the content of the twin that was preferred, what was remembered, or a rank.

Behind them come rows without a number: how many (rank) there are for each reason, and in the largest partition (mark).
"""
_PARTITION = 33  # bits of a row's number that count rows in its partition


def judge(rows: pa.Table, recall: Recall | None) -> pa.Table:
    """The verdicts on all rows of a batch.

    A row has a number, a mark, a reason if it is refused already, published_at, tie, publisher, event_id, key_hash and
    content_hash.
    """
    alive = np.flatnonzero(pc.is_null(rows["reason"]).to_numpy())
    live = rows.take(pa.array(alive))
    contents, times = live["content_hash"].to_numpy(), live["published_at"].to_numpy()
    keys = live["key_hash"].combine_chunks()
    first = _first(words(keys), times, contents)
    again = first != np.arange(len(live))
    remembered = recall.of(keys) if recall else pa.nulls(len(live), pa.int64())
    known = remembered.is_valid().to_numpy(zero_copy_only=False) & ~again
    stay = np.flatnonzero(~again & ~known)
    places = stay[_ordered(live.take(pa.array(stay)), times[stay])]
    ranks = np.full(len(live), -1, np.int64)
    ranks[places] = np.arange(len(places))

    seen = remembered.fill_null(0).to_numpy(zero_copy_only=False)
    same = np.where(again, contents[first], seen) == contents
    counts = Counter(rows["reason"].drop_null().to_pylist())
    counts.update({DUPLICATE: int((same & (again | known)).sum()), CONFLICT: int((~same & (again | known)).sum())})
    verdicts = {
        ROW: rows[ROW],
        MARK: rows[MARK],
        "rank": _spread(ranks, ranks >= 0, alive, len(rows)),
        TWIN: _spread(contents[first], again, alive, len(rows)),
        SEEN: _spread(seen, known, alive, len(rows)),
        "reason": pa.nulls(len(rows), pa.string()),
    }
    largest = int(np.bincount(rows[ROW].to_numpy() >> _PARTITION).max(initial=0))
    told = [{"reason": reason, "rank": many} for reason, many in counts.items() if many]
    summary = pa.Table.from_pylist([{"rank": len(stay), MARK: largest}, *told], VERDICT)
    return pa.concat_tables([pa.table(verdicts, VERDICT), summary])


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


def _spread(values: NDArray[np.int64], kept: NDArray[np.bool_], places: NDArray[np.int64], many: int) -> pa.Array:
    """The values that are kept, at their places among so many."""
    spread, there = np.zeros(many, np.int64), np.zeros(many, np.bool_)
    spread[places], there[places] = values, kept
    return pa.array(spread, mask=~there)
