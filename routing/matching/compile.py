"""Subscriptions and a schema in, a Program out.

Law: a program is a function of its arguments. Its results are exactly those of `routing.filters.evaluate` on every
event of that schema; a filter that names what the schema lacks compiles, and sees it as absent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from routing.errors import FilterError
from routing.filters import Limits, parse, push_negations
from routing.filters.ast import Filter, attributes
from routing.matching.lower import Leaf, Lowering
from udfs.columns import SIGN, Domain, Slot
from udfs.postfix import Code
from udfs.program import Program

_DEFAULT = Limits()
_WORD = (1 << 64) - 1


def compile_program(
    subscriptions: Iterable[tuple[str, str | Filter]],
    schema: pa.Schema,
    *,
    tokens: Sequence[Collection[str | int]] | None = None,
    limits: Limits = _DEFAULT,
    zone: tzinfo = UTC,
) -> Program:
    """The program that matches these (id, filter) pairs on events of this schema.

    `tokens` holds each subscription's tokens, in the same order. `limits` and `zone` are for filters given as text.
    A timestamp column without a zone is read in UTC.

    >>> program = compile_program([("cheap", "price < 2.5"), ("disney", "symbol = 'DIS'")],
    ...                           pa.schema({"symbol": pa.string(), "price": pa.int64(), "note": pa.string()}))
    >>> program.columns
    ('symbol', 'price')
    >>> program.match(pa.record_batch({"symbol": ["DIS", "IBM"], "price": [2, None]})).to_pylist()
    [[0, 1], []]
    """
    ids, filters = [], []
    for id, filter in subscriptions:
        ids.append(id)
        filters.append(_parsed(id, filter, limits, zone) if isinstance(filter, str) else filter)
    if tokens is not None and len(tokens) != len(ids):
        raise ValueError(f"{len(tokens)} token sets for {len(ids)} subscriptions")
    lowering = Lowering(schema, _columns(filters, schema))
    codes: dict[Code, int] = {}
    places = [codes.setdefault(_code(lowering, *pair), len(codes)) for pair in zip(ids, filters, strict=True)]
    return _assemble(ids, lowering, codes, places, tokens)


def _parsed(id: str, text: str, limits: Limits, zone: tzinfo) -> Filter:
    try:
        return parse(text, limits=limits, zone=zone)
    except FilterError as error:
        raise _named(id, error) from error


def _code(lowering: Lowering, id: str, filter: Filter) -> Code:
    try:
        return lowering.code(push_negations(filter))
    except FilterError as error:
        raise _named(id, error) from error


def _named(id: str, error: FilterError) -> FilterError:
    return type(error)(f"subscription {id}: {error.message}", column=error.column, hint=error.hint)


def _columns(filters: Iterable[Filter], schema: pa.Schema) -> dict[str, int]:
    """The columns that some filter names, in the order of the schema."""
    named = frozenset(chain.from_iterable(map(attributes, filters)))
    columns = [name for name in schema.names if name in named]
    twice = {name for name in columns if columns.count(name) > 1}
    if twice:
        raise ValueError(f"the schema has several columns named {', '.join(map(repr, sorted(twice)))}")
    return {name: place for place, name in enumerate(columns)}


def _assemble(
    ids: list[str],
    lowering: Lowering,
    codes: dict[Code, int],
    places: list[int],
    tokens: Sequence[Collection[str | int]] | None,
) -> Program:
    """All parts as flat arrays."""
    slots = tuple(lowering.slots)
    pools = _Pools()
    leaves = [pools.flat(leaf, slots[leaf.slot]) for leaf in lowering.leaves]
    words = [list(lowering.vocabularies.get(slot, ())) for slot in range(len(slots))]
    return Program(
        subscription_ids=tuple(ids),
        columns=tuple(lowering.columns),
        slots=slots,
        leaves=np.array(leaves, np.int32).reshape(-1, 5),
        integers=np.array(pools.integers, np.int64),
        doubles=np.array(pools.doubles, np.float64),
        texts=pa.array(pools.texts, pa.string()),
        code=np.fromiter(chain.from_iterable(codes), np.int32),
        code_starts=_starts(codes),
        filters=np.array(places, np.int32),
        vocabulary=pa.array(list(chain.from_iterable(words)), pa.string()),
        vocabulary_starts=_starts(words),
        **_token_arrays(tokens),
    )


def _token_arrays(tokens: Sequence[Collection[str | int]] | None) -> dict[str, Any]:
    """Each distinct set of tokens once; within it the places of its tokens, ascending."""
    held = [frozenset(some) for some in tokens or ()]
    texts = sorted({token for some in held for token in some if isinstance(token, str)})
    numbers = sorted({token for some in held for token in some if not isinstance(token, str)})
    tokens_held: list[str | int] = [*texts, *numbers]
    place = {token: number for number, token in enumerate(tokens_held)}
    sets: dict[frozenset[str | int], int] = {}
    set_of = [sets.setdefault(some, len(sets)) for some in held]
    return {
        "has_tokens": tokens is not None,
        "token_texts": pa.array(texts, pa.string()),
        "token_numbers": pa.array(numbers, pa.int64()),
        "token_sets": np.array([number for some in sets for number in sorted(place[t] for t in some)], np.int32),
        "token_set_starts": _starts(sets),
        "token_set_of": np.array(set_of, np.int32),
    }


@dataclass(slots=True)
class _Pools:
    """The operands of all leaves, by type."""

    integers: list[int] = field(default_factory=list)
    doubles: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def flat(self, leaf: Leaf, slot: Slot) -> tuple[int, int, bool, int, int]:
        """The leaf as a row of numbers; its operands go to the pool of their type."""
        pool: list[Any]
        operands: Sequence[Any] = leaf.operands
        if operands and isinstance(operands[0], str):
            pool = self.texts
        elif slot.domain is Domain.DOUBLE:
            pool = self.doubles
        else:
            pool = self.integers
            operands = [word for operand in operands for word in _words(operand, slot)]
        start = len(pool)
        pool.extend(operands)
        return leaf.slot, leaf.test, leaf.negated, start, len(pool)


def _words(number: int, slot: Slot) -> list[int]:
    """The number as the kernel holds it: 64-bit words, the most significant first, each kept as a signed integer."""
    if slot.words > 1:
        number += int(SIGN) << 64 * (slot.words - 1)
    return [
        int.from_bytes((number >> 64 * word & _WORD).to_bytes(8, "big"), "big", signed=True)
        for word in reversed(range(slot.words))
    ]


def _starts(parts: Iterable[Collection[object]]) -> NDArray[np.int64]:
    return np.array([0, *accumulate(map(len, parts))], np.int64)
