"""Sorted runs of hashed keys, in files that every worker maps: what was remembered under a key, and by which batch.

Law: a run is a directory of three arrays, written whole and never changed. An entry is a key of 128 bits, a value and
the ordinal of the batch that wrote it. A key that nobody wrote touches no entry, but for one in a few hundred: pages of
a large run that no lookup needs never leave the disk.

    index     for each prefix of keys: where its entries begin (some eight to a prefix)
    marks     one byte of each key
    entries   key, key, value, ordinal: sorted by key, then by ordinal; 32 bytes each
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udfs.jit import compiled

Words = NDArray[np.uint64]
_ENTRIES, _MARKS, _INDEX = "entries.npy", "marks.npy", "index.npy"
_PER_PREFIX = 3  # bits
FAN = 4
"""So many runs are merged at a time."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run, mapped."""

    entries: Words
    marks: NDArray[np.uint8]
    index: NDArray[np.uint32]

    @staticmethod
    def load(path: Path) -> Run:
        """The run that lies at the path."""
        arrays = (np.load(path / name, mmap_mode="r", allow_pickle=False) for name in (_ENTRIES, _MARKS, _INDEX))
        return Run(*(np.asarray(array) for array in arrays))

    def __len__(self) -> int:
        return len(self.entries)


_mapped: dict[str, Run] = {}


def mapped(paths: Sequence[str]) -> list[Run]:
    """The runs at the paths, mapped once by this process; others are let go, so that their files can go too."""
    global _mapped
    _mapped = {path: _mapped.get(path) or Run.load(Path(path)) for path in paths}
    return list(_mapped.values())


def words(keys: pa.Array) -> Words:
    """Keys of 16 bytes, each as two words; that of NULL is 0.

    >>> words(pa.array([bytes(range(16)), None], pa.binary())).tolist()
    [[506097522914230528, 1084818905618843912], [0, 0]]
    """
    whole = keys.fill_null(bytes(16)).cast(pa.binary(16))
    data = np.frombuffer(whole.buffers()[1], np.uint64, 2 * len(whole), 16 * whole.offset)
    return data.reshape(-1, 2)


def write(path: Path, keys: Words, values: NDArray[np.int64], ordinals: NDArray[np.int64]) -> int:
    """A run of these entries, which may come in any order; returns how many there are."""
    order = np.lexsort((ordinals, keys[:, 1], keys[:, 0]))
    entries = np.empty((len(order), 4), np.uint64)
    entries[:, :2], entries[:, 2], entries[:, 3] = keys[order], values[order].view(np.uint64), ordinals[order]
    draft = _begin(path)
    np.save(draft / _ENTRIES, entries)
    return _finish(draft, path, entries)


def merge(path: Path, runs: Sequence[Run], first: int = 0) -> int:
    """One run of the entries of at most FAN, but for those of batches before the first; returns how many there are."""
    least, many = np.uint64(first), [run.entries for run in runs if len(run)]
    total = sum(int(_count(entries, least)) for entries in many)
    draft = _begin(path)
    if not total:
        np.save(draft / _ENTRIES, np.empty((0, 4), np.uint64))
        return _finish(draft, path, np.empty((0, 4), np.uint64))
    merged = np.asarray(np.lib.format.open_memmap(draft / _ENTRIES, mode="w+", dtype=np.uint64, shape=(total, 4)))
    none = many[0][:0]
    _merge((*many, *(none,) * (FAN - len(many))), least, np.zeros(FAN, np.int64), merged)
    return _finish(draft, path, merged)


