"""The memory of admitted keys against the journal itself: the same events are refused, for the same reasons."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from routing import seen
from routing.engine import Engine

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
Batch = list[tuple[str, str, float]]


class Clock:
    now = NOON

    def __call__(self) -> datetime:
        return self.now


def route(spark: SparkSession, engine: Engine, batch: Batch, key: str | None = None) -> Any:
    rows = [(id, exchange, "2026-01-05T10:00:00Z", price) for id, exchange, price in batch]
    return engine.route(spark.createDataFrame(rows, "id string, exchange string, at string, price double"), key=key)


def outcome(engine: Engine) -> tuple[list[Any], list[Any]]:
    got = engine.tables.read("notifications").select("batch", "publisher", "event_id").collect()
    refused = engine.tables.read("dead_letters").select("batch", "reason", "detail", "raw").collect()
    return sorted(map(tuple, got)), sorted(map(tuple, refused))


def batches(draw: random.Random, many: int) -> list[Batch]:
    """A few ids and publishers, so that most events come several times, some with another content."""
    names = [("1", "A"), ("A1", ""), ("1A", "x"), ("2", "A"), ("2", "B"), ("é", "😀"), ("3", "A\0"), ("\0" + "3", "A")]
    names = [(id, publisher or "B") for id, publisher in names]
    return [[(*draw.choice(names), draw.choice([1.0, 2.0])) for _ in range(draw.randint(0, 5))] for _ in range(many)]


def runs(engine: Engine) -> list[Path]:
    place = engine.tables.directory
    assert place
    return sorted(path for path in (place / "_seen").iterdir() if path.is_dir())


def test_the_memory_refuses_what_the_journal_knows(
    spark: SparkSession, make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two engines that share a journal and its memory take turns; a third looks at a journal of its own."""
    monkeypatch.setattr(seen, "SMALL", 2)
    monkeypatch.setattr(seen, "_AT_ONCE", 8)  # larger runs are merged in the background
    clock, draw = Clock(), random.Random(1)
    settings: dict[str, Any] = {"clock": clock, "duplicates": {"horizon": "5 hours"}}
    first = make_engine(**settings)
    second = make_engine(reopen=True, **settings)
    slow = make_engine(database="slow", warehouse=str(tmp_path / "slow"), reopen=True, **settings)
    slow._seen = None
    for engine in (first, slow):
        engine.subscribe("alice", "TRUE")
    for number, batch in enumerate(batches(draw, 9)):
        clock.now += timedelta(hours=draw.choice([0, 1, 2]))
        for engine in (draw.choice([first, second]), slow):
            route(spark, engine, batch)
        if number == 5:
            first.tables.delta("events").optimize().executeCompaction()
    assert outcome(first) == outcome(slow)
    assert len(outcome(slow)[1]) > 5
    assert {row[1] for row in outcome(slow)[1]} == {"duplicate", "conflict"}


def test_the_memory_may_be_lost_or_broken(spark: SparkSession, make_engine: Callable[..., Engine]) -> None:
    engine = make_engine()
    engine.subscribe("alice", "TRUE")
    place = engine.tables.directory
    assert place
    route(spark, engine, [("1", "A", 1.0)])
    route(spark, engine, [("2", "A", 1.0)])
    breakages: list[Callable[[], object]] = [
        lambda: (place / "_seen" / "state.json").write_text("{"),
        lambda: (runs(engine)[0] / "entries.npy").write_bytes(b""),
    ]
    for number, breakage in enumerate(breakages):
        assert runs(engine)
        breakage()
        again = make_engine(reopen=True)
        report = route(spark, again, [("1", "A", 1.0), ("2", "A", 1.0), (f"new {number}", "A", 1.0)])
        assert report.counts["refused"] == 2 and report.counts["admitted"] == 1


def test_what_somebody_takes_from_the_journal_may_come_again(spark: SparkSession, engine: Engine) -> None:
    engine.subscribe("alice", "TRUE")
    route(spark, engine, [("1", "A", 1.0), ("2", "A", 1.0)])
    engine.tables.delta("events").delete("event_id = '1'")
    report = route(spark, engine, [("1", "A", 1.0), ("2", "A", 1.0)])
    assert report.counts["admitted"] == 1
    assert route(spark, engine, [("1", "A", 1.0), ("2", "A", 1.0)]).counts["admitted"] == 0


def test_what_expires_is_not_read_again(
    spark: SparkSession, make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    engine = make_engine(clock=clock, duplicates={"horizon": "1 day"}, retention="1 day")
    engine.subscribe("alice", "TRUE")
    route(spark, engine, [("1", "A", 1.0)])
    clock.now += timedelta(hours=20)
    route(spark, engine, [("2", "A", 1.0)])
    clock.now += timedelta(hours=20)
    route(spark, engine, [("3", "A", 1.0)])
    list(engine.maintain())
    monkeypatch.setattr(seen.Seen, "_read_all", lambda *_: pytest.fail("the journal was read again"))
    report = route(spark, engine, [("1", "A", 1.0), ("2", "A", 1.0), ("3", "A", 1.0)])
    assert report.counts["admitted"] == 1
    assert engine.spark.conf.get("spark.databricks.delta.commitInfo.userMetadata", "none") == "none"
