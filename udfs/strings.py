"""Strings to codes and tokens: each distinct string is resolved once, and remembered.

Law: a string's number, code and tokens are a function of its bytes and its slot. A worker remembers what it has seen,
up to a bound: past it, it forgets everything before the next run of rows, and past twice the bound the run is given up,
to be taken again in halves. So a flood of distinct strings, or of strings with many tokens, costs time, not memory.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from udfs.automaton import Patterns, collect
from udfs.columns import Texts
from udfs.intern import Interned, TooLarge, longer
from udfs.jit import compiled

MOST_STRINGS = 1 << 17
MOST_BYTES = 1 << 25


class Words(NamedTuple):
    """The texts that cut the strings of each text slot, sorted by bytes."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    codes: NDArray[np.int32]
    """For each word the code of the strings just below it, and its own."""
    slots: NDArray[np.int64]
    """For each text slot: its first word, its last one, and the code of the strings above all."""


class Strings:
    """The strings that a worker has seen, numbered.

    `codes[s]` is the code of string s, `held[held_starts[s]:held_starts[s + 1]]` are its tokens, ascending, and
    `marks[s]` has a bit set for each of them, that of its number modulo 64: mostly enough to tell that one is not held.
    """

    _known: Interned
    codes: NDArray[np.int32]
    marks: NDArray[np.uint64]
    held_starts: NDArray[np.int64]
    held: NDArray[np.int32]

    def __init__(self, words: Words, patterns: Patterns) -> None:
        self._words, self._patterns = words, patterns
        self._seen = np.full(len(patterns.fail), -1, np.int64)
        self._found = np.empty(len(patterns.tokens) + 1, np.int32)
        self._forget()

    def number(self, texts: Texts, slot: int) -> NDArray[np.int32]:
        """The number of each row's string, -1 for null.

        TooLarge, and everything is forgotten, if several rows take it past twice the bound.
        """
        at, bounded = self._known.count, len(texts.firsts) > 1
        most = 2 * MOST_BYTES if bounded else sys.maxsize
        try:
            numbers = self._known.number(texts.data, texts.firsts, texts.lasts, texts.valid, slot, most)
            if bounded and self._known.count > 2 * MOST_STRINGS:
                raise TooLarge
            self._resolve_from(at, most)
        except TooLarge:
            self._forget()
            raise
        return numbers

    def _resolve_from(self, at: int, most: int) -> None:
        """The codes and tokens of the strings from this number on."""
        count = self._known.count
        if count > len(self.codes):
            self.codes, self.marks = longer(self.codes, 2 * count), longer(self.marks, 2 * count)
            self.held_starts = longer(self.held_starts, 2 * count + 1)
        while at < count:
            known = (self._known.owners, self._known.starts, self._known.data, self._words, self._patterns)
            places = (self._seen, self._found, self.codes, self.marks, self.held_starts, self.held)
            at = _resolve(at, count, *known, *places)
            if at < count:
                if 4 * len(self.held) >= most:
                    raise TooLarge
                self.held = longer(self.held, min(2 * len(self.held), most // 4) + len(self._found))

    def bound(self) -> None:
        """Forget everything if it is too much; the numbers given so far lose their meaning."""
        count = self._known.count
        bytes = max(self._known.starts[count], 4 * self.held_starts[count])
        if count > MOST_STRINGS or bytes > MOST_BYTES:
            self._forget()

    def _forget(self) -> None:
        self._known, self.codes, self.marks = Interned(), np.zeros(0, np.int32), np.zeros(0, np.uint64)
        self.held_starts, self.held = np.zeros(1, np.int64), np.zeros(16, np.int32)


@compiled
def _resolve(
    at: int, count: int, owners: Any, starts: Any, data: Any, words: Words, patterns: Patterns,
    seen: Any, found: Any, codes: Any, marks: Any, held_starts: Any, held: Any,
) -> Any:  # fmt: skip
    """The codes and tokens of the strings from `at` on; returns the first for which `held` has no room."""
    if at == 0:
        seen[:] = -1
    while at < count:
        slot, start, stop = owners[at], starts[at], starts[at + 1]
        many = collect(patterns, data, start, stop, slot, at, seen, found)
        first = held_starts[at]
        if first + many > len(held):
            seen[:] = -1
            return at
        held[first : first + many] = found[:many]
        marks[at] = 0
        for place in range(many):
            marks[at] |= np.uint64(1) << np.uint64(found[place] & 63)
        held_starts[at + 1] = first + many
        codes[at] = _code(data, start, stop, words, slot)
        at += 1
    return at


@compiled
def _code(data: Any, start: int, stop: int, words: Words, slot: int) -> Any:
    """The code of a string: binary search among the words of its slot."""
    first, end, above = words.slots[slot]
    last = end
    while first < last:
        middle = (first + last) >> 1
        order = _compare(words.data, words.starts[middle], words.starts[middle + 1], data, start, stop)
        if order == 0:
            return words.codes[middle, 1]
        if order < 0:
            first = middle + 1
        else:
            last = middle
    return words.codes[first, 0] if first < end else above


@compiled
def _compare(left: Any, at: int, end: int, right: Any, start: int, stop: int) -> Any:
    """Negative, 0 or positive as the left bytes are less than, equal to or greater than the right ones."""
    while at < end and start < stop:
        if left[at] != right[start]:
            return np.int64(left[at]) - np.int64(right[start])
        at += 1
        start += 1
    return (end - at) - (stop - start)
