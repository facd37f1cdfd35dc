"""Many filters to clauses: the plain texts by compiled code, all others one by one.

Law: the clauses mean what the parser's trees mean, whichever way a text took. Texts are read in chunks, so that what
is kept beside the clauses stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from routing.filters.ast import Filter
from routing.filters.limits import Limits
from routing.filters.negation import push_negations
from routing.matching.clauses import STRING, Clauses, Op, Texts, Tree
from routing.matching.lower import Lowering
from routing.matching.numbers import NumberTable
from routing.matching.recognise import Found, recognise
from udfs.intern import Interned

CHUNK = 1 << 16
_SCALES = 16  # more than any scale that is recognised


def clauses_of(filters: Sequence[str | Filter], limits: Limits, parsed: Callable[[int], Filter]) -> Clauses:
    """The clauses of all filters; `parsed` gives the tree of one that compiled code leaves alone.

    >>> from routing.filters import parse
    >>> texts = ["x = 1", "x = 2 OR y = 1"]
    >>> clauses_of(texts, Limits(), lambda place: parse(texts[place])).owners.tolist()
    [0, 1, 1]
    """
    plain, lowering = _Plain(limits), Lowering()
    for first in range(0, len(filters), CHUNK):
        taken = plain.take(first, filters[first : first + CHUNK])
        for place in np.flatnonzero(~taken).tolist():
            lowering.add(first + place, push_negations(parsed(first + place)))
    return _joined(plain.clauses(), lowering.clauses())


class _Plain:
    """The clauses of plain texts, chunk by chunk."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._names, self._texts = Interned(), Interned()
        self._owners: list[NDArray[np.int32]] = []
        self._rows: list[tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int8], NDArray[np.int64]]] = []
        self._members: list[tuple[NDArray[np.int8], NDArray[np.int32], NDArray[np.int64]]] = []
        self._conjunctions = self._count = 0

    def take(self, first: int, filters: Sequence[str | Filter]) -> NDArray[np.bool_]:
        """Read a chunk whose first filter has this number; returns which of them were taken."""
        try:
            texts = pa.array([one if isinstance(one, str) else "" for one in filters], pa.large_string())
        except UnicodeEncodeError:  # half a character: the parser says where
            return np.zeros(len(filters), np.bool_)
        _, starts, data = texts.buffers()
        bytes = np.frombuffer(data or b"", np.uint8)
        limits = (self._limits.nodes, self._limits.in_literals, self._limits.text_bytes)
        found = recognise(bytes, np.frombuffer(starts, np.int64)[: len(filters) + 1], *limits)
        self._append(bytes, first, found)
        return found.taken

    def clauses(self) -> Clauses:
        """All that was taken."""
        conjunctions, attributes, ops, ends = _columns(self._rows, (np.int32, np.int32, np.int8, np.int64))
        kinds, values, keys = _columns(self._members, (np.int8, np.int32, np.int64))
        number = kinds != STRING
        distinct, place = np.unique(keys[number], return_inverse=True)
        values[number] = place
        names = [self._text(self._names, name).decode() for name in range(self._names.count)]
        texts = Texts(
            self._texts.data[: self._texts.starts[self._texts.count]], self._texts.starts[: self._texts.count + 1]
        )
        return Clauses(
            np.concatenate([np.empty(0, np.int32), *self._owners]),
            conjunctions,
            attributes,
            ops,
            np.append(0, ends),
            kinds,
            values,
            names,
            NumberTable(distinct // _SCALES, (distinct % _SCALES).astype(np.int16), {}),
            texts,
        )

    def _append(self, data: NDArray[np.uint8], first: int, found: Found) -> None:
        owners = np.flatnonzero(found.taken)
        text, op, name, name_end, ends = found.rows.T
        kinds, low, high = found.members.T
        string = kinds == STRING
        values = np.zeros(len(kinds), np.int32)
        values[string] = self._texts.number(data, low[string], high[string])
        keys = np.where(string, 0, low * _SCALES + high)
        attributes = self._names.number(data, name.copy(), name_end.copy())
        conjunctions = (self._conjunctions + np.searchsorted(owners, text)).astype(np.int32)
        kinds, values, keys, ends = self._with_ends(op, kinds, values, keys, ends)
        self._rows.append((conjunctions, attributes, op.astype(np.int8), self._count + ends))
        self._members.append((kinds.astype(np.int8), values, keys))
        self._owners.append((first + owners).astype(np.int32))
        self._conjunctions += len(owners)
        self._count += len(kinds)

    def _with_ends(
        self,
        op: NDArray[np.int64],
        kinds: NDArray[np.int64],
        values: NDArray[np.int32],
        keys: NDArray[np.int64],
        ends: NDArray[np.int64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64]]:
        """A prefix gets its second member: the same bytes, the last one greater by one."""
        prefix = op == Op.PREFIX
        places = ends[prefix]
        numbers = values[places - 1]
        starts = self._texts.starts
        lengths = starts[numbers + 1] - starts[numbers]
        stops = np.cumsum(lengths)
        within = np.arange(stops[-1] if len(stops) else 0) + np.repeat(starts[numbers] - stops + lengths, lengths)
        data = self._texts.data[within]
        data[stops - 1] += 1
        after = self._texts.number(data, stops - lengths, stops)
        return (
            np.insert(kinds, places, STRING),
            np.insert(values, places, after),
            np.insert(keys, places, 0),
            ends + np.cumsum(prefix),
        )

    @staticmethod
    def _text(interned: Interned, number: int) -> bytes:
        return interned.data[interned.starts[number] : interned.starts[number + 1]].tobytes()


def _columns(chunks: Sequence[tuple[NDArray[np.generic], ...]], types: tuple[type, ...]) -> list[NDArray]:  # type: ignore[type-arg]
    return [
        np.concatenate([np.empty(0, type), *(chunk[place] for chunk in chunks)]) for place, type in enumerate(types)
    ]


def _moved(tree: Tree, by: int) -> Tree:
    return tree + by if isinstance(tree, int) else (tree[0], tuple(_moved(part, by) for part in tree[1]))


def _joined(left: Clauses, right: Clauses) -> Clauses:
    """Both, those of the right with numbers after those of the left."""
    if not len(right.owners) and not right.trees:
        return left
    places = {name: place for place, name in enumerate(dict.fromkeys(chain(left.names, right.names)))}
    renamed = np.array([places[name] for name in right.names], np.int32)
    numbers, texts = len(left.numbers.mantissas), len(left.texts.starts) - 1
    shift = np.where(right.kinds == STRING, texts, numbers).astype(np.int32)
    conjunctions, members, bytes = len(left.owners), left.member_starts[-1], left.texts.starts[-1]
    return Clauses(
        np.concatenate([left.owners, right.owners]),
        np.concatenate([left.conjunctions, right.conjunctions + np.int32(conjunctions)]),
        np.concatenate([left.attributes, renamed[right.attributes] if len(renamed) else right.attributes]),
        np.concatenate([left.ops, right.ops]),
        np.concatenate([left.member_starts, right.member_starts[1:] + members]),
        np.concatenate([left.kinds, right.kinds]),
        np.concatenate([left.values, right.values + shift]),
        tuple(places),
        NumberTable(
            np.concatenate([left.numbers.mantissas, right.numbers.mantissas]),
            np.concatenate([left.numbers.scales, right.numbers.scales]),
            {place + numbers: number for place, number in right.numbers.slow.items()},
        ),
        Texts(
            np.concatenate([left.texts.data, right.texts.data]),
            np.concatenate([left.texts.starts, right.texts.starts[1:] + bytes]),
        ),
        [(subscription, _moved(tree, conjunctions)) for subscription, tree in right.trees],
    )
