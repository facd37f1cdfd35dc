"""Matching: all subscriptions of a program against a batch of events, column by column.

Law: a result depends on the program and the batch alone. Each leaf is evaluated over a whole run of rows at once, and
shared by all filters that name it; nothing is done per row in Python, and what is kept for sharing is bounded, so that
memory does not grow with the number of subscriptions.

Simple, and linear in the number of distinct filters; an index can take its place behind the same call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udfs.columns import Bools, Column, Domain, Slot, read
from udfs.gather import MOST_ROWS, Gather, Lists, as_arrow
from udfs.leaves import TEXT_OPERANDS, Test, holds
from udfs.postfix import run
from udfs.tokens import Sight

if TYPE_CHECKING:
    from udfs.program import Program

ROWS = 16_384
"""Rows of a run: enough to drown Python's overhead, few enough that a column stays in the processor's cache."""

KEPT = 2048
"""Answers of each sort (leaf, filter, token set) kept for sharing, a byte per row: at most 32 MB each."""

assert ROWS <= MOST_ROWS

_TESTS = tuple(Test)


def match(program: Program, columns: list[pa.Array], rows: int, tokens: pa.ListArray | None) -> pa.ListArray:
    """For each row the positions of the subscriptions that match it (see `Program.match`, the front door)."""
    runs = []
    for start in range(0, rows, ROWS):
        length = min(ROWS, rows - start)
        slices = [column.slice(start, length) for column in columns]
        visible = None if tokens is None else tokens.slice(start, length)
        runs.append(_Run(program, slices, length, visible).lists())
    return as_arrow(runs)


class _Run:
    """A few thousand rows, and what is known about them so far."""

    def __init__(self, program: Program, arrays: list[pa.Array], rows: int, tokens: pa.ListArray | None) -> None:
        self._program, self._arrays, self._rows = program, arrays, rows
        self._pools = [_pool(program, slot) for slot in program.slots]
        self._columns: list[Column | None] = [None] * len(program.slots)
        self._leaves, self._filters, self._seen = _Kept(self._leaf), _Kept(self._filter), _Kept(self._sees)
        self._sight = None if tokens is None else Sight(tokens, program.token_texts, program.token_numbers)

    def lists(self) -> Lists:
        """The subscriptions that match, row by row."""
        gather = Gather(self._rows)
        for subscription, filter in enumerate(self._program.filters.tolist()):
            rows = self._matched(subscription, filter).nonzero()[0]
            if len(rows):
                gather.add(subscription, rows)
        return gather.lists()

    def _matched(self, subscription: int, filter: int) -> Bools:
        """The rows that the subscription matches and may see."""
        if self._sight is None:
            return self._filters[filter]
        seen = self._seen[self._program.token_set_of[subscription]]
        return seen & self._filters[filter] if seen.any() else seen

    def _sees(self, token_set: int) -> tuple[Bools, bool]:
        assert self._sight is not None
        start, stop = self._program.token_set_starts[token_set : token_set + 2]
        return self._sight.rows_seen(self._program.token_sets[start:stop]), True

    def _filter(self, filter: int) -> tuple[Bools, bool]:
        start, stop = self._program.code_starts[filter : filter + 2]
        code = self._program.code[start:stop].tolist()
        return run(code, self._leaves.__getitem__, self._rows), self._program.shared_filters[filter]

    def _leaf(self, leaf: int) -> tuple[Bools, bool]:
        slot, test, negated, start, stop = self._program.leaves[leaf].tolist()
        column = self._columns[slot]
        if column is None:
            column = self._columns[slot] = self._read(slot)
        if self._program.slots[slot].domain is Domain.TEXT and test in TEXT_OPERANDS:
            operands = self._program.texts[start].as_py()
        else:
            operands = self._pools[slot][start:stop]
        return holds(column, _TESTS[test], negated, operands), self._program.shared_leaves[leaf]

    def _read(self, slot: int) -> Column:
        start, stop = self._program.vocabulary_starts[slot : slot + 2]
        vocabulary = self._program.vocabulary.slice(start, stop - start)
        place = self._program.slots[slot].column
        try:
            return read(self._arrays[place], self._program.slots[slot], vocabulary)
        except TypeError as error:
            raise TypeError(f"column {self._program.columns[place]!r}: {error}") from error


class _Kept(dict[int, Bools]):
    """Answers by number, computed when first asked for; those worth keeping are kept, and the oldest makes room."""

    def __init__(self, answer: Callable[[int], tuple[Bools, bool]]) -> None:
        super().__init__()
        self._answer = answer

    def __missing__(self, number: int) -> Bools:
        found, worth_keeping = self._answer(number)
        if worth_keeping:
            if len(self) >= KEPT:
                del self[next(iter(self))]
            self[number] = found
        return found


def _pool(program: Program, slot: Slot) -> NDArray[Any]:
    """Where the operands of a slot's leaves lie, of the type that the slot's values have."""
    if slot.domain is Domain.DOUBLE:
        return program.doubles
    return program.integers.view(np.uint64) if slot.domain is Domain.UNSIGNED else program.integers
