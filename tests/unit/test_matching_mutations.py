"""The comparison with the reference can fail: a compiler that gets any one kind of predicate wrong is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest

from routing.filters import matches
from routing.matching import compile, compile_program
from routing.matching.clauses import Clauses, Op

SCHEMA = pa.schema({"x": pa.int64(), "s": pa.string()})
TEXTS = [
    *("x = 2", "x IN (1, 3)", "x <> 2", "x NOT IN (1, 2)", "x < 2", "x <= 2", "x > 2", "x >= 2"),
    *("x BETWEEN 1 AND 2", "x > 0 AND x < 3", "s LIKE 'a%'", "s NOT LIKE 'a%'", "s LIKE '%b'", "s NOT LIKE '%b'"),
    *("s LIKE '%ab%'", "s NOT LIKE '%ab%'", "s LIKE 'a_b'", "s NOT LIKE 'a_b'", "s LIKE '%'", "s NOT LIKE '%'"),
    *("x IS NULL", "x IS NOT NULL", "s = 'ab' AND x > 1", "s = 'b' OR x = 0", "s >= 'ab'", "s < 'b'"),
]
EVENTS = list(product([None, 0, 1, 2, 3], [None, "", "a", "ab", "aab", "acb", "b", "ba", "bab", "aba"]))
BATCH = pa.RecordBatch.from_pylist([{"x": x, "s": s} for x, s in EVENTS], SCHEMA)
EXPECTED = [
    [at for at, text in enumerate(TEXTS) if matches(text, {name: value for name, value in event.items() if value is not None})]
    for event in BATCH.to_pylist()
]  # fmt: skip

INSTEAD = {
    Op.IN: Op.NOT_IN,
    Op.NOT_IN: Op.IN,
    Op.LESS: Op.AT_MOST,
    Op.AT_MOST: Op.LESS,
    Op.MORE: Op.AT_LEAST,
    Op.AT_LEAST: Op.MORE,
    Op.PREFIX: Op.NOT_PREFIX,
    Op.NOT_PREFIX: Op.PREFIX,
    Op.SUFFIX: Op.SUBSTRING,
    Op.NOT_SUFFIX: Op.SUFFIX,
    Op.SUBSTRING: Op.SUFFIX,
    Op.NOT_SUBSTRING: Op.NOT_SUFFIX,
    Op.LIKE: Op.NOT_LIKE,
    Op.NOT_LIKE: Op.LIKE,
    Op.NULL: Op.NOT_NULL,
    Op.NOT_NULL: Op.NULL,
}


def matched(broken: Callable[[Clauses], Clauses] = lambda clauses: clauses) -> list[list[int]]:
    """What a compiler gives that takes broken clauses for the real ones."""
    resolve = compile.resolve
    with mock.patch.object(compile, "resolve", lambda clauses, schema: resolve(broken(clauses), schema)):
        program = compile_program([(str(at), text) for at, text in enumerate(TEXTS)], SCHEMA)
    found: list[list[int]] = program.match(BATCH).to_pylist()
    return found


def test_nothing_broken_nothing_noticed() -> None:
    assert matched() == EXPECTED


@pytest.mark.parametrize("op", INSTEAD, ids=lambda op: op.name)
def test_a_predicate_taken_for_another_is_noticed(op: Op) -> None:
    def broken(clauses: Clauses) -> Clauses:
        assert op in clauses.ops
        return replace(clauses, ops=np.where(clauses.ops == op, INSTEAD[op], clauses.ops).astype(np.int8))

    assert matched(broken) != EXPECTED


@pytest.mark.parametrize("op", [Op.AT_MOST, Op.LESS, Op.MORE, Op.AT_LEAST], ids=lambda op: op.name)
def test_one_end_of_a_range_lost_is_noticed(op: Op) -> None:
    """The conjunctions with two predicates keep the first only."""

    def broken(clauses: Clauses) -> Clauses:
        again = np.append(False, clauses.conjunctions[1:] == clauses.conjunctions[:-1])
        lost = again & (clauses.ops == op)
        return replace(clauses, ops=np.where(lost, Op.NOT_NULL, clauses.ops).astype(np.int8)) if lost.any() else clauses

    assert (matched(broken) == EXPECTED) is (op is Op.AT_LEAST)  # no text has it second


def test_a_constant_that_is_off_by_one_is_noticed() -> None:
    def broken(clauses: Clauses) -> Clauses:
        return replace(clauses, values=np.roll(clauses.values, 1))

    assert matched(broken) != EXPECTED
