"""Which token sets may see an event: those that have a token in common with it.

Law: no token in common, no match; an event or a subscription without tokens meets nobody. Tokens are texts or integers
of 64 bits, and 1 is not '1'. An event's visible sets are a row of bits, so that a candidate costs one test of one bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from udfs.jit import compiled

_LARGEST = pa.scalar((1 << 63) - 1, pa.uint64())  # that a subscription can hold


class TokenSets(NamedTuple):
    """The distinct sets: token t is in the sets `sets[starts[t]:starts[t + 1]]`. `number` is how many there are.

    `of` is the set of each subscription, if they have any.
    """

    starts: NDArray[np.int64]
    sets: NDArray[np.int32]
    number: NDArray[np.int64]
    of: NDArray[np.int32]


class Visible(NamedTuple):
    """Who may see the events of a batch: event e has the row `bits[rows[e]]`, in which bit s stands for set s.

    `sets` is the set of each subscription.
    """

    rows: NDArray[np.int32]
    bits: NDArray[np.uint64]
    sets: NDArray[np.int32]

    def slice(self, start: int, length: int) -> Visible:
        """Of so many events from the start on."""
        return Visible(self.rows[start : start + length], self.bits, self.sets)


ANYONE = Visible(np.empty(0, np.int32), np.zeros((0, 1), np.uint64), np.empty(0, np.int32))
"""Everybody may see everything."""


def visible(events: pa.ListArray, texts: pa.Array, numbers: pa.Array, sets: TokenSets) -> Visible:
    """A row of bits per event: bit s is set where the event has a token of set s.

    `texts` and `numbers` are the tokens that some subscription holds; a token's number is its place in them, the
    integers after the texts.

    >>> sets = TokenSets(np.array([0, 1, 3, 4]), np.array([0, 0, 1, 2], np.int32), np.array([3]), np.arange(3))
    >>> events = pa.array([["a"], ["b", "z"], None, ["a", "b"]])
    >>> visible(events, pa.array(["a", "b"]), pa.array([7], pa.int64()), sets).bits.ravel()
    array([1, 3, 0, 3], dtype=uint64)
    """
    lengths = pc.list_value_length(events).fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(events)), lengths)
    bits = np.zeros((len(events), max(1, (int(sets.number[0]) + 63) // 64)), np.uint64)
    _mark(bits, rows, _token_numbers(events.flatten(), texts, numbers), sets)
    return Visible(np.arange(len(events), dtype=np.int32), bits, sets.of)


@compiled
def _mark(bits: Any, rows: Any, tokens: Any, sets: TokenSets) -> None:
    for at in range(len(rows)):
        if tokens[at] >= 0:
            for place in range(sets.starts[tokens[at]], sets.starts[tokens[at] + 1]):
                held = sets.sets[place]
                bits[rows[at], held >> 6] |= np.uint64(1) << np.uint64(held & 63)


def _token_numbers(values: pa.Array, texts: pa.Array, numbers: pa.Array) -> NDArray[np.int64]:
    """The number of each event token, or -1 for one that no subscription holds."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_uint64(values.type):
        values = pc.if_else(pc.less_equal(values, _LARGEST), values, None)
    if pa.types.is_integer(values.type):
        found = _index_in(values.cast(pa.int64()), numbers)
        return np.where(found >= 0, found + len(texts), -1)
    if pa.types.is_null(values.type):
        return np.full(len(values), -1, np.int64)
    return _index_in(values.cast(pa.string()), texts)


def _index_in(values: pa.Array, known: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = pc.index_in(values, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)
