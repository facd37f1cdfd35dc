"""Matching inside Spark, against what the same session cannot do without.

    make bench-spark

The *copy limit*: the rows that matching gives, written by a job that only reads them. The *identity*: the events
through a UDF that does nothing. And the best that Spark SQL does alone: a join on one equality of each subscription,
where it has one, and a filter for the rest, on fewer events, with the same rows as result.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

from benchmarks import workload
from benchmarks.change import change
from benchmarks.harness import Result, compare, report
from benchmarks.spark_sql import spark_sql_matches
from routing.matching import compile_program
from routing.session import session
from udfs.shelf import Shelf
from udfs.spark import Standing, matcher, save_consumers

EACH = 10
"""Subscriptions of a consumer."""

EVENTS = {1_000: 1_000_000, 100_000: 200_000, 1_000_000: 40_000}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--subscriptions", type=int, nargs="*", default=sorted(EVENTS))
    options = parser.parse_args()
    report(*measure(options.subscriptions, options.rounds))


def measure(sizes: Iterable[int] = tuple(sorted(EVENTS)), rounds: int = 5) -> list[Result]:
    """Everything in one session; beside a million subscriptions, a hundred more."""
    spark, place = session(name="sluice-bench"), Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    results = []
    try:
        for count in sizes:
            results.append(_against_copy(spark, place, count, rounds))
            if count <= 10_000:
                results.append(_against_identity(spark, place, count, rounds))
            if count == 100_000:
                results.append(_against_sql(spark, place, count))
            if count == 1_000_000:
                results.append(change(spark, place, count, rounds))
        return results
    finally:
        shutil.rmtree(place)


def _against_copy(spark: SparkSession, place: Path, count: int, rounds: int) -> Result:
    events, match = _events(spark, place, EVENTS[count]), _matcher(place, count)
    rows = place / f"rows-{count}"
    _matched(events, match).write.mode("overwrite").parquet(str(rows))
    written = spark.read.parquet(str(rows))
    name = f"{count:,} subscriptions, {EVENTS[count]:,} events, {written.count():,} rows written"
    contenders = {
        "copy limit": lambda turn: written.write.mode("overwrite").parquet(str(place / "copied")),
        "match": lambda turn: _matched(events, match).write.mode("overwrite").parquet(str(place / "matched")),
    }
    return compare(name, contenders, baseline="copy limit", rounds=rounds, warm_up=3)  # a JVM compiles for a minute


def _against_identity(spark: SparkSession, place: Path, count: int, rounds: int) -> Result:
    events, match = _events(spark, place, EVENTS[count]), _matcher(place, count)
    through = _identity(events)
    contenders = {
        "identity": lambda turn: events.select("id", through(_packed())).write.format("noop").mode("overwrite").save(),
        "match": lambda turn: _matched(events, match).write.format("noop").mode("overwrite").save(),
    }
    return compare(f"{count:,} subscriptions, no-op sink", contenders, baseline="identity", rounds=rounds)


def _against_sql(spark: SparkSession, place: Path, count: int, few: int = 500) -> Result:
    """Seconds per thousand events: of all events for the kernel, of a few for Spark SQL, because it takes long."""
    events, match = _events(spark, place, EVENTS[count]), _matcher(place, count)
    some = events.limit(few).localCheckpoint()
    theirs, same = spark_sql_matches(spark, some, workload.subscriptions(count)), _pairs(some, match)
    wrong = same.exceptAll(theirs).count() + theirs.exceptAll(same).count()
    if wrong:
        raise SystemExit(f"Spark SQL and the kernel differ in {wrong} rows")
    contenders = {
        "match": lambda turn: _pairs(events, match).write.format("noop").mode("overwrite").save(),
        "Spark SQL": lambda turn: theirs.write.format("noop").mode("overwrite").save(),
    }
    name = f"{count:,} subscriptions, per thousand events"
    taken = compare(name, contenders, baseline="match", rounds=2, warm_up=0).seconds
    scaled = {"match": taken["match"] / EVENTS[count] * 1000, "Spark SQL": taken["Spark SQL"] / few * 1000}
    return Result(name, "match", scaled)


def _pairs(events: DataFrame, match: Callable[[Column], Column]) -> DataFrame:
    return _matched(events, match).select("id", F.explode("subscription_ids").alias("subscription"))


def _events(spark: SparkSession, place: Path, count: int) -> DataFrame:
    path = place / f"events-{count}"
    if not path.exists():
        path.mkdir()
        batch = pa.Table.from_batches([workload.events(count)])
        batch = batch.add_column(0, "id", pa.array(range(count), pa.int64()))
        for part in range(4):
            pq.write_table(batch.slice(part * count // 4, count // 4), path / f"{part}.parquet")
    return spark.read.parquet(str(path))


def _matcher(place: Path, count: int) -> Callable[[Column], Column]:
    """The subscriptions, ten to a consumer, compiled and put on a shelf."""
    width = len(str(count))
    rows = [(f"c{at // EACH:0{width}}", id, text) for at, (id, text) in enumerate(workload.subscriptions(count))]
    rows.sort()
    shelf = Shelf(str(place / "programs"), copy=False)
    program = compile_program([(id, text) for _, id, text in rows], workload.SCHEMA)
    consumers = pa.array([consumer for consumer, _, _ in rows]).dictionary_encode()
    names = save_consumers(consumers.indices.to_numpy(), consumers.dictionary)
    return matcher(Standing(shelf.put(program.save), shelf.put(names)))


def _matched(events: DataFrame, match: Callable[[Column], Column]) -> DataFrame:
    return events.select("id", F.inline(match(_packed())))


def _packed() -> Column:
    return F.struct(*workload.NAMES)


def _identity(events: DataFrame) -> Callable[[Column], Column]:
    def identity(attributes: pa.Array) -> pa.Array:
        return attributes

    identity.__annotations__ = {"attributes": pa.Array, "return": pa.Array}
    return arrow_udf(identity, events.select(_packed().alias("packed")).schema["packed"].dataType)  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
