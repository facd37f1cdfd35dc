"""Growth is bounded, dead letters come again, and nothing that anybody needs goes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F

from routing.checker.finding import VIOLATED
from routing.engine import Engine

SCHEMA = "id STRING, exchange STRING, at TIMESTAMP, price DOUBLE"


def rows(engine: Engine, *ids: str) -> Any:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return engine.spark.createDataFrame([(id, "x", at, 5.0) for id in ids], SCHEMA)


def count(engine: Engine, table: str) -> int:
    return engine.tables.read(table).count()


def test_what_is_old_goes_and_what_is_needed_stays(make_engine: Callable[..., Engine]) -> None:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    engine = make_engine(clock=lambda: now[0], retention="10 days", duplicates={"horizon": "20 days"})
    engine.subscribe("ann", "price > 1")
    for id in "abc":
        engine.route(rows(engine, id, id))  # one of them is a dead letter
    now[0] += timedelta(days=15)
    engine.route(rows(engine, "d"))
    done = {one.table: one for one in engine.maintain()}
    assert {name: done[name].expired for name in ("notifications", "dead_letters", "events", "batches")} == {
        "notifications": 3,
        "dead_letters": 3,
        "events": 0,
        "batches": 6,
    }
    assert [count(engine, name) for name in ("notifications", "dead_letters", "events")] == [1, 0, 4]
    assert done["events"].files > done["events"].compacted == 1
    # The horizon is longer than the retention: what is forgotten elsewhere is still a duplicate.
    assert engine.route(rows(engine, "a", "e")).counts == {"events": 2, "admitted": 1, "refused": 1, "notifications": 1}
    now[0] += timedelta(days=15)
    again = {one.table: one.expired for one in engine.maintain()}
    assert again["events"] == 3 and again["batches"] == 2  # the last batch of the source stays, with all its rows
    assert [count(engine, name) for name in ("notifications", "events", "dead_letters")] == [1, 2, 1]
    assert not [one for one in engine.check() if one.verdict == VIOLATED]
    assert engine.route(rows(engine, "a")).ordinal == 6


def test_dead_letters_come_again_once(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    quotes = {"format": "json", "path": str(tmp_path / "feed"), "publisher": "exchange", "time": "at"}
    engine = make_engine(sources={"quotes": {**quotes, "id": "key"}})
    engine.subscribe("ann", "price > 1")
    lines = [{"id": f"{n}", "exchange": "x", "at": "2026-01-01T00:00:00Z", "price": n} for n in range(5)]
    lines[0]["key"] = "k"  # of one the column is there, and so it is known
    feed = tmp_path / "feed" / "1.json"
    feed.write_text("".join(json.dumps(line) + "\n" for line in lines) + "{\n")
    running = engine.start()
    assert running.await_termination()
    assert count(engine, "dead_letters") == 5 and count(engine, "notifications") == 0

    engine = make_engine(reopen=True, sources={"quotes": {**quotes, "id": "id"}})  # the correction
    report = engine.requeue()
    assert report and report.counts == {"events": 5, "admitted": 4, "refused": 1, "notifications": 3}
    assert [row["reason"] for row in engine.tables.read("dead_letters").collect()] == ["malformed"]
    assert engine.requeue(reasons=["missing_id"]) is None
    again = engine.requeue()
    assert again and again.counts["refused"] == 1 and count(engine, "dead_letters") == 1
    delivered = engine.notifications("ann").select(F.col("event_id")).collect()
    assert sorted(row["event_id"] for row in delivered) == ["2", "3", "4"]
    assert not [one for one in engine.check() if one.verdict == VIOLATED]
