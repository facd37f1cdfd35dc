"""The matcher against the reference evaluator: random filters, random events, every layout that Arrow has for them."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routing.filters import evaluate
from routing.filters.ast import Comparison, Filter, Kind, Literal, Operator, conjunction, disjunction
from routing.filters.exact import exact
from routing.matching import compile_program
from tests.strategies import MIXED, TYPED, VALUES, filters
from tests.unit.test_matching import ANY, DECIMALS, INTEGERS, STRINGS
from tests.ways import WAYS, Way, matching
from udfs import kernel, strings

TYPES: dict[str, list[pa.DataType]] = {
    "s1": STRINGS,
    "s2": STRINGS,
    "b1": [pa.bool_()],
    "i1": INTEGERS,
    "d1": [pa.float64(), pa.float32(), pa.float16()],
    "m1": [pa.decimal128(20, 4), pa.decimal256(60, 30), pa.decimal128(18, 2), pa.decimal128(5, -2), *DECIMALS],
    "day": [pa.date32(), pa.date64()],
    "at": [pa.timestamp(unit, zone) for unit in ("us", "s", "ms", "ns") for zone in ("UTC", None, "America/New_York")],
    "o": [pa.list_(pa.int64()), pa.null(), pa.binary()],
}
EXTRA: dict[str, st.SearchStrategy[Any]] = {
    "s1": st.text(max_size=3),
    "i1": st.integers(-130, 300),
    "d1": st.floats(),
    "m1": st.decimals(-1000, 1000, places=2),
    "day": st.dates(),
    "at": st.datetimes(timezones=st.just(UTC)),
}
NAMES = (*TYPED, *MIXED, "o", "missing")


def values(name: str) -> st.SearchStrategy[Any]:
    """A value for the attribute: None, one of the pool that the filters use too, or any."""
    if name == "o":
        return st.none() | st.just([1])
    if name in MIXED:
        return st.one_of(st.none(), st.just([1]), *(st.sampled_from(pool) for pool in VALUES.values()))
    return st.one_of(
        st.none(), st.sampled_from(VALUES[name]), st.sampled_from(VALUES[name]), EXTRA.get(name, st.none())
    )


def column(drawn: list[Any], type: pa.DataType) -> tuple[pa.Array, list[Any]]:
    """The values as an array of that type, and as what they are in it; those that it cannot hold become None."""
    if pa.types.is_floating(type):
        width: Any = {"halffloat": np.float16, "float": np.float32, "double": np.float64}[str(type)]
        with np.errstate(over="ignore"):
            drawn = [None if value is None else float(width(value)) for value in drawn]
        return pa.array(drawn, pa.float64()).cast(type, safe=False), drawn
    if pa.types.is_list(type) or pa.types.is_binary(type) or pa.types.is_null(type):
        present = [None if pa.types.is_null(type) else value for value in drawn]
        return pa.array([v if v is None or pa.types.is_list(type) else b"1" for v in present], type), present
    plain = type.value_type if pa.types.is_dictionary(type) else type
    held = [value if _fits(value, plain) else None for value in drawn]
    return pa.array(held, plain).cast(type), held


def _fits(value: Any, type: pa.DataType) -> bool:
    if isinstance(value, datetime) and pa.types.is_timestamp(type):
        step = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[type.unit]
        return value.microsecond % step == 0 and (type.unit != "ns" or 1700 < value.year < 2200)
    try:
        return bool(pa.scalar(value, type).as_py() == value)
    except (pa.ArrowInvalid, OverflowError):
        return False


def any_column(drawn: list[Any]) -> tuple[pa.Array, list[Any]]:
    return pa.array([_alternative(value) for value in drawn], ANY), drawn


def _alternative(value: Any) -> dict[str, Any] | None:
    match value:
        case None:
            return None
        case bool():
            return {"boolean": value}
        case int():
            return {"integer": value}
        case float():
            return {"double": value}
        case Decimal():
            return {"decimal": f"{value:f}"}
        case str():
            return {"string": value}
        case datetime():
            return {"timestamp": value}
        case date():
            return {"date": value}
        case _:
            return {"other": True}


@st.composite
def batches(draw: st.DrawFn) -> tuple[pa.RecordBatch, list[dict[str, Any]]]:
    """A batch, often a slice of a larger one, and its events as the reference sees them."""
    rows, before, after = draw(st.integers(0, 9)), draw(st.integers(0, 9)), draw(st.integers(0, 2))
    fields, arrays, held = [], [], {}
    for name in draw(st.permutations(NAMES[:-1])):
        drawn = draw(st.lists(values(name), min_size=rows + before + after, max_size=rows + before + after))
        if name in MIXED:
            array, held[name] = any_column(drawn)
            fields.append(pa.field(name, ANY, metadata={b"sluice": b"any"}))
        else:
            array, held[name] = column(drawn, draw(st.sampled_from(TYPES[name])))
            fields.append(pa.field(name, array.type))
        arrays.append(array)
    events = [{name: some[row] for name, some in held.items()} for row in range(before, before + rows)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)).slice(before, rows), events


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batches(),
    st.lists(filters(NAMES), max_size=10),
    st.sampled_from([(4096, 1 << 24, 1 << 17), (4, 1 << 24, 2), (5, 3, 0)]),
    st.sampled_from(WAYS),
)
def test_the_kernel_is_the_reference(
    batch: tuple[pa.RecordBatch, list[dict[str, Any]]], trees: list[Filter], sizes: tuple[int, int, int], way: Way
) -> None:
    record, events = batch
    trees = [*trees, *(some for pair in pairwise(trees) for some in (conjunction(pair), disjunction(pair)))]  # sharing
    program = compile_program([(str(number), tree) for number, tree in enumerate(trees)], record.schema)
    with (
        matching(way),
        mock.patch.object(kernel, "ROWS", sizes[0]),
        mock.patch.object(kernel, "MOST_PAIRS", sizes[1]),
        mock.patch.object(strings, "MOST_STRINGS", sizes[2]),
    ):
        matched = program.match(record.select(program.columns))
    matched.validate(full=True)
    expected = [[place for place, tree in enumerate(trees) if evaluate(tree, event) is True] for event in events]
    assert matched.to_pylist() == expected
    assert pickle.loads(pickle.dumps(program)).match(record).equals(matched)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches(), st.lists(filters(NAMES), min_size=1, max_size=8), st.data())
def test_tokens_restrict_and_nothing_else(
    batch: tuple[pa.RecordBatch, list[dict[str, Any]]], trees: list[Filter], data: st.DataObject
) -> None:
    record, _ = batch
    pool: list[Any] = data.draw(st.sampled_from([["a", "b", "c", ""], [1, 2, 3, -(2**63)]]))
    some = st.lists(st.sampled_from(pool), max_size=3)
    held = data.draw(st.lists(some, min_size=len(trees), max_size=len(trees)))
    carried = data.draw(st.lists(st.none() | some, min_size=record.num_rows, max_size=record.num_rows))
    subscriptions = [(str(number), tree) for number, tree in enumerate(trees)]
    free = compile_program(subscriptions, record.schema).match(record).to_pylist()
    program = compile_program(subscriptions, record.schema, tokens=held)
    lists = pa.array([["x"], *carried] if isinstance(pool[0], str) else [[9], *carried]).slice(1)
    expected = [
        [place for place in row if set(held[place]) & set(carry or ())]
        for row, carry in zip(free, carried, strict=True)
    ]
    with matching(data.draw(st.sampled_from(WAYS))):
        assert program.match(record, lists).to_pylist() == expected


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-5, 5),
    st.decimals(allow_nan=False, allow_infinity=False, places=25, min_value=-(10**9), max_value=10**9),
    st.floats(allow_nan=False, allow_infinity=False).map(exact),
)
COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQ: lambda a, b: a == b,
    Operator.NE: lambda a, b: a != b,
    Operator.LT: lambda a, b: a < b,
    Operator.LE: lambda a, b: a <= b,
    Operator.GT: lambda a, b: a > b,
    Operator.GE: lambda a, b: a >= b,
}


@settings(max_examples=300, deadline=None)
@given(NUMBERS, st.lists(st.floats(), max_size=5), st.integers(-3, 3))
def test_doubles_around_any_constant(number: int | Decimal, doubles: list[float], steps: int) -> None:
    """The doubles next to the constant are where a rounded cut point would show."""
    near = float(number)
    for _ in range(abs(steps)):
        near = math.nextafter(near, math.copysign(math.inf, steps))
    doubles = [*doubles, float(number), near, -near]
    batch = pa.record_batch({"x": pa.array(doubles)})
    tests = [Comparison("x", operator, Literal(Kind.NUMBER, number)) for operator in Operator]
    matched = compile_program(zip("abcdef", tests, strict=True), batch.schema).match(batch).to_pylist()
    for double, some in zip(doubles, matched, strict=True):
        holds = [not math.isnan(double) and COMPARE[test.operator](exact(double), number) for test in tests]
        assert some == [place for place, truth in enumerate(holds) if truth]


@settings(max_examples=200, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(-2, 2), st.sampled_from(["s", "ms", "us", "ns"]))
def test_timestamps_around_any_instant(ticks: int, steps: int, unit: str) -> None:
    """Exact in the column's own unit, also where Python's datetime cannot follow."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    microseconds = min(max(ticks * 10**6 // per_second + steps, -(62 * 10**15)), 253 * 10**15)
    moment = datetime.fromtimestamp(0, UTC) + np.timedelta64(microseconds, "us").astype(object)
    batch = pa.record_batch({"x": pa.array([ticks, 0], pa.int64()).view(pa.timestamp(unit, "UTC"))})
    tests = [Comparison("x", operator, Literal(Kind.TIMESTAMP, moment)) for operator in Operator]
    matched = compile_program(zip("abcdef", tests, strict=True), batch.schema).match(batch).to_pylist()
    for tick, some in zip([ticks, 0], matched, strict=True):
        holds = [COMPARE[test.operator](tick * 10**6, microseconds * per_second) for test in tests]
        assert some == [place for place, truth in enumerate(holds) if truth]