def recall(
    runs: Sequence[Run], keys: Words, first: int, without: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The least value remembered under each key since the first batch, and whether there is one.

    What the batches left out have written does not count.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     keys = np.array([[7, 1], [9, 2], [7, 1]], np.uint64)
    ...     _ = write(Path(place) / "run", keys, np.array([50, 60, 40]), np.array([1, 1, 2]))
    ...     run, asked = Run.load(Path(place) / "run"), np.array([[7, 1], [7, 2], [9, 2]], np.uint64)
    ...     values, found = recall([run], asked, 0, np.array([2], np.uint64))
    >>> found.tolist(), values[found].tolist()
    ([True, False, True], [50, 60])
    """
    found, values = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.int64)
    for run in runs:
        if len(run):
            _recall(run.entries, run.marks, run.index, keys, np.uint64(first), without, found, values)
    return values, found


@dataclass(frozen=True)
class Recall:
    """What is asked of runs on disk, with keys to come: see `recall`."""

    runs: tuple[str, ...]
    first: int
    without: tuple[int, ...]

    def of(self, keys: pa.Array) -> pa.Array:
        """What is remembered under each key; NULL if nothing is."""
        values, found = recall(mapped(self.runs), words(keys), self.first, np.array(self.without, np.uint64))
        return pa.array(values, mask=~found)


def _begin(path: Path) -> Path:
    draft = path.with_name(f"{path.name}.part")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    return draft


def _finish(draft: Path, path: Path, entries: Words) -> int:
    """Write what leads to the entries, and let the run appear."""
    bits = max(0, len(entries).bit_length() - _PER_PREFIX)
    marks, index = np.empty(len(entries), np.uint8), np.zeros((1 << bits) + 1, np.uint32)
    _describe(entries, marks, index)
    np.save(draft / _MARKS, marks)
    np.save(draft / _INDEX, index)
    draft.rename(path)
    return len(entries)


@compiled
def _prefix(high: Any, prefixes: Any) -> Any:
    """Which of so many prefixes, a power of two, a key has."""
    return np.int64((high >> np.uint64(32)) * np.uint64(prefixes) >> np.uint64(32))


@compiled
def _describe(entries: Any, marks: Any, index: Any) -> None:
    prefixes = len(index) - 1
    at = 0
    for place in range(len(entries)):
        marks[place] = entries[place, 1] & np.uint64(255)
        prefix = _prefix(entries[place, 0], prefixes)
        while at <= prefix:
            index[at] = place
            at += 1
    while at <= prefixes:
        index[at] = len(entries)
        at += 1


@compiled
def _count(entries: Any, first: Any) -> Any:
    many = 0
    for place in range(len(entries)):
        if entries[place, 3] >= first:
            many += 1
    return many


@compiled
def _merge(runs: Any, first: Any, heads: Any, merged: Any) -> None:
    """The least head of all runs, again and again: there are few runs."""
    at = 0
    while True:
        least = -1
        for number in range(len(runs)):
            entries = runs[number]
            while heads[number] < len(entries) and entries[heads[number], 3] < first:
                heads[number] += 1
            if heads[number] < len(entries) and (
                least < 0 or _before(entries, heads[number], runs[least], heads[least])
            ):
                least = number
        if least < 0:
            break
        merged[at] = runs[least][heads[least]]
        heads[least] += 1
        at += 1


@compiled
def _before(left: Any, at: Any, right: Any, place: Any) -> Any:
    for word in (0, 1, 3):
        if left[at, word] != right[place, word]:
            return left[at, word] < right[place, word]
    return False


@compiled
def _recall(
    entries: Any, marks: Any, index: Any, keys: Any, first: Any, without: Any, found: Any, values: Any
) -> None:  # fmt: skip
    prefixes = len(index) - 1
    for row in range(len(keys)):
        high, low = keys[row, 0], keys[row, 1]
        prefix = _prefix(high, prefixes)
        mark = np.uint8(low & np.uint64(255))
        for place in range(index[prefix], index[prefix + 1]):
            if marks[place] != mark or entries[place, 1] != low or entries[place, 0] != high:
                continue
            ordinal = entries[place, 3]
            counts = ordinal >= first
            for other in without:
                counts = counts and other != ordinal
            if counts:
                value = np.int64(entries[place, 2])
                if not found[row] or value < values[row]:
                    found[row], values[row] = True, value
