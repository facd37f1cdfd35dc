"""The checker's columns against the evaluator: random filters, random events of all types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.checker.columns import Chunk
from routing.filters import Filter, evaluate
from tests.strategies import filters
from tests.unit.test_matching_reference import NAMES, values

CHILDREN = {
    "integer": pa.int64(),
    "double": pa.float64(),
    "decimal": pa.string(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "other": pa.bool_(),
}


def child(value: Any) -> tuple[str, Any]:
    """In which column a value lies, and as what."""
    match value:
        case bool():
            return "boolean", value
        case int() if -(1 << 63) <= value < 1 << 63:
            return "integer", value
        case float():
            return "double", value
        case int() | Decimal():
            return "decimal", str(value)
        case str():
            return "string", value
        case datetime():
            return "timestamp", value if value.tzinfo else value.replace(tzinfo=UTC)
        case date():
            return "date", value
    return "other", True


def column(some: list[Any]) -> pa.StructArray:
    placed = [None if value is None else child(value) for value in some]
    arrays = [
        pa.array([one[1] if one and one[0] == name else None for one in placed], type)
        for name, type in CHILDREN.items()
    ]
    return pa.StructArray.from_arrays(arrays, list(CHILDREN))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.fixed_dictionaries({name: values(name) for name in NAMES[:-1]}), min_size=1, max_size=6),
    st.lists(filters(), min_size=1, max_size=8),
)
def test_columns_say_what_the_evaluator_says(events: list[dict[str, Any]], some: list[Filter]) -> None:
    chunk = Chunk({name: column([event[name] for event in events]) for name in NAMES[:-1]}, len(events))
    for filter in some:
        truth = chunk.truth(filter)
        wanted = [evaluate(filter, {n: v for n, v in event.items() if v is not None}) for event in events]
        got = [True if t else False if f else None for t, f in zip(truth.true, truth.false, strict=True)]
        assert got == wanted, (filter, events)
