"""The hot loop: which entries of a cluster does an event satisfy?

Law: an interval is tested as one unsigned comparison, `code - low <= width`, in which the code of a null, -1, fails by
itself, and which `IS NULL` passes as the interval of -1. Entries of a run that binary search leaves out do not match.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from udfs.index import Batch, Index
from udfs.jit import compiled

# Enumerations as plain numbers: what the compiler to machine code understands.
_REST, _EQUAL, _LOW = 0, 1, 2
_INTERVAL, _SET, _HOLDS = 0, 1, 2


@compiled
def scan(index: Index, batch: Batch, cluster: int, event: int, found: Any, count: int) -> Any:
    """Append to `found` the subscriptions of a cluster that match an event; there is room for all of its entries."""
    runs, keys, entries, codes = index.runs, index.keys, index.entries, batch.codes
    for run in range(index.cluster_runs[cluster], index.cluster_runs[cluster + 1]):
        shape, first, last = runs[run, 0], runs[run, 2], runs[run, 3]
        if shape != _REST:
            code = codes[event, runs[run, 1]]
            if code < 0:
                continue
            if shape == _EQUAL:
                first = _lower(keys, first, last, code)
                end = first
                while end < last and keys[end] == code:
                    end += 1
                last = end
            else:
                last = _lower(keys, first, last, code + 1 if shape == _LOW else 1 - code)
        for at in range(first, last):
            lanes = entries[at, 1]
            if np.uint32(codes[event, lanes & 0xFFFF] - entries[at, 2]) > np.uint32(entries[at, 3]):
                continue
            if np.uint32(codes[event, lanes >> 16] - entries[at, 4]) > np.uint32(entries[at, 5]):
                continue
            if entries[at, 6] >= 0 and not _passes(index, batch, event, entries[at, 6]):
                continue
            if len(batch.visible):
                held = entries[at, 7]
                if not (batch.visible[event, held >> 6] >> np.uint64(held & 63)) & np.uint64(1):
                    continue
            found[count] = entries[at, 0]
            count += 1
    return count


@compiled
def _lower(keys: Any, first: int, last: int, key: int) -> Any:
    """The first place whose key is not less."""
    while first < last:
        middle = (first + last) >> 1
        if keys[middle] < key:
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def _passes(index: Index, batch: Batch, event: int, at: int) -> Any:
    """Follow the tests from one to the next until they accept or refuse."""
    tests = index.tests
    holds: Any
    while at >= 0:
        test, lane, a, b = tests[at, 0], tests[at, 1], tests[at, 2], tests[at, 3]
        if test == _INTERVAL:
            holds = np.uint32(batch.codes[event, lane] - a) <= np.uint32(b)
        elif test == _SET:
            holds = (_lower(index.bounds, a, b, batch.codes[event, lane] + 1) - a) & 1 == 1
        else:
            string = batch.strings[event, lane]
            held = False
            if string >= 0:
                first, last = batch.held_starts[string], batch.held_starts[string + 1]
                place = _lower(batch.held, first, last, a)
                held = place < last and batch.held[place] == a
            holds = held if test == _HOLDS else not held
        at = tests[at, 4] if holds else tests[at, 5]
    return at == -1
