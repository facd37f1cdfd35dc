"""Machine code for all kernels, made once: the first batch of a new installation should not wait for a compiler.

Law: after `warm` a worker that matches, and a driver that compiles, find machine code on disk.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

from routing.matching.compile import compile_program
from udfs import kernel
from udfs.program import Program
from udfs.roster import Patch, Roster, matches

SCHEMA = pa.schema(
    {
        "s": pa.string(),
        "i": pa.int64(),
        "h": pa.int32(),
        "d": pa.float64(),
        "m": pa.decimal128(20, 4),
        "b": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
    }
)
_PLAIN = (
    "s = 'a' AND i > 3 AND d <= 2.5",
    "s LIKE 'a%' AND i BETWEEN 1 AND 5",
    "ENDSWITH(s, 'b') AND NOT CONTAINS(s, 'cd')",
    "s LIKE '%a_b%' OR h IN (1, 2, 3)",
    "i NOT IN (1, 2) AND s <> 'x' AND m > 1.5",
    "b AND day >= DATE '2026-01-31' AND at < TIMESTAMP '2026-01-31 10:00:00Z'",
    "s IS NULL OR d IS NOT NULL",
    "TRUE",
)
_LARGE = " AND ".join(f"(i = {at} OR s = 'v{at}')" for at in range(12))


def warm() -> None:
    """Compile and match a little of everything: with and without tokens, event by event and sorted by cluster."""
    texts = [*_PLAIN, _LARGE, *(f"s = 'v{at}' AND i > {at} AND d < {at}.5" for at in range(200))]
    named = [(str(at), text) for at, text in enumerate(texts)]
    batch = pa.RecordBatch.from_pydict(_EVENTS, schema=SCHEMA)
    for tokens in (None, [["t"]] * len(named)):
        program = _loaded(compile_program(named, SCHEMA, tokens=tokens))
        seen = None if tokens is None else pa.array([["t"]] * batch.num_rows, pa.list_(pa.string()))
        program.match(batch, seen)
        _sorted_by_cluster(program, batch, seen)
    first = Roster(_loaded(compile_program([("1", "i > 1")], SCHEMA)), np.zeros(1, np.int32), pa.array(["a"]))
    for change in (None, Patch(first, np.zeros(1, np.int64), np.zeros(1, np.int64))):
        list(matches(batch, first, change))


def _loaded(program: Program) -> Program:
    """The program as a worker has it, mapped from a file."""
    with tempfile.TemporaryDirectory() as scratch:
        program.save(Path(scratch) / "program")
        return Program.load(Path(scratch) / "program")


def _sorted_by_cluster(program: Program, batch: pa.RecordBatch, tokens: pa.ListArray | None) -> None:
    """Match in the order that large programs choose."""
    usual = kernel.SMALL, kernel.SHARED
    kernel.SMALL = kernel.SHARED = 0
    try:
        program.match(batch, tokens)
    finally:
        kernel.SMALL, kernel.SHARED = usual


_EVENTS = {
    "s": ["a", "v7", None, "xa1bcd"] * 50,
    "i": [5, None, 1, 9] * 50,
    "h": [1, 2, None, 7] * 50,
    "d": [0.5, float("nan"), 3.5, None] * 50,
    "m": [Decimal("1.5"), None, Decimal(2), Decimal(0)] * 50,
    "b": [True, False, None, True] * 50,
    "day": [date(2026, 1, 31), None, date(2026, 2, 1), date(1970, 1, 1)] * 50,
    "at": [datetime(2026, 1, 31, tzinfo=UTC), None, datetime(2026, 2, 1, tzinfo=UTC), None] * 50,
}
