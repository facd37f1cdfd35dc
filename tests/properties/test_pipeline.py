"""The whole pipeline against the reference evaluator: random filters, random events, no difference.

SLUICE_EXAMPLES=100 runs more (each example is one batch of 50 filters × 50 events).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from routing.engine import Engine
from routing.filters import Filter, matches, to_sql
from tests.strategies import TYPED, events, filters

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("exchange", pa.string()),
        ("s1", pa.string()),
        ("s2", pa.string()),
        ("b1", pa.bool_()),
        ("i1", pa.int64()),
        ("d1", pa.float64()),
        ("m1", pa.decimal128(20, 4)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
SIZE = 50
EXAMPLES = int(os.environ.get("SLUICE_EXAMPLES", "4"))  # 4 × 50 × 50 = 10,000 pairs
pairs = st.tuples(
    st.lists(filters(TYPED), min_size=SIZE, max_size=SIZE), st.lists(events(TYPED), min_size=SIZE, max_size=SIZE)
)


def test_random_filters_and_events(spark: SparkSession, make_engine: Callable[..., Engine]) -> None:
    source = {"format": "rate", "id": "id", "publisher": "exchange"}
    engine = make_engine(
        sources={"random": source},
        duplicates={"horizon": "0 days"},
        filters={"text_bytes": 100_000, "nodes": 10_000, "depth": 64},
    )
    tried = matched = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(pairs)
    def run(drawn: tuple[list[Filter], list[dict[str, Any]]]) -> None:
        nonlocal tried, matched
        wanted, published = drawn
        engine.tables.delete("subscriptions", F.col("consumer").isNotNull())
        rows = [(f"c{n:02d}", to_sql(filter)) for n, filter in enumerate(wanted)]
        engine.subscribe_many(spark.createDataFrame(rows, "consumer string, filter string"))
        table = pa.Table.from_pylist(
            [{"id": str(n), "exchange": "x", **event} for n, event in enumerate(published)], SCHEMA
        )
        report = engine.route(spark.createDataFrame(table))
        found = (
            engine.tables.read("notifications")
            .where(f"batch = {report.ordinal}")
            .select("consumer", "event_id")
            .collect()
        )
        expected = {
            (f"c{n:02d}", str(m))
            for n, filter in enumerate(wanted)
            for m, event in enumerate(published)
            if matches(filter, event)
        }
        got = {(row[0], row[1]) for row in found}
        assert engine.tables.read("rejections").where("severity = 'error'").count() == 0
        assert len(got) == len(found) and got == expected, [
            (to_sql(wanted[int(c[1:])]), published[int(e)], (c, e) in expected) for c, e in sorted(got ^ expected)[:5]
        ]
        tried, matched = tried + len(wanted) * len(published), matched + len(expected)

    run()
    assert tried >= 2500 * EXAMPLES and matched > tried // 100
