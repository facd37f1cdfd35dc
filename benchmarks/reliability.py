"""What exactly-once costs: ledger, duplicates and order, against the same batch without them; and small batches.

    make bench-reliability

*Without*: the same events are read, matched, written to a journal and delivered, in whatever order they come, by a job
that does not care whether it has seen them before. *Small batches*: a stream of files with 100 events each, from the
trigger to Spark's own commit behind the delivery, which is visible before. *Remembered*: a batch that looks its keys up
among 20 and 100 million others, in a generated store, against one with `duplicates: {horizon: 0 seconds}`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import routing
from benchmarks import workload
from benchmarks.harness import Result, compare, report
from routing.engine import Engine
from routing.flow import flow
from routing.identify import identify
from routing.pipeline import match, shape
from routing.policy import policy
from routing.seen import LARGE, Kept
from routing.session import session
from routing.sink import _laid_out, journal_rows
from routing.sources import Rows
from schemas.delivery import RANK
from udfs.runs import write

SUBSCRIPTIONS = 1_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=60, help="small ones")
    parser.add_argument("--remembered", type=int, nargs="*", default=[20_000_000, 100_000_000], help="event ids")
    parser.add_argument("--only", choices=["cost", "small", "remembered"])
    options = parser.parse_args()
    spark, place = session(name="sluice-bench"), Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    results: list[Result] = []
    facts: dict[str, float] = {}
    try:
        if options.only in (None, "small"):
            facts |= _small(spark, place, options.batches)
        if options.only in (None, "cost"):
            results.append(_cost(spark, place, options.events, options.rounds))
        if options.only in (None, "remembered"):
            for many in options.remembered:
                result, bytes = _remembered(spark, place, many, options.events, options.rounds)
                results.append(result)
                facts[f"{many:,} ids, GB"] = round(bytes / 1e9, 2)
        report(*results, facts=facts, events=options.events, rounds=options.rounds)
    finally:
        shutil.rmtree(place)


def _remembered(spark: SparkSession, place: Path, many: int, count: int, rounds: int) -> tuple[Result, int]:
    """A batch with a memory of so many keys and one without any; and the bytes of the memory."""
    events, source = _events(spark, place, count), {"format": "rate"}
    engine = _engine(spark, place, f"bench_{many}", source)
    bare = _engine(spark, place, f"bench_{many}_bare", source, duplicates={"horizon": "0 seconds"})
    for one in (engine, bare):
        one.route(_named(events, -1).limit(10))
    memory = engine._seen
    assert memory is not None
    memory.recall(engine.ledger.now(), timedelta(days=7), frozenset())
    draw, left = np.random.default_rng(1), many
    while left:  # runs as merging leaves them
        some = min(left, LARGE // 2)
        keys = draw.integers(0, 1 << 64, (some, 2), np.uint64)
        name = f"generated{left}"
        write(memory._place / name, keys, keys[:, 0].view(np.int64), np.ones(some, np.int64))
        memory._runs.insert(0, Kept(name, some, 1))
        left -= some
    memory._save()
    size = sum(file.stat().st_size for file in memory._place.rglob("*") if file.is_file())
    contenders = {
        "no memory": lambda turn: bare.route(_named(events, turn)),
        "remembering": lambda turn: engine.route(_named(events, turn)),
    }
    name = f"{many:,} remembered ids"
    result = compare(name, contenders, baseline="no memory", rounds=rounds, warm_up=2)
    again = engine.route(_named(events, rounds)).counts  # what it is all for
    assert again["refused"] == count and not again["admitted"], again
    shutil.rmtree(memory._place)
    return result, size


def _events(spark: SparkSession, place: Path, count: int) -> DataFrame:
    """Numbered events in files."""
    if not (place / "events").exists():
        made = spark.createDataFrame(pa.Table.from_batches([workload.events(count)]))
        made = made.withColumn("number", F.monotonically_increasing_id())
        made.withColumn("at", F.timestamp_seconds(F.col("number"))).repartition(4).write.parquet(str(place / "events"))
    return spark.read.parquet(str(place / "events"))


def _cost(spark: SparkSession, place: Path, count: int, rounds: int) -> Result:
    events = _events(spark, place, count)
    engine, bare = (_engine(spark, place, name, {"format": "rate"}) for name in ("bench_ledger", "bench_bare"))
    contenders = {"without": _bare(bare, events), "exactly once": lambda turn: engine.route(_named(events, turn))}
    return compare("ledger, duplicates and order", contenders, baseline="without", rounds=rounds, warm_up=2)


def _bare(engine: Engine, events: DataFrame) -> Callable[[int], object]:
    """The same stages and the same two tables, without a ledger, without duplicates, in any order."""
    engine.route(_named(events, -1).limit(10))  # what a batch needs of the control tables is made once
    opening = engine.ledger.open("bare", "events", engine.ledger.schemas["events"])
    engine.ledger.write(opening)
    snapshot = engine._snapshot(opening)

    def run(turn: int) -> None:
        arrived = Rows(_named(events, turn), engine.config.sources["events"]).rows(snapshot.schema)
        index = F.monotonically_increasing_id()
        kept = identify(arrived, snapshot).withColumn(RANK, index).persist()
        engine.tables.append("events", journal_rows(kept, snapshot), tag="bare")
        matched = policy(match(flow(kept, snapshot), snapshot), snapshot)
        rows = shape(matched, snapshot).repartition("bucket")
        engine.tables.append("notifications", _laid_out(rows, snapshot), tag="bare")
        kept.unpersist()

    return run


def _small(spark: SparkSession, place: Path, batches: int) -> dict[str, float]:
    """Seconds of batches of 100 events, with unchanged control tables; ten before them do not count."""
    feed = place / "feed"
    feed.mkdir()
    source = {"format": "json", "path": str(feed), "options": {"maxFilesPerTrigger": 1}}
    engine = _engine(spark, place, "bench_small", source, trigger="continuous")
    rows = workload.events(100).to_pylist()
    reports: list[object] = []
    engine.on_batch = reports.append
    running = engine.start()
    (query,) = running._queries.values()
    seconds: list[float] = []
    for number in range(10 + batches):
        lines = [{**row, "id": f"{number}-{at}", "at": "2026-01-01T00:00:00Z"} for at, row in enumerate(rows)]
        draft = place / "draft"
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))
        draft.rename(feed / f"{number}.json")
        while len(reports) <= number:
            time.sleep(0.01)
        while not any(p["batchId"] == number for p in query.recentProgress):
            time.sleep(0.01)
        progress = next(p for p in query.recentProgress if p["batchId"] == number)
        seconds.append(progress["durationMs"]["triggerExecution"] / 1000)
    running.stop()
    warm = sorted(seconds[10:])
    return {
        "100 events, median seconds": round(statistics.median(warm), 2),
        "100 events, 95th percentile": round(warm[int(len(warm) * 0.95)], 2),
        "100 events, longest": warm[-1],
        "small batches": len(warm),
    }


def _engine(spark: SparkSession, place: Path, name: str, source: Mapping[str, object], **more: object) -> Engine:
    described = {**source, "id": "id", "publisher_name": "feed", "time": "at"}
    settings = {"warehouse": str(place), "database": name, "sources": {"events": described}, **more}
    engine = routing.open(spark, {**settings, "notifications": {"layout": "bucket"}})
    rows = [(f"c{at % 500}", text) for at, (_, text) in enumerate(workload.subscriptions(SUBSCRIPTIONS))]
    engine.subscribe_many(spark.createDataFrame(rows, "consumer string, filter string"))
    return engine


def _named(events: DataFrame, turn: int) -> DataFrame:
    """The same events under ids of their own."""
    return events.withColumn("id", F.concat_ws("-", F.col("number"), F.lit(turn))).drop("number")


if __name__ == "__main__":
    main()
