"""A compiled set of subscriptions: flat data, and nothing but data.

Law: everything that matching needs is here, as arrays of numbers and texts; no code travels, so a program can be
stored, sent and loaded without trust. Its file is mapped, not read: the workers of a machine share one copy.

    event ─ columns ─ slots ─▶ encoding, words, patterns ─▶ codes, tokens ─▶ index ─▶ positions in ids
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from udfs.automaton import Patterns
from udfs.columns import Domain, Slot, frozen
from udfs.encode import Encoding
from udfs.index import Index
from udfs.kernel import Worker
from udfs.strings import Words
from udfs.tokens import ANYONE, TokenSets, Visible

_FORMAT = "sluice-program-3"
_PARTS: dict[str, Any] = {
    "encoding": Encoding,
    "words": Words,
    "patterns": Patterns,
    "index": Index,
    "token_sets": TokenSets,
}
_TEXTS = ("ids", "token_texts", "token_numbers")


class Ids(Sequence[str]):
    """Strings kept as one Arrow array: a million of them as Python objects would take 60 MB.

    >>> Ids(pa.array(["a", "b"]))[1], Ids(pa.array(["a", "b"])) == ("a", "b")
    ('b', True)
    """

    def __init__(self, array: pa.StringArray) -> None:
        self._array = array

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Ids: ...
    def __getitem__(self, place: int | slice) -> str | Ids:
        found = self._array[place]
        return Ids(found) if isinstance(place, slice) else found.as_py()

    def __len__(self) -> int:
        return len(self._array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._array.to_pylist() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ids({len(self)})"

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        return self._array if type is None else self._array.cast(type)


@dataclass(frozen=True, eq=False)
class Program:
    """What `routing.matching.compile_program` makes and `match` runs.

    `subscription_ids` gives the meaning of the positions in a result; `columns` are the columns that `match` reads.
    The rest is for the kernel.
    """

    ids: pa.StringArray
    columns: tuple[str, ...]
    slots: tuple[Slot, ...]
    encoding: Encoding
    words: Words
    patterns: Patterns
    index: Index
    has_tokens: bool
    token_texts: pa.StringArray
    token_numbers: pa.Int64Array
    token_sets: TokenSets

    def __post_init__(self) -> None:
        for part in _PARTS:
            for array in getattr(self, part):
                frozen(array)

    @property
    def subscription_ids(self) -> Sequence[str]:
        """The ids, in the order in which the subscriptions were given."""
        return Ids(self.ids)

    def match(
        self,
        batch: pa.RecordBatch,
        tokens: pa.ListArray | None = None,
        *,
        visible: Visible | None = None,
        most: int | None = None,
    ) -> pa.ListArray:
        """For each row the ascending positions in `subscription_ids` of the subscriptions that match it.

        The batch has at least `columns`, found by name. With `tokens`, one list per row, a subscription matches only
        if it holds one of them; a program without tokens ignores them, one with tokens insists on them. `visible` says
        instead who may see what, of subscriptions in sets of the caller's own. OverflowError if there are more matches
        than `most`, or than a list array holds; it comes before they are all in memory.
        """
        if visible is not None:
            return self._worker.match(self._columns_of(batch), batch.num_rows, visible, most)
        if self.has_tokens and tokens is None:
            raise ValueError("this program was compiled with tokens: give the events' tokens too")
        if self.has_tokens and tokens is not None and len(tokens) != batch.num_rows:
            raise ValueError(f"{len(tokens)} token lists for {batch.num_rows} events")
        seen = tokens if self.has_tokens and tokens is not None else ANYONE
        return self._worker.match(self._columns_of(batch), batch.num_rows, seen, most)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program as one Arrow file. It appears whole or not at all, also over one that is in use."""
        target = Path(path)
        unfinished = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        batch = pa.RecordBatch.from_pydict({name: _one_row(array) for name, array in self._arrays().items()})
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
        batch = file.get_batch(0)
        batch.validate(full=True)
        arrays = {name: batch.column(name)[0].values for name in batch.schema.names}
        return cls(
            columns=tuple(header["columns"]),
            slots=tuple(Slot(column, child, Domain(domain), *rest) for column, child, domain, *rest in header["slots"]),
            has_tokens=header["has_tokens"],
            **{name: arrays[name] for name in _TEXTS},
            **{name: _part(name, type, arrays, header["shapes"]) for name, type in _PARTS.items()},
        )

    @cached_property
    def _worker(self) -> Worker:
        return Worker(self)

    def __getstate__(self) -> dict[str, Any]:
        """What is computed on demand does not travel."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def _columns_of(self, batch: pa.RecordBatch) -> list[pa.Array]:
        missing = [name for name in self.columns if batch.schema.get_field_index(name) < 0]
        if missing:
            raise KeyError(f"the batch has no column, or several, named {', '.join(map(repr, missing))}")
        return [batch.column(name) for name in self.columns]

    def _header(self) -> bytes:
        slots = [(slot.column, slot.child, slot.domain.value, slot.scale, slot.words) for slot in self.slots]
        shapes = {name: array.shape for name, array in self._numbers().items()}
        header = {"format": _FORMAT, "columns": self.columns, "slots": slots, "has_tokens": self.has_tokens}
        return json.dumps({**header, "shapes": shapes}).encode()

    def _arrays(self) -> dict[str, pa.Array]:
        return {
            **{name: getattr(self, name) for name in _TEXTS},
            **{name: pa.array(array.ravel()) for name, array in self._numbers().items()},
        }

    def _numbers(self) -> dict[str, Any]:
        return {f"{part}.{name}": array for part in _PARTS for name, array in getattr(self, part)._asdict().items()}


def _part(name: str, type: Any, arrays: dict[str, pa.Array], shapes: dict[str, list[int]]) -> Any:
    found = (arrays[f"{name}.{field}"].to_numpy().reshape(shapes[f"{name}.{field}"]) for field in type._fields)
    return type(*found)


def _one_row(array: pa.Array) -> pa.Array:
    return pa.LargeListArray.from_arrays(pa.array([0, len(array)], pa.int64()), array)
