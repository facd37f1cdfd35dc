"""A compiled set of subscriptions: flat data, and nothing but data.

Law: everything that matching needs is here, as arrays of numbers and texts; no code travels, so a program can be
stored, sent and loaded without trust. Constants are already cut points of each column's own type. Equal leaves and
equal filters are held once.

    subscription ─ filters ─▶ code ──▶ leaves ──▶ slots ──▶ columns
                 └ token_sets           └──▶ integers, doubles, texts (the leaf's operands)
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udfs import kernel
from udfs.columns import Domain, Slot

_FORMAT = "sluice-program-1"
_ARRAYS = {
    "leaves": np.int32,
    "integers": np.int64,
    "doubles": np.float64,
    "code": np.int32,
    "code_starts": np.int64,
    "filters": np.int32,
    "vocabulary_starts": np.int64,
    "token_sets": np.int32,
    "token_set_starts": np.int64,
    "token_set_of": np.int32,
}
_TEXTS = ("texts", "vocabulary", "token_texts")


@dataclass(frozen=True, eq=False)
class Program:
    """What `routing.matching.compile_program` makes and `match` runs.

    `subscription_ids` gives the meaning of the positions in a result; `columns` are the columns that `match` reads.
    The rest is for the kernel.
    """

    subscription_ids: tuple[str, ...]
    columns: tuple[str, ...]
    slots: tuple[Slot, ...]
    leaves: NDArray[np.int32]
    """A row per leaf: slot, test, negated, and where its operands start and stop."""
    integers: NDArray[np.int64]
    doubles: NDArray[np.float64]
    texts: pa.StringArray
    code: NDArray[np.int32]
    """Postfix, as `udfs/postfix.py` tells."""
    code_starts: NDArray[np.int64]
    """Filter f has the code between `code_starts[f]` and `code_starts[f + 1]`."""
    filters: NDArray[np.int32]
    """The filter of each subscription."""
    vocabulary: pa.StringArray
    """The strings that equalities name, slot by slot; a string's code is its place among those of its slot."""
    vocabulary_starts: NDArray[np.int64]
    has_tokens: bool
    token_texts: pa.StringArray
    token_numbers: pa.Int64Array
    token_sets: NDArray[np.int32]
    token_set_starts: NDArray[np.int64]
    token_set_of: NDArray[np.int32]
    """The token set of each subscription."""

    def match(self, batch: pa.RecordBatch, tokens: pa.ListArray | None = None) -> pa.ListArray:
        """For each row the ascending positions in `subscription_ids` of the subscriptions that match it.

        The batch has at least `columns`, found by name. With `tokens`, one list per row, a subscription matches only
        if it holds one of them; a program without tokens ignores them, one with tokens insists on them.
        """
        if self.has_tokens and tokens is None:
            raise ValueError("this program was compiled with tokens: give the events' tokens too")
        if self.has_tokens and tokens is not None and len(tokens) != batch.num_rows:
            raise ValueError(f"{len(tokens)} token lists for {batch.num_rows} events")
        return kernel.match(self, self._columns_of(batch), batch.num_rows, tokens if self.has_tokens else None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program as one Arrow file. It appears whole or not at all, also over one that is in use."""
        target = Path(path)
        unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        fields = {name: _one_row(array) for name, array in self._arrays().items()}
        batch = pa.RecordBatch.from_pydict(fields)
        with pa.ipc.new_file(unfinished, batch.schema.with_metadata({b"sluice": self._header()})) as file:
            file.write_batch(batch)
        unfinished.replace(target)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Program:
        """Read a program that `save` wrote; its arrays stay in the file until they are needed."""
        file = pa.ipc.open_file(pa.memory_map(os.fspath(path)))
        header = json.loads((file.schema.metadata or {}).get(b"sluice", b"{}"))
        if header.get("format") != _FORMAT:
            raise ValueError(f"{path} is not a program of this version ({_FORMAT}): compile it anew")
        batch = file.read_all().combine_chunks().to_batches()[0]
        batch.validate(full=True)
        arrays: dict[str, Any] = {name: batch.column(name).flatten() for name in batch.schema.names}
        for name, type in _ARRAYS.items():
            arrays[name] = arrays[name].to_numpy().astype(type, copy=False)
        arrays["leaves"] = arrays["leaves"].reshape(-1, 5)
        return cls(
            subscription_ids=tuple(arrays.pop("subscription_ids").to_pylist()),
            columns=tuple(header["columns"]),
            slots=tuple(Slot(column, child, Domain(domain), *rest) for column, child, domain, *rest in header["slots"]),
            has_tokens=header["has_tokens"],
            **arrays,
        )

    @cached_property
    def shared_leaves(self) -> NDArray[np.bool_]:
        """The leaves that the code names more than once."""
        return np.bincount(self.code[self.code >= 0], minlength=len(self.leaves)) > 1

    @cached_property
    def shared_filters(self) -> NDArray[np.bool_]:
        """The filters that more than one subscription has."""
        return np.bincount(self.filters, minlength=len(self.code_starts) - 1) > 1

    def __getstate__(self) -> dict[str, Any]:
        """What is computed on demand does not travel."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _columns_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        missing = [name for name in self.columns if batch.schema.get_field_index(name) < 0]
        if missing:
            raise KeyError(f"the batch has no column, or several, named {', '.join(map(repr, missing))}")
        return [batch.column(name) for name in self.columns]

    def _header(self) -> bytes:
        slots = [(slot.column, slot.child, slot.domain.value, slot.scale, slot.words) for slot in self.slots]
        header = {"format": _FORMAT, "columns": self.columns, "slots": slots, "has_tokens": self.has_tokens}
        return json.dumps(header).encode()

    def _arrays(self) -> dict[str, pa.Array]:
        return {
            "subscription_ids": pa.array(self.subscription_ids, pa.string()),
            "token_numbers": self.token_numbers,
            **{name: getattr(self, name) for name in _TEXTS},
            **{name: pa.array(getattr(self, name).ravel()) for name in _ARRAYS},
        }


def _one_row(array: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), array)
