"""A run of a cluster that many events meet: entry by entry, compared with whole columns of codes.

Law: the same matches as `scan`. The events are laid out lane by lane, so that one instruction compares several of them
with an interval, and nothing is guessed wrong. For a run that has a key, they are sorted by the code of its lane: the
events of an entry's key lie side by side, and the rest is never looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from udfs.index import EQUAL, INLINE, LOW, PLAIN, REST, Batch, Index
from udfs.jit import compiled, inlined, popcount, trailing_zeros
from udfs.scan import lower, passes

_ANY = 0x7FFF_FFFF
_LANE = INLINE - 1
_DENSE = 8  # of so many events one must match, for all to be written


class Table(NamedTuple):
    """Scratch space: the events of a cluster in the order of a run, and their codes lane by lane.

    `filled` tells for each lane the arrangement whose codes it holds; `mask` and `eights` are the same bytes.
    """

    members: NDArray[np.int32]
    other: NDArray[np.int32]
    keys: NDArray[np.int32]
    codes: NDArray[np.int32]
    filled: NDArray[np.int64]
    mask: NDArray[np.uint8]
    eights: NDArray[np.uint64]


def table(lanes: int, rows: int) -> Table:
    """Room for so many events."""
    members, other, keys = np.empty((3, rows), np.int32)
    filled, eights = np.full(lanes, -1, np.int64), np.zeros((rows >> 3) + 2, np.uint64)
    return Table(members, other, keys, np.empty(lanes * rows, np.int32), filled, eights.view(np.uint8), eights)


@inlined
def arrange(flat: Any, width: Any, lane: Any, shape: Any, events: Any, first: Any, end: Any, scratch: Any) -> Any:
    """Put the events in order: as they come, or by the code of the lane, without nulls. Returns how many there are."""
    if shape != REST:
        return _sorted(flat, width, lane, events, first, end, scratch.members, scratch.other, scratch.keys)
    for at in range(first, end):
        scratch.members[(at - first) & _ANY] = events[at & _ANY]
    return end - first


@compiled
def _sorted(
    flat: Any, width: int, lane: int, events: Any, first: int, end: int, members: Any, other: Any, keys: Any
) -> Any:
    """The events that have a code, byte by byte of it from the lowest, and their codes as keys."""
    size, most, digit = np.int64(0), 0, 0
    for at in range(first, end):
        code = flat[np.int64(events[at]) * width + lane]
        if code >= 0:
            members[size], keys[size] = events[at], code
            most = max(most, code)
            size += 1
    starts = np.empty(256, np.int64)
    while digit == 0 or most >> digit:
        starts[:] = 0
        for at in range(size):
            starts[keys[at] >> digit & 255] += 1
        total = 0
        for byte in range(256):
            total, starts[byte] = total + starts[byte], total
        for at in range(size):
            byte = keys[at] >> digit & 255
            other[starts[byte]] = members[at]
            starts[byte] += 1
        for at in range(size):
            members[at] = other[at]
            keys[at] = flat[np.int64(other[at]) * width + lane]
        digit += 8
    return size


@inlined
def sweep(
    index: Index, batch: Batch, run: Any, at: Any, scratch: Any, arrangement: Any, size: Any,
    found: Any, owners: Any, total: Any,
) -> Any:  # fmt: skip
    """Append to `found` the subscriptions of a run, from its entry `at` on, that match the events of the table.

    Stops at an entry for which there may be no room; returns it, and how many matches there are.
    """
    entries, filled = index.entries, scratch.filled
    shape = index.runs[run & _ANY, 0] & (PLAIN - 1)
    first, stop = np.int64(index.runs[run & _ANY, 2]), np.int64(index.runs[run & _ANY, 3])
    which: Any
    for which in range(first + at, stop):
        begin, end = _stretch(shape, np.int64(index.keys[which & _ANY]), scratch.keys, np.int64(size))
        if total + end - begin >= len(found):
            return which - first, total
        if begin >= end:
            if shape == EQUAL:
                continue
            break  # the keys ascend: nor has any entry after it
        entry = (which & _ANY) << 3
        for place in range(3):
            lane = np.int64(entries[entry + 1]) >> (10 * place) & _LANE
            if entries[entry + 3 + 2 * place] != -1 and filled[lane] != arrangement:
                filled[lane] = arrangement
                _fill(batch.flat, batch.codes.shape[1], lane, scratch.members, size, scratch.codes)
        _compare(entries, entry, scratch.codes, len(scratch.members), begin, end - begin, scratch.mask)
        total = _emit(index, batch, which, begin, end - begin, scratch, found, owners, total)
    return stop - first, total


@inlined
def _stretch(shape: Any, key: Any, keys: Any, size: Any) -> Any:
    """From where to where the events of a key lie."""
    begin, end = np.int64(0), size
    if shape == EQUAL:
        begin = lower(keys, begin, end, key)
        end = lower(keys, begin, end, key + 1)
    elif shape == LOW:
        begin = lower(keys, begin, end, key)
    elif shape != REST:
        end = lower(keys, begin, end, 1 - key)
    return begin, end


@inlined
def _compare(entries: Any, entry: Any, codes: Any, rows: Any, begin: Any, length: Any, mask: Any) -> None:
    """Set the mask for the events that lie in all intervals of the entry, and clear eight more."""
    lanes = np.int64(entries[entry + 1])
    one = np.uint64((lanes & _LANE) * rows + begin)
    two = np.uint64((lanes >> 10 & _LANE) * rows + begin)
    three = np.uint64((lanes >> 20 & _LANE) * rows + begin)
    low_1, low_2, low_3 = entries[entry + 2], entries[entry + 4], entries[entry + 6]
    width_1, width_2, width_3 = (
        np.uint32(entries[entry + 3]),
        np.uint32(entries[entry + 5]),
        np.uint32(entries[entry + 7]),
    )
    count = np.uint64(length)
    event: Any
    if entries[entry + 7] != -1:
        for event in range(count):
            mask[event] = (
                (np.uint32(codes[one + event] - low_1) <= width_1)
                & (np.uint32(codes[two + event] - low_2) <= width_2)
                & (np.uint32(codes[three + event] - low_3) <= width_3)
            )
    elif entries[entry + 5] != -1:
        for event in range(count):
            mask[event] = (np.uint32(codes[one + event] - low_1) <= width_1) & (
                np.uint32(codes[two + event] - low_2) <= width_2
            )
    elif entries[entry + 3] != -1:
        for event in range(count):
            mask[event] = np.uint32(codes[one + event] - low_1) <= width_1
    else:
        for event in range(count):
            mask[event] = 1
    for event in range(count, count + np.uint64(8)):
        mask[event] = 0


@inlined
def _fill(flat: Any, width: Any, lane: Any, members: Any, size: Any, codes: Any) -> None:
    """The codes of a lane, in the order of the table."""
    start = lane * len(members)
    for at in range(size):
        codes[(start + at) & _ANY] = flat[(np.int64(members[at & _ANY]) * width + lane) & _ANY]


@inlined
def _emit(
    index: Index, batch: Batch, which: Any, begin: Any, length: Any, scratch: Any, found: Any, owners: Any, total: Any
) -> Any:
    """Append the events whose byte of the mask is set and that pass what tests are left."""
    members, mask, eights, before = scratch.members, scratch.mask, scratch.eights, total
    words, hits = (length + 7) >> 3, np.int64(0)
    for word in range(words):
        hits += np.int64(popcount(eights[word & _ANY]))
    if hits * _DENSE > length:
        for at in range(length):  # overwritten unless the mask is set: a branch would be guessed wrong
            owners[total & _ANY] = members[(begin + at) & _ANY]
            total += np.int64(mask[at & _ANY])
    elif hits:
        for word in range(words):
            marks = eights[word & _ANY]
            while marks:
                owners[total & _ANY] = members[(begin + (word << 3) + (np.int64(trailing_zeros(marks)) >> 3)) & _ANY]
                marks &= marks - np.uint64(1)
                total += 1
    if total > before and (index.more[which & _ANY] >= 0 or len(batch.rows)):
        total = _pass(index, batch, which, owners, before, total)
    subscription = index.entries[(which & _ANY) << 3]
    for at in range(before, total):
        found[at & _ANY] = subscription
    return total


@inlined
def _pass(index: Index, batch: Batch, which: Any, owners: Any, first: Any, last: Any) -> Any:
    """Keep those of the events that pass the entry's tests and may see it; returns where they end."""
    more, width = index.more[which & _ANY], batch.codes.shape[1]
    held = batch.sets[index.entries[(which & _ANY) << 3]] if len(batch.rows) else np.int32(0)
    total = first
    for at in range(first, last):
        event = np.int64(owners[at & _ANY])
        if more >= 0 and not passes(index, batch, batch.flat, event * width, event, more):
            continue
        row = batch.rows[event] if len(batch.rows) else np.int32(0)
        if len(batch.rows) and not (batch.visible[row, held >> 6] >> np.uint64(held & 63)) & np.uint64(1):
            continue
        owners[total & _ANY] = event
        total += 1
    return total
