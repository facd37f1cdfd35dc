"""A hundred subscriptions more beside a million: from their commit to programs that a worker has mapped.

    python -m benchmarks.change

Against reading and compiling the whole table anew, in the same run. What is matched afterwards is the million and the
hundred: the subscriptions that are new must match, or the benchmark fails.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import routing
from benchmarks import workload
from benchmarks.harness import Result, report
from routing.engine import Engine
from routing.session import session
from routing.snapshot import Programs
from routing.subscriptions import Active, Control
from udfs.spark import roster

NOW = datetime(2026, 1, 31, tzinfo=UTC)
MORE = 100


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    spark, place = session(name="sluice-bench"), Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    try:
        report(change(spark, place, options.subscriptions, options.rounds))
    finally:
        shutil.rmtree(place)


def change(spark: SparkSession, place: Path, count: int, rounds: int) -> Result:
    """The median of the rounds and the slowest one beside the whole table."""
    engine = routing.open(spark, {"warehouse": str(place), "database": "bench_change"})
    control, programs = Control(engine.tables), Programs(engine.tables)
    _subscribe(engine, [(f"c{at // 10}", text) for at, (_, text) in enumerate(workload.subscriptions(count))])
    started = time.perf_counter()
    _loaded(control.active(_versions(engine), NOW), programs)
    whole, taken = time.perf_counter() - started, []
    for turn in range(rounds + 1):
        _subscribe(engine, [(f"new-{turn}-{at}", f"i5 = {turn * MORE + at} AND d3 > -1") for at in range(MORE)])
        started = time.perf_counter()
        active = control.active(_versions(engine), NOW)
        fresh = _loaded(active, programs)
        taken.append(time.perf_counter() - started)
        if len(active) != count + (turn + 1) * MORE or fresh != (turn + 1) * MORE:
            raise SystemExit(f"{fresh} of the {(turn + 1) * MORE} new subscriptions match, {len(active)} are active")
    name, later = f"{MORE} subscriptions beside {count:,}", taken[1:]  # the first one warms up
    taken_by = {"the change": statistics.median(later), "the slowest change": max(later), "the whole": whole}
    return Result(name, "the change", taken_by)


def _subscribe(engine: Engine, rows: list[tuple[str, str]]) -> None:
    table = pa.table({"consumer": [consumer for consumer, _ in rows], "filter": [text for _, text in rows]})
    engine.subscribe_many(engine.spark.createDataFrame(table))


def _versions(engine: Engine) -> dict[str, int]:
    return {"subscriptions": engine.tables.version("subscriptions")}


def _loaded(active: Active, programs: Programs) -> int:
    """Put what is new on the shelf and map it as a worker does; returns how many of the new ones match."""
    standing, since = programs.standing(active, workload.SCHEMA)
    roster(standing)
    if active.since is None or since is None:
        return 0
    rows = [{"i5": int(text.split()[2]), "d3": 0.0} for text in active.since.texts.to_pylist()]
    matched = roster(since.second).program.match(pa.RecordBatch.from_pylist(rows, workload.SCHEMA))
    return sum(1 for some in matched.to_pylist() if some)


if __name__ == "__main__":
    main()
