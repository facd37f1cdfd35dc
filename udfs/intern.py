"""Distinct byte strings, numbered in the order in which they come: a hash table of flat arrays.

Law: equal bytes under one owner have one number, and other bytes have another. Where a string lies in the table depends
on a secret that each table draws for itself, so nobody can write strings that all lie in one place.
"""

from __future__ import annotations

import secrets
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udfs.columns import Bools, frozen
from udfs.jit import compiled, folded, word_at

_ALL = frozen(np.empty(0, np.bool_))
_BYTES = 1 << 12


class TooLarge(Exception):
    """Several rows need more memory than they may have: to be taken again, fewer at a time."""


class Interned:
    """The strings so far: number n has the bytes `data[starts[n]:starts[n + 1]]`, and came from `owners[n]`.

    >>> interned = Interned()
    >>> interned.number(np.frombuffer(b"abab", np.uint8), np.array([0, 1, 2]), np.array([2, 2, 4])).tolist()
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self.count = 0
        self._seed, self._factor = np.uint64(secrets.randbits(64)), np.uint64(secrets.randbits(64) | 1)
        self.owners = np.zeros(0, np.int32)
        self.starts, self.data = np.zeros(1, np.int64), np.zeros(0, np.uint8)
        self._table, self._hashes = np.full(1 << 10, -1, np.int32), np.zeros(0, np.uint64)

    def number(
        self,
        data: NDArray[np.uint8],
        firsts: NDArray[np.int64],
        lasts: NDArray[np.int64],
        valid: Bools = _ALL,
        owner: int = 0,
        most: int = sys.maxsize,
    ) -> NDArray[np.int32]:
        """The number of each string, which lies from `firsts` to `lasts` in the data; -1 where it is not valid.

        TooLarge if all strings together would have more than `most` bytes.
        """
        self._make_room(len(firsts))
        numbers, row = np.empty(len(firsts), np.int32), 0
        texts = (frozen(data), frozen(firsts), frozen(lasts), valid)
        while True:
            known = (self._table, self._hashes, self.owners, self.starts, self.data, self.count)
            row, self.count = _intern(self._seed, self._factor, *known, owner, *texts, numbers, row)
            if row == len(firsts):
                return numbers
            self._lengthen(int(self.starts[self.count] + lasts[row] - firsts[row]), most)

    def _lengthen(self, needed: int, most: int) -> None:
        """Room for so many bytes, and for as many again."""
        if needed > most:
            raise TooLarge
        self.data = longer(self.data, max(needed, min(2 * needed + _BYTES, most)))

    def _make_room(self, strings: int) -> None:
        """So much that none of the next strings needs more, but for its bytes."""
        total = self.count + strings
        if total > len(self._hashes):
            more = total + total // 2
            self._hashes, self.owners = longer(self._hashes, more), longer(self.owners, more)
            self.starts = longer(self.starts, more + 1)
            self._table = np.full(1 << (2 * more).bit_length(), -1, np.int32)
            _fill(self._table, self._hashes, self.count)


def longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    """The array with zeros behind."""
    made = np.zeros(length, array.dtype)
    made[: len(array)] = array
    return made


@compiled
def _hash(seed: Any, factor: Any, data: Any, start: int, stop: int, slot: int) -> Any:
    """A word of the string after the other, each multiplied by what nobody knows; first of all, slot and length."""
    mixed = folded(seed ^ (np.uint64(slot) << np.uint64(48)) ^ np.uint64(stop - start), factor)
    at = start
    while at + 8 <= stop:
        mixed = folded(mixed ^ word_at(data, at), factor)
        at += 8
    if at < stop:
        if at + 8 <= len(data):
            tail = word_at(data, at) << np.uint64(8 * (at + 8 - stop))
        else:
            tail = np.uint64(0)
            for place in range(at, stop):
                tail = tail >> np.uint64(8) | np.uint64(data[place]) << np.uint64(56)
        mixed = folded(mixed ^ tail, factor)
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
    seed: Any, factor: Any, table: Any, hashes: Any, owners: Any, starts: Any, data: Any, count: int, slot: int,
    text: Any, firsts: Any, lasts: Any, valid: Any, numbers: Any, first_row: int,
) -> Any:  # fmt: skip
    """Number each row's string; new ones are appended. Stops at a row for whose bytes there is no room.

    Returns the row, and how many strings there are now.
    """
    mask = len(table) - 1
    for row in range(first_row, len(numbers)):
        if len(valid) and not valid[row]:
            numbers[row] = -1
            continue
        start, stop = firsts[row], lasts[row]
        mixed = _hash(seed, factor, text, start, stop, slot)
        place = np.int64(mixed >> np.uint64(20)) & mask
        while True:
            known = table[place]
            if known < 0:
                first = starts[count]
                if first + stop - start > len(data):
                    return row, count
                table[place] = known = count
                hashes[count], owners[count] = mixed, slot
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
    return len(numbers), count


@compiled
def _fill(table: Any, hashes: Any, count: int) -> None:
    mask = len(table) - 1
    for number in range(count):
        place = np.int64(hashes[number] >> np.uint64(20)) & mask
        while table[place] >= 0:
            place = (place + 1) & mask
        table[place] = number
