"""A batch of events as codes: the one place where the kernel touches Arrow's columns.

Law: each attribute is one lane. Its code is -1 for null; else it tells, for the kind of the value, between which of
the constants that filters compare it with the value lies: so every comparison, IN, prefix and IS NULL is a set of
codes. The kinds of an any-typed attribute have disjoint ranges of codes in the one lane. `top` stands for a value that
compares with nothing: NaN, a list, or a kind that no filter asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udfs.automaton import Patterns
from udfs.columns import Domain, Numbers, Slot, Texts, present, read
from udfs.jit import compiled
from udfs.ranks import Ladder, ladder, mark_presence, rank_doubles, rank_integers, rank_words
from udfs.strings import Strings, Words


class Encoding(NamedTuple):
    """The code of each value. Rows of `slots`: the first code, and the slot's first and last number in `cuts`.

    For a text slot the last two are its number among the text slots, twice. Rows of `lanes`: the top code, and whether
    the attribute is any-typed.
    """

    slots: NDArray[np.int64]
    cuts: NDArray[np.int64]
    lanes: NDArray[np.int32]


class Codes(NamedTuple):
    """A row per event: codes, a column per lane; numbers and marks of its strings, a column per text slot."""

    codes: NDArray[np.int32]
    strings: NDArray[np.int32]
    marks: NDArray[np.uint64]


class Encoder:
    """Encodes runs of events for one program; it remembers strings, so it belongs to one thread at a time."""

    def __init__(
        self, columns: Sequence[str], slots: Sequence[Slot], encoding: Encoding, words: Words, patterns: Patterns
    ) -> None:
        self._columns, self._slots, self._encoding = columns, slots, encoding
        self.strings = Strings(words, patterns)
        self._text_slots = len(words.slots)
        self._ladders = [self._ladder(number) for number in range(len(slots))]
        self._plain = {slot.column for slot in slots if not slot.child}

    def encode(self, arrays: Sequence[pa.Array], rows: int) -> Codes:
        """All columns of a run of events, in the order of the program's."""
        codes = np.empty((rows, max(1, len(arrays))), np.int32)
        strings, marks = np.empty((rows, self._text_slots), np.int32), np.empty((rows, self._text_slots), np.uint64)
        made = Codes(codes, strings, marks)
        self.strings.bound()
        for lane, array in enumerate(arrays):
            if lane not in self._plain:
                top, any_typed = self._encoding.lanes[lane].tolist()
                mark_presence(codes, lane, present(array, bool(any_typed)), top)
        for number, slot in enumerate(self._slots):
            try:
                column = read(arrays[slot.column], slot)
            except TypeError as error:
                raise TypeError(f"column {self._columns[slot.column]!r}: {error}") from error
            self._place(number, column, made)
        return made

    def _place(self, number: int, column: Numbers | Texts, made: Codes) -> None:
        codes = made.codes
        slot, (base, first, _) = self._slots[number], self._encoding.slots[number].tolist()
        lane, keep = slot.column, bool(slot.child)
        if isinstance(column, Texts):
            numbers = self.strings.number(column, first)
            _gather(made, lane, keep, first, numbers, self.strings.codes, self.strings.marks)
        elif slot.domain is Domain.DOUBLE:
            top = int(self._encoding.lanes[lane, 0])
            rank_doubles(codes, lane, column.values, column.valid, keep, base, top, self._ladders[number])
        elif slot.words > 1:
            cuts = self._ladders[number].cuts.view(np.uint64).reshape(-1, slot.words)
            rank_words(codes, lane, column.values, column.valid, keep, base, cuts)
        else:
            rank_integers(codes, lane, column.values, column.valid, keep, base, self._ladders[number])

    def _ladder(self, number: int) -> Ladder:
        slot, (_, first, last) = self._slots[number], self._encoding.slots[number]
        cuts = self._encoding.cuts[first:last]
        return (
            ladder(cuts) if slot.words == 1 and slot.domain is not Domain.TEXT else Ladder(cuts, *ladder(cuts[:0])[1:])
        )


@compiled
def _gather(made: Codes, lane: int, keep: bool, slot: int, numbers: Any, code_of: Any, marks_of: Any) -> None:
    """Write the numbers, the codes and the marks of a column's strings."""
    for row in range(len(numbers)):
        number = numbers[row]
        made.strings[row, slot] = number
        if number >= 0:
            made.codes[row, lane] = code_of[number]
            made.marks[row, slot] = marks_of[number]
        else:
            made.marks[row, slot] = 0
            if not keep:
                made.codes[row, lane] = -1
