"""What any matcher must spend on a batch: code its columns, and copy its results, with pyarrow and numpy alone.

Law: the same columns as the kernel reads and the same constants; every string column dictionary-encoded and its
distinct values ranked, every number ranked, and the match lists copied once. No matching is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udfs.columns import Domain
from udfs.program import Program


def floor(program: Program, batch: pa.RecordBatch, matched: pa.ListArray) -> Callable[[], object]:
    """A function that does it once; what could be prepared once per program is prepared here."""
    columns = [program.columns[slot.column] for slot in program.slots]
    constants = [_constants(program, number) for number in range(len(program.slots))]

    def run() -> object:
        codes = [_code(batch.column(name), known) for name, known in zip(columns, constants, strict=True)]
        return codes, matched.values.to_numpy().copy(), matched.offsets.to_numpy().copy()

    return run


def _code(column: pa.Array, known: NDArray[Any]) -> NDArray[Any]:
    if known.dtype.kind == "S":
        encoded = column.dictionary_encode()
        distinct = np.array(encoded.dictionary.to_pylist(), dtype="S")
        ranks = np.append(np.searchsorted(known, distinct), -1)
        coded: NDArray[Any] = ranks[encoded.indices.fill_null(len(distinct)).to_numpy(zero_copy_only=False)]
        return coded
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return np.where(valid, np.searchsorted(known, numbers, side="right"), -1)


def _constants(program: Program, number: int) -> NDArray[Any]:
    """The sorted constants of a slot, in its own type."""
    _, first, last = program.encoding.slots[number].tolist()
    if program.slots[number].domain is Domain.TEXT:
        words = program.words
        begin, end, _ = words.slots[first].tolist()
        spans = zip(words.starts[begin:end].tolist(), words.starts[begin + 1 : end + 1].tolist(), strict=True)
        return np.array([words.data[start:stop].tobytes() for start, stop in spans], dtype="S")
    cuts = program.encoding.cuts[first:last]
    if program.slots[number].domain is Domain.DOUBLE:
        return (cuts ^ ((cuts >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))).view(np.float64)
    return cuts