@pytest.mark.parametrize("size", [9, 500])
@pytest.mark.parametrize("name", ["i", "u", "d", "s", "m"])
def test_long_lists_of_values(name: str, size: int) -> None:
    """Beyond a few values membership is a binary search; the ends of the list are its edges."""
    numbers = list(range(-size, 2 * size, 3))
    arrays = {
        "i": pa.array([*range(-size, 2 * size), None]),
        "u": pa.array([*range(2 * size), None], pa.uint64()),
        "d": pa.array([*(float(n) for n in range(-size, 2 * size)), None, math.nan, -0.0, math.inf]),
        "s": pa.array([*map(str, range(-size, 2 * size)), None, ""]),
        "m": pa.array([*(Decimal(n) for n in range(-size, 2 * size)), None], pa.decimal128(30, 1)),
    }
    spelled = [f"'{number}'" if name == "s" else str(number) for number in numbers]
    batch = pa.record_batch({"x": arrays[name]})
    texts = [f"x IN ({', '.join(spelled)})", f"x NOT IN ({', '.join(spelled)})"]
    program = compile_program(zip("ab", texts, strict=True), batch.schema)
    members = set(map(str, numbers)) if name == "s" else set(numbers)
    for value, matched in zip(batch.column(0).to_pylist(), program.match(batch).to_pylist(), strict=True):
        incomparable = value is None or value != value
        assert matched == ([] if incomparable else [0] if value in members else [1]), value
