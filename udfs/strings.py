"""Strings to codes and tokens: each distinct string is resolved once, and remembered.

Law: a string's number, code and tokens are a function of its bytes and its slot. A worker remembers what it has seen,
up to a bound: past it, it forgets everything before the next run of rows, so a flood of distinct strings costs time,
not memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from udfs.automaton import Patterns, collect
from udfs.columns import Texts
from udfs.jit import compiled, word_at

MOST_STRINGS = 1 << 17
MOST_BYTES = 1 << 25
_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)


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

    `codes[s]` is the code of string s, `held[held_starts[s]:held_starts[s + 1]]` are its tokens, ascending.
    """

    def __init__(self, words: Words, patterns: Patterns) -> None:
        self._words, self._patterns = words, patterns
        self._seen = np.full(len(patterns.fail), -1, np.int64)
        self._found = np.empty(len(patterns.tokens) + 1, np.int32)
        self._forget()

    # What is known, and room for more.
    _count: int
    _table: NDArray[np.int32]
    _hashes: NDArray[np.uint64]
    _owners: NDArray[np.int32]
    _starts: NDArray[np.int64]
    _data: NDArray[np.uint8]
    codes: NDArray[np.int32]
    held_starts: NDArray[np.int64]
    held: NDArray[np.int32]

    def number(self, texts: Texts, slot: int) -> NDArray[np.int32]:
        """The number of each row's string, -1 for null."""
        rows = len(texts.starts) - 1
        self._make_room(rows, int(texts.starts[-1] - texts.starts[0]))
        numbers = np.empty(rows, np.int32)
        before = self._count
        self._count = _intern(
            self._table,
            self._hashes,
            self._owners,
            self._starts,
            self._data,
            before,
            slot,
            texts.data,
            texts.starts,
            texts.valid,
            numbers,
        )
        at = before
        while at < self._count:
            at = _resolve(
                at, self._count, self._owners, self._starts, self._data, self._words, self._patterns,
                self._seen, self._found, self.codes, self.held_starts, self.held,
            )  # fmt: skip
            if at < self._count:
                self.held = np.concatenate([self.held, np.empty(len(self.held) + len(self._found), np.int32)])
        return numbers

    def bound(self) -> None:
        """Forget everything if it is too much; the numbers given so far lose their meaning."""
        if self._count > MOST_STRINGS or max(self._starts[self._count], 4 * len(self.held)) > MOST_BYTES:
            self._forget()

    def _forget(self) -> None:
        self._count = 0
        self._table = np.full(1 << 10, -1, np.int32)
        self._hashes, self._owners = np.zeros(0, np.uint64), np.zeros(0, np.int32)
        self._starts, self._data = np.zeros(1, np.int64), np.zeros(0, np.uint8)
        self.codes = np.zeros(0, np.int32)
        self.held_starts, self.held = np.zeros(1, np.int64), np.zeros(16, np.int32)

    def _make_room(self, strings: int, bytes: int) -> None:
        """So much that no row of the next run needs more."""
        total = self._count + strings
        if total > len(self._hashes):
            more = total + total // 2
            self._hashes, self._owners = _longer(self._hashes, more), _longer(self._owners, more)
            self._starts, self.codes = _longer(self._starts, more + 1), _longer(self.codes, more)
            self.held_starts = _longer(self.held_starts, more + 1)
            self._table = np.full(1 << (2 * more).bit_length(), -1, np.int32)
            _fill(self._table, self._hashes, self._count)
        if self._starts[self._count] + bytes > len(self._data):
            self._data = _longer(self._data, 2 * (int(self._starts[self._count]) + bytes))


def _longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    made = np.zeros(length, array.dtype)
    made[: len(array)] = array
    return made


@compiled
def _hash(data: Any, start: int, stop: int, slot: int) -> Any:
    mixed = (np.uint64(slot) + np.uint64(stop - start)) * _MIX
    at = start
    while at + 8 <= stop:
        mixed = (mixed ^ word_at(data, at)) * _MIX
        mixed ^= mixed >> np.uint64(32)
        at += 8
    if at < stop:
        if at + 8 <= len(data):
            tail = word_at(data, at) << np.uint64(8 * (at + 8 - stop))
        else:
            tail = np.uint64(0)
            for place in range(at, stop):
                tail = tail >> np.uint64(8) | np.uint64(data[place]) << np.uint64(56)
        mixed = (mixed ^ tail) * _MIX
        mixed ^= mixed >> np.uint64(32)
    return mixed


@compiled
def _same(left: Any, at: int, right: Any, start: int, length: int) -> Any:
    place = 0
    while place + 8 <= length:
        if word_at(left, at + place) != word_at(right, start + place):
            return False
        place += 8
    while place < length:
        if left[at + place] != right[start + place]:
            return False
        place += 1
    return True


@compiled
def _intern(
    table: Any, hashes: Any, owners: Any, starts: Any, data: Any, count: int, slot: int,
    text: Any, text_starts: Any, valid: Any, numbers: Any,
) -> Any:  # fmt: skip
    """Number each row's string; new ones are appended. Returns how many there are now."""
    mask = len(table) - 1
    for row in range(len(numbers)):
        if len(valid) and not valid[row]:
            numbers[row] = -1
            continue
        start, stop = text_starts[row], text_starts[row + 1]
        mixed = _hash(text, start, stop, slot)
        place = np.int64(mixed >> np.uint64(20)) & mask
        while True:
            known = table[place]
            if known < 0:
                table[place] = known = count
                hashes[count], owners[count] = mixed, slot
                first = starts[count]
                data[first : first + stop - start] = text[start:stop]
                count += 1
                starts[count] = first + stop - start
                break
            if hashes[known] == mixed and owners[known] == slot:
                first = starts[known]
                if starts[known + 1] - first == stop - start and _same(data, first, text, start, stop - start):
                    break
            place = (place + 1) & mask
        numbers[row] = known
    return count


@compiled
def _fill(table: Any, hashes: Any, count: int) -> None:
    mask = len(table) - 1
    for number in range(count):
        place = np.int64(hashes[number] >> np.uint64(20)) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = number


@compiled
def _resolve(
    at: int, count: int, owners: Any, starts: Any, data: Any, words: Words, patterns: Patterns,
    seen: Any, found: Any, codes: Any, held_starts: Any, held: Any,
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
