"""Subscriptions and a schema in, a Program out.

Law: a program is a function of its arguments. Its results are exactly those of `routing.filters.evaluate` on every
event of that schema; a filter that names what the schema lacks compiles, and sees it as absent.

    filters ──▶ clauses ──▶ predicates over codes ──▶ encodings of the columns
                                                 └──▶ index
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, tzinfo
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from routing.errors import FilterError
from routing.filters import Limits, parse
from routing.filters.ast import Filter
from routing.matching.batch import clauses_of
from routing.matching.clauses import Clauses
from routing.matching.encodings import encodings
from routing.matching.layout import index
from routing.matching.predicates import resolve
from udfs.program import Program
from udfs.tokens import TokenSets

_DEFAULT = Limits()


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
    pairs = subscriptions if isinstance(subscriptions, list) else list(subscriptions)
    if tokens is not None and len(tokens) != len(pairs):
        raise ValueError(f"{len(tokens)} token sets for {len(pairs)} subscriptions")
    clauses = clauses_of([filter for _, filter in pairs], limits, lambda place: _parsed(pairs[place], limits, zone))
    return assemble(pa.array([id for id, _ in pairs], pa.string()), clauses, schema, tokens)


def _parsed(subscription: tuple[str, str | Filter], limits: Limits, zone: tzinfo) -> Filter:
    id, filter = subscription
    if not isinstance(filter, str):
        return filter
    try:
        return parse(filter, limits=limits, zone=zone)
    except FilterError as error:
        raise type(error)(f"subscription {id}: {error.message}", column=error.column, hint=error.hint) from error


def assemble(
    ids: pa.StringArray, clauses: Clauses, schema: pa.Schema, tokens: Sequence[Collection[str | int]] | None = None
) -> Program:
    """The program of clauses that are there already, one for each schema."""
    lanes, predicates = resolve(clauses, schema)
    made = encodings(clauses, lanes, predicates.tokens, schema)
    return Program(
        ids=ids,
        columns=lanes.columns,
        slots=made.slots,
        encoding=made.encoding,
        words=made.words,
        patterns=made.patterns,
        index=index(clauses, lanes, predicates, made),
        has_tokens=tokens is not None,
        **_token_sets(tokens),
    )


def _token_sets(tokens: Sequence[Collection[str | int]] | None) -> dict[str, Any]:
    """The tokens, for each the sets that hold it, and the set of each subscription."""
    held = [frozenset(some) for some in tokens or ()]
    sets: dict[frozenset[str | int], int] = {}
    set_of = [sets.setdefault(some, len(sets)) for some in held]
    texts = sorted({token for some in sets for token in some if isinstance(token, str)})
    numbers = sorted({token for some in sets for token in some if not isinstance(token, str)})
    known: list[str | int] = [*texts, *numbers]
    holders: dict[str | int, list[int]] = {token: [] for token in known}
    for some, number in sets.items():
        for token in some:
            holders[token].append(number)
    return {
        "token_texts": pa.array(texts, pa.string()),
        "token_numbers": pa.array(numbers, pa.int64()),
        "token_sets": TokenSets(
            np.array([0, *accumulate(map(len, holders.values()))], np.int64),
            np.array([number for some in holders.values() for number in some], np.int32),
            np.array([len(sets)], np.int64),
            np.array(set_of, np.int32),
        ),
    }
