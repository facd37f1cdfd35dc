"""Numbers to codes: how many of a slot's cut points lie at or below each value.

Law: the code of x is `base` + the number of cuts ≤ x, exactly, on 64-bit integers; a double is compared by its bits,
put in order, so that no value is ever rounded. A null's code is -1, and NaN's is `top`, above every interval that a
comparison can ask for. A table over the leading bits of x leaves a step or two of binary search.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from udfs.columns import Bools
from udfs.jit import compiled

_MOST_BUCKETS = 1 << 20


class Ladder(NamedTuple):
    """Sorted cuts and the table over them: bucket b, values from low + (b << shift), begins at `starts[b]`."""

    cuts: NDArray[np.int64]
    starts: NDArray[np.int32]
    low: np.int64
    shift: np.int64


def ladder(cuts: NDArray[np.int64]) -> Ladder:
    """The search table of these ascending cuts.

    >>> ladder(np.array([3, 5, 5, 900])).starts[:3].tolist()
    [0, 3, 3]
    """
    if not len(cuts):
        return Ladder(cuts, np.zeros(2, np.int32), np.int64(0), np.int64(63))
    low, span = int(cuts[0]), int(cuts[-1]) - int(cuts[0])
    shift = max(0, span.bit_length() - min(max(16, 2 * len(cuts)), _MOST_BUCKETS).bit_length())
    edges = np.arange((span >> shift) + 1, dtype=np.uint64) << np.uint64(shift)
    distances = cuts.view(np.uint64) - np.uint64(low % (1 << 64))
    starts = np.append(np.searchsorted(distances, edges), len(cuts)).astype(np.int32)
    return Ladder(cuts, starts, np.int64(low), np.int64(shift))


def ordered(doubles: NDArray[np.float64]) -> NDArray[np.int64]:
    """Doubles as integers in the same order; both zeros are one.

    >>> ordered(np.array([-1.0, -0.0, 0.0, 1.0])) >> 52
    array([-1024,     0,     0,  1023])
    """
    bits = (doubles + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))


@compiled
def _rank(x: Any, cuts: Any, starts: Any, low: Any, shift: Any) -> Any:
    n = len(cuts)
    if n == 0 or x < cuts[0]:
        return 0
    if x >= cuts[n - 1]:
        return n
    bucket = (np.uint64(x) - np.uint64(low)) >> np.uint64(shift)
    first, last = starts[bucket], starts[bucket + np.uint64(1)]
    while first < last:
        middle = (first + last) >> 1
        if cuts[middle] <= x:
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def rank_integers(codes: Any, lane: int, values: Any, valid: Bools, keep: bool, base: int, ladder: Ladder) -> None:
    """Write the codes of a column of integers; `keep` leaves rows without a value as they are."""
    cuts, starts, low, shift = ladder
    for row in range(len(values)):
        if len(valid) == 0 or valid[row]:
            codes[row, lane] = base + _rank(values[row], cuts, starts, low, shift)
        elif not keep:
            codes[row, lane] = -1


@compiled
def rank_doubles(
    codes: Any, lane: int, values: Any, valid: Bools, keep: bool, base: int, top: int, ladder: Ladder
) -> None:
    """Write the codes of a column of doubles."""
    cuts, starts, low, shift = ladder
    bits = values.view(np.int64)
    for row in range(len(values)):
        if len(valid) == 0 or valid[row]:
            if np.isnan(values[row]):
                codes[row, lane] = top
            else:
                x = bits[row]
                if x < 0:
                    x = x ^ np.int64(0x7FFF_FFFF_FFFF_FFFF) if x != np.int64(-0x8000_0000_0000_0000) else np.int64(0)
                codes[row, lane] = base + _rank(x, cuts, starts, low, shift)
        elif not keep:
            codes[row, lane] = -1


@compiled
def rank_words(codes: Any, lane: int, values: Any, valid: Bools, keep: bool, base: int, cuts: Any) -> None:
    """Write the codes of numbers of several words: a row of `values` per word, a row of `cuts` per cut."""
    words = values.shape[0]
    for row in range(values.shape[1]):
        if len(valid) == 0 or valid[row]:
            first, last = 0, cuts.shape[0]
            while first < last:
                middle = (first + last) >> 1
                word = 0
                while word < words - 1 and cuts[middle, word] == values[word, row]:
                    word += 1
                if cuts[middle, word] <= values[word, row]:
                    first = middle + 1
                else:
                    last = middle
            codes[row, lane] = base + first
        elif not keep:
            codes[row, lane] = -1


@compiled
def mark_presence(codes: Any, lane: int, valid: Bools, top: int) -> None:
    """Write `top` where there is a value of any sort, and -1 where there is none."""
    for row in range(len(valid)):
        codes[row, lane] = top if valid[row] else -1
