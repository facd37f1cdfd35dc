"""A view for each consumer: only its rows, whatever its name says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.cli import statements
from routing.engine import REGISTER, Engine
from routing.errors import ConfigError

SCHEMA = "id STRING, exchange STRING, at TIMESTAMP, price DOUBLE"
NAMES = ["ann", "Ann", "it's", "' OR '1' = '1", "x'; DROP TABLE sluice.events; --", "日本🙂", "a\\", "nul\0", "n" * 500]


@pytest.mark.parametrize("layout", ["consumer", "bucket"])
def test_a_view_shows_only_its_consumer(make_engine: Callable[..., Engine], layout: str) -> None:
    payload = "reference" if layout == "consumer" else "embed"
    engine = make_engine(notifications={"layout": layout, "payload": payload})
    rows = [(name, "price > 1") for name in NAMES]
    engine.subscribe_many(engine.spark.createDataFrame(rows, "consumer string, filter string"))
    made = {engine.create_view(name, f"v{at}"): name for at, name in enumerate(NAMES)}
    events: Any = [(str(n), "x", datetime(2026, 1, 1, tzinfo=UTC), 5.0) for n in range(2)]
    engine.route(engine.spark.createDataFrame(events, SCHEMA))
    assert engine.tables.directory
    for statement in statements((engine.tables.directory / REGISTER).read_text()):
        engine.spark.sql(statement)  # as another session would
    for view, name in made.items():
        found = engine.spark.read.table(engine.tables.name(view)).select("consumer", "event_id", "event").collect()
        assert {row["consumer"] for row in found} == {name}
        assert sorted(row["event_id"] for row in found) == ["0", "1"] and all(row["event"] is not None for row in found)


def test_names_of_views(engine: Engine) -> None:
    assert engine.create_view("ann") == "inbox_ann"
    for consumer, name in (("it's", None), ("ann", "events"), ("ann", "notifications_x"), ("ann", "a b")):
        with pytest.raises(ConfigError, match="cannot be the name of a view"):
            engine.create_view(consumer, name)
