"""The hot loop: which entries of a run do these events satisfy?

Law: an interval is tested as one unsigned comparison, `code - low <= width`, in which the code of a null, -1, fails by
itself, and which `IS NULL` passes as the interval of -1. Entries of a run that binary search leaves out do not match.

Places are masked where they are used: a number that cannot be negative needs no look from the end of the array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from udfs.index import EQUAL, HOLDS, INLINE, INTERVAL, LOW, PLAIN, REST, SET, Batch, Index
from udfs.jit import inlined, prefetch

_ANY = 0x7FFF_FFFF
_FEW = 4
_AHEAD, _LINE = 8, 16
_LANE = INLINE - 1


@inlined
def scan(
    index: Index,
    batch: Batch,
    run: Any,
    events: Any,
    at: Any,
    end: Any,
    found: Any,
    owners: Any,
    total: Any,
) -> Any:
    """Append to `found` the subscriptions of a run that match the events from `at` to `end`, and to `owners` the event.

    Stops at an event for which there may be no room; returns it, and how many matches there are.
    """
    keys, entries = index.keys, index.entries
    codes, width = batch.flat, batch.codes.shape[1]
    shape, run_lane = index.runs[run & _ANY, 0] & (PLAIN - 1), index.runs[run & _ANY, 1]
    plain = index.runs[run & _ANY, 0] >= PLAIN and len(batch.rows) == 0
    first, stop = np.int64(index.runs[run & _ANY, 2]), np.int64(index.runs[run & _ANY, 3])
    while at < end:
        if total + stop - first >= len(found):
            return at, total
        event = np.int64(events[at & _ANY])
        row = event * width
        if at + _AHEAD < len(events):  # the pairs that come next, of whatever cluster
            ahead = np.int64(events[(at + _AHEAD) & _ANY]) * width
            prefetch(codes, ahead)
            prefetch(codes, ahead + _LINE)
        begin, last = first, stop
        if shape != REST:
            code = np.int64(codes[(row + run_lane) & _ANY])
            if code < 0:
                last = begin
            elif shape == EQUAL:
                begin = lower(keys, begin, last, code)
                last = lower(keys, begin, last, code + 1)
            else:
                last = lower(keys, begin, last, code + 1 if shape == LOW else 1 - code)
        passed = total
        place: Any
        if plain:
            for place in range(begin, last):
                entry = (place & _ANY) << 3
                lanes = np.int64(entries[entry + 1])
                code_1, code_2 = codes[(row + (lanes & _LANE)) & _ANY], codes[(row + (lanes >> 10 & _LANE)) & _ANY]
                code_3 = codes[(row + (lanes >> 20 & _LANE)) & _ANY]
                one = np.uint32(code_1 - entries[entry + 2]) <= np.uint32(entries[entry + 3])
                two = np.uint32(code_2 - entries[entry + 4]) <= np.uint32(entries[entry + 5])
                three = np.uint32(code_3 - entries[entry + 6]) <= np.uint32(entries[entry + 7])
                found[passed & _ANY] = entries[entry]  # overwritten unless all hold: a branch would be guessed wrong
                owners[passed & _ANY] = event
                passed += one & two & three
            total = passed
            at += 1
            continue
        for place in range(begin, last):
            entry = (place & _ANY) << 3
            lanes = np.int64(entries[entry + 1])
            one = np.uint32(codes[(row + (lanes & _LANE)) & _ANY] - entries[entry + 2]) <= np.uint32(entries[entry + 3])
            lane = lanes >> 10 & _LANE
            two = np.uint32(codes[(row + lane) & _ANY] - entries[entry + 4]) <= np.uint32(entries[entry + 5])
            found[passed & _ANY] = place
            passed += one & two
        for place in range(total, passed):
            which = np.int64(found[place & _ANY]) & _ANY
            entry = which << 3
            lane = np.int64(entries[entry + 1]) >> 20 & _LANE
            if np.uint32(codes[(row + lane) & _ANY] - entries[entry + 6]) > np.uint32(entries[entry + 7]):
                continue
            if index.more[which] >= 0 and not passes(index, batch, codes, row, event, index.more[which]):
                continue
            if len(batch.rows):
                held = batch.sets[entries[entry]]
                if not (batch.visible[batch.rows[event], held >> 6] >> np.uint64(held & 63)) & np.uint64(1):
                    continue
            found[total & _ANY] = entries[entry]
            owners[total & _ANY] = event
            total += 1
        at += 1
    return at, total


@inlined
def lower(keys: Any, first: int, last: int, key: int) -> Any:
    """The first place whose key is not less."""
    while first < last:
        middle = (first + last) >> 1
        if keys[middle & _ANY] < key:
            first = middle + 1
        else:
            last = middle
    return first


@inlined
def passes(index: Index, batch: Batch, codes: Any, row: int, event: int, at: int) -> Any:
    """Follow the tests from one to the next until they accept or refuse."""
    tests, bounds = index.tests, index.bounds
    holds: Any
    while at >= 0:
        test = (np.int64(at) & _ANY) << 3
        kind, lane, a, b = tests[test], np.int64(tests[test + 1]), np.int64(tests[test + 2]), np.int64(tests[test + 3])
        if kind == INTERVAL:
            holds = np.uint32(codes[(row + lane) & _ANY] - a) <= np.uint32(b)
        elif kind == SET:
            code = codes[(row + lane) & _ANY]
            odd: Any = 0
            if b - a <= _FEW:
                for place in range(a, b):
                    odd ^= np.int64(bounds[place & _ANY] <= code)
            else:
                odd = (lower(bounds, a, b, code + 1) - a) & 1
            holds = odd == 1
        else:
            held = False
            if (batch.marks[event, lane] >> np.uint64(a & 63)) & np.uint64(1):
                string = batch.strings[event, lane]
                first, last = batch.held_starts[string], batch.held_starts[string + 1]
                place = lower(batch.held, first, last, a)
                held = place < last and batch.held[place & _ANY] == a
            holds = held if kind == HOLDS else not held
        at = tests[test + 4] if holds else tests[test + 5]
    return at == -1
