"""The index over all subscriptions, as flat arrays.

Law: nothing but numbers, so it can be mapped from a file. Every conjunction of a filter is an *entry*. It hangs in the
*cluster* of its most selective predicate, so an event meets it only if that holds; conjunctions without such a
predicate hang in cluster 0, which every event meets. Large clusters are cut into *runs* by a second predicate, whose
entries are found by binary search. What is left of the conjunction is tested: three intervals in the entry itself, the
rest, rarely, as a list of tests.

    event ── code >> shift ──▶ tables, cells ─┐
          ── tokens of strings ───────────────┴─▶ cluster ──▶ runs ──▶ entries ──▶ tests ──▶ subscription
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LANES = 1 << 15
"""The columns of a program are fewer."""

INLINE = 1 << 10
"""An entry holds the intervals of lanes below this one: three of them share a number."""

PLAIN = 4
"""Added to the shape of a run whose entries have no tests beyond their three intervals."""

ACCEPT, REJECT = -1, -2
"""Where a test may lead to instead of another test."""


class Shape(IntEnum):
    """How the entries of a run are found; EQUAL, LOW and HIGH by the code of the run's lane."""

    REST = 0
    """All of them."""
    EQUAL = 1
    """Those whose key is the code."""
    LOW = 2
    """Those whose key, the low end of an interval, is at most the code: the run's first ones."""
    HIGH = 3
    """Those whose key, the high end negated, is at most the negated code: the run's first ones."""


class Test(IntEnum):
    """What a test asks; negation is a choice of test, for a leaf and its negation are both false of a null."""

    __test__ = False  # no test class, whatever pytest thinks of the name

    INTERVAL = 0
    """The lane's code lies within `b` of `a`."""
    SET = 1
    """The lane's code lies between an odd and an even place of `bounds[a:b]`."""
    HOLDS = 2
    """The string of text slot `lane` holds token `a`."""
    LACKS = 3
    """It does not; a null is refused by an interval beside."""


# The same as plain numbers: what the compiler to machine code understands.
REST, EQUAL, LOW, HIGH = (int(shape) for shape in Shape)
INTERVAL, SET, HOLDS, LACKS = (int(test) for test in Test)


class Index(NamedTuple):
    """Rows of `tables`: lane, shift, first cell. Of `runs`: shape, lane, first and last entry.

    The entries and the tests are eight numbers each, end to end. An entry: subscription, three lanes in ten bits each,
    low end and width of three intervals. A test: what, lane, a, b, the next test if it holds, the next if not, and two
    that stand for nothing. `more` is the first test of each entry, or -1.
    """

    tables: NDArray[np.int32]
    cells: NDArray[np.int32]
    token_clusters: NDArray[np.int32]
    cluster_runs: NDArray[np.int32]
    runs: NDArray[np.int32]
    keys: NDArray[np.int32]
    entries: NDArray[np.int32]
    more: NDArray[np.int32]
    tests: NDArray[np.int32]
    bounds: NDArray[np.int32]


class Batch(NamedTuple):
    """A run of events as the index sees them.

    `codes` has a row per event and a column per lane, `flat` is the same, row after row; `strings` has a column per
    text slot, numbers into `held_starts`, and `marks` what is known of their tokens at once.
    `rows` is empty, or says for each event which row of `visible` is its own: bit s of that is set if subscriptions of
    token set s may see it; `sets` is the set of each subscription.
    """

    codes: NDArray[np.int32]
    flat: NDArray[np.int32]
    strings: NDArray[np.int32]
    marks: NDArray[np.uint64]
    held_starts: NDArray[np.int64]
    held: NDArray[np.int32]
    rows: NDArray[np.int32]
    visible: NDArray[np.uint64]
    sets: NDArray[np.int32]
