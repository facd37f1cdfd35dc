"""Which rows a set of tokens may see: an event is visible where its tokens and the subscription's intersect.

Law: no token in common, no match; an event or a subscription without tokens meets nobody. Tokens are texts or integers,
and 1 is not '1'. Work is one look-up per event token, then per distinct set of tokens, never per subscription.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from udfs.columns import Bools


class Sight:
    """The event tokens of one run of rows, ordered by token.

    `texts` and `numbers` are the tokens that some subscription holds; a token's number is its place in them, the
    integers after the texts.

    >>> events = pa.array([["a"], ["b", "z"], None, ["a", "b"]])
    >>> sight = Sight(events, pa.array(["a", "b"]), pa.array([7], pa.int64()))
    >>> sight.rows_seen(np.array([1, 2], np.int32))
    array([False,  True, False,  True])
    """

    def __init__(self, events: pa.ListArray, texts: pa.Array, numbers: pa.Array) -> None:
        lengths = pc.list_value_length(events).fill_null(0).to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(len(events)), lengths)
        tokens = _token_numbers(events.flatten(), texts, numbers)
        known = tokens >= 0
        rows, tokens = rows[known], tokens[known]
        order = np.argsort(tokens, kind="stable")
        self._length = len(events)
        self._rows, self._tokens = rows[order], tokens[order]

    def rows_seen(self, held: NDArray[np.int32]) -> Bools:
        """The rows that carry at least one of the tokens held."""
        seen = np.zeros(self._length, np.bool_)
        starts = np.searchsorted(self._tokens, held, side="left").tolist()
        stops = np.searchsorted(self._tokens, held, side="right").tolist()
        for start, stop in zip(starts, stops, strict=True):
            seen[self._rows[start:stop]] = True
        return seen


def _token_numbers(values: pa.Array, texts: pa.Array, numbers: pa.Array) -> NDArray[np.int64]:
    """The number of each event token, or -1 for one that no subscription holds."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_integer(values.type):
        found = _index_in(values.cast(pa.int64()), numbers)
        return np.where(found >= 0, found + len(texts), -1)
    if pa.types.is_null(values.type):
        return np.full(len(values), -1, np.int64)
    return _index_in(values.cast(pa.string()), texts)


def _index_in(values: pa.Array, known: pa.Array) -> NDArray[np.int64]:
    found: NDArray[np.int64] = pc.index_in(values, value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)
