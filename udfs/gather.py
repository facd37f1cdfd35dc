"""From events to lists of subscriptions: by event, or by cluster with the matches sorted by event.

Law: within an event the positions ascend and none is there twice, whatever the order in which they were found: each is
a bit of a map of all subscriptions, read off in order. One event may match all; memory beyond the result is
bounded by the pairs of one run of events, and a run that has too many stops and says so.

By cluster, the entries of a cluster stay in the processor's cache for all events that meet it. By event, nothing is
sorted: the better way for a small index or few events.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from udfs.index import PLAIN, Batch, Index
from udfs.jit import compiled, inlined, trailing_zeros
from udfs.scan import scan
from udfs.sweep import Table, arrange, sweep

_ANY = 0x7FFF_FFFF


@inlined
def meet(index: Index, batch: Batch, event: int, clusters: Any) -> Any:
    """Write the clusters that an event meets; returns how many."""
    count = 0
    if index.cluster_runs[1] > 0:
        clusters[0] = 0
        count = 1
    tables = index.tables
    for table in range(len(tables)):
        code = batch.codes[event, tables[table, 0]]
        if code >= 0:
            cluster = index.cells[tables[table, 2] + (code >> tables[table, 1])]
            if cluster >= 0:
                clusters[count] = cluster
                count += 1
    for slot in range(batch.strings.shape[1]):
        string = batch.strings[event, slot]
        if string >= 0:
            for place in range(batch.held_starts[string], batch.held_starts[string + 1]):
                cluster = index.token_clusters[batch.held[place]]
                if cluster >= 0:
                    clusters[count] = cluster
                    count += 1
    return count


@compiled
def by_event(
    index: Index, batch: Batch, first: int, clusters: Any, found: Any, owners: Any, bits: Any, summary: Any,
    lengths: Any, items: Any, total: int,
) -> Any:  # fmt: skip
    """Match events from `first` on into `items`; stops before one for which there may be no room.

    `found` and `owners` have room for every entry, and one.
    """
    this = np.empty(1, np.int32)
    for event in range(first, len(batch.codes)):
        this[0] = event
        count = 0
        for at in range(meet(index, batch, event, clusters)):
            for run in range(index.cluster_runs[clusters[at]], index.cluster_runs[clusters[at] + 1]):
                _, count = scan(index, batch, run, this, 0, 1, found, owners, count)
        if total + count > len(items):
            return event, total
        before = total
        total = _drain(found, 0, count, bits, summary, items, total)
        lengths[event] = total - before
    return len(batch.codes), total


@compiled
def meet_all(index: Index, batch: Batch, starts: Any, clusters: Any, room: int) -> Any:
    """Write the clusters that each event meets, one event after the other; -1 if there is no room for them.

    `room` is what one event may need at most.
    """
    total = 0
    for event in range(len(batch.codes)):
        starts[event] = total
        if total + room > len(clusters):
            return -1
        total += meet(index, batch, event, clusters[total:])
    starts[len(batch.codes)] = total
    return total


@compiled
def pair(starts: Any, clusters: Any, ends: Any, events: Any) -> None:
    """Sort (cluster, event) pairs by cluster: cluster c has `events[ends[c - 1]:ends[c]]`."""
    ends[:] = 0
    for at in range(starts[-1]):
        ends[clusters[at]] += 1
    total = 0
    for cluster in range(len(ends)):
        total, ends[cluster] = total + ends[cluster], total
    for event in range(len(starts) - 1):
        for at in range(starts[event], starts[event + 1]):
            cluster = clusters[at]
            events[ends[cluster]] = event
            ends[cluster] += 1


@compiled
def by_cluster(
    index: Index, batch: Batch, ends: Any, events: Any, many: int, scratch: Table, place: Any,
    found: Any, owners: Any, total: int,
) -> Any:  # fmt: skip
    """Match cluster by cluster, from `place` on; stops, and moves `place`, where there may be no room.

    `place` is a cluster, the first of its pairs that is not done, the run, and where in the run: a pair, or, if `many`
    events meet the cluster, so that it is swept, an entry.
    """
    cluster, first, run, at = place
    lane, arrangement, size = np.int64(-1), np.int64(0), np.int64(0)
    scratch.filled[:] = -1
    tile, width = len(scratch.members), batch.codes.shape[1]
    while cluster < len(ends):
        end = np.int64(ends[cluster])
        begin = np.int64(ends[cluster - 1] if cluster else 0)
        swept = end - begin >= many
        stop = min(end, first + tile) if swept else end
        arranged = False
        while first < stop and run < index.cluster_runs[cluster + 1]:
            shape = index.runs[run, 0] & (PLAIN - 1)
            if swept:
                wanted = np.int64(index.runs[run, 1] if shape else -1)
                if not arranged or lane != wanted:
                    size = arrange(batch.flat, width, wanted, shape, events, first, stop, scratch)
                    arranged, lane, arrangement = True, wanted, arrangement + 1
                last = np.int64(index.runs[run, 3] - index.runs[run, 2])
                at, total = sweep(index, batch, run, at, scratch, arrangement, size, found, owners, total)
            else:
                last = stop - first
                at, total = scan(index, batch, run, events, first + at, stop, found, owners, total)
                at -= first
            if at < last:
                place[0], place[1], place[2], place[3] = cluster, first, run, at
                return False, total
            at = np.int64(0)
            run += 1
        first = stop
        if first == end:
            cluster += 1
        run = np.int64(index.cluster_runs[cluster])
    return True, total


@compiled
def spread(found: Any, owners: Any, total: int, ends: Any, sorted: Any) -> None:
    """Sort the matches by event; `ends` tells where each event's end."""
    ends[:] = 0
    for at in range(total):
        ends[owners[at] & _ANY] += 1
    start = 0
    for event in range(len(ends)):
        start, ends[event] = start + ends[event], start
    for at in range(total):
        event = owners[at]
        sorted[ends[event]] = found[at]
        ends[event] += 1


@compiled
def order(sorted: Any, ends: Any, bits: Any, summary: Any, lengths: Any, items: Any, total: int) -> Any:
    """Each event's matches in ascending order into `items`, which has room."""
    start = 0
    for event in range(len(ends)):
        before = total
        total = _drain(sorted, start, ends[event], bits, summary, items, total)
        lengths[event] = total - before
        start = ends[event]
    return total


@inlined
def _drain(found: Any, start: int, stop: int, bits: Any, summary: Any, items: Any, total: int) -> Any:
    """Append the numbers to `items` in ascending order, each once. Both maps are empty before and after."""
    if stop - start < 2:
        if start < stop:
            items[total] = found[start]
            total += 1
        return total
    one = np.uint64(1)
    low: Any = np.int64(len(summary))
    high: Any = np.int64(-1)
    word: Any
    for at in range(start, stop):
        number = np.int64(found[at & _ANY]) & _ANY
        bits[number >> 6] |= one << np.uint64(number & 63)
        word = number >> 12
        summary[word] |= one << np.uint64((number >> 6) & 63)
        low, high = min(low, word), max(high, word)
    for word in range(low, high + 1):
        marks = summary[word & _ANY]
        summary[word & _ANY] = 0
        while marks:
            place = (np.int64(word << 6) + np.int64(trailing_zeros(marks))) & _ANY
            marks &= marks - one
            left = bits[place]
            bits[place] = 0
            base = place << 6
            items[total & _ANY] = base + np.int64(trailing_zeros(left))
            left &= left - one
            total += 1
            while left:
                items[total & _ANY] = base + np.int64(trailing_zeros(left))
                total += 1
                left &= left - one
    return total
