"""The whole pipeline at 1,000 subscriptions against an identity copy of its events; and 10,000 consumers against 10.

    make bench

The copy reads the events and appends them to a Delta table: what any job that stores them must spend.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import routing
from benchmarks.harness import Result, compare, report
from routing.engine import Engine
from routing.session import session

SYMBOLS, SECTORS = 500, 20


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    spark, place = session(name="sluice-bench"), Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    try:
        events = _events(spark, place, options.events)
        results = (_pipeline(spark, place, events, options.rounds), _layouts(spark, place, events, options.rounds))
        report(*results, events=options.events, rounds=options.rounds)
    finally:
        shutil.rmtree(place)


def _pipeline(spark: SparkSession, place: Path, events: DataFrame, rounds: int) -> Result:
    """About one match per event; nothing is a duplicate, but that has to be found out."""
    engine = _engine(spark, place, "bench_pipeline", "consumer")
    draw = random.Random(7)
    rows = []
    for number in range(1000):
        symbol, price = f"S{draw.randrange(SYMBOLS):03d}", draw.randrange(10, 400)
        tests = [
            f"symbol = '{symbol}'",
            draw.choice(
                [f"price > {price}", f"change < {draw.random():.2f}", f"sector LIKE 'sector{draw.randrange(10)}%'"]
            ),
        ]
        rows.append((f"c{number % 50:02d}", " AND ".join(tests)))
    engine.subscribe_many(spark.createDataFrame(rows, "consumer string, filter string"))
    copy = str(place / "copy")
    contenders = {
        "identity copy": lambda turn: _named(events, turn).write.format("delta").mode("append").save(copy),
        "pipeline": lambda turn: engine.route(_named(events, turn)),
    }
    return compare("pipeline at 1,000 subscriptions", contenders, baseline="identity copy", rounds=rounds)


def _layouts(spark: SparkSession, place: Path, events: DataFrame, rounds: int) -> Result:
    """The bucket layout at equal rows: each event goes to one of 10, or one of 10,000 consumers."""
    engines = {}
    for consumers in (10, 10_000):
        engine = engines[consumers] = _engine(spark, place, f"bench_{consumers}", "bucket")
        wanted = spark.range(consumers).selectExpr("concat('c', id) AS consumer", "concat('slot_', id) AS slot")
        slots = f"slot{consumers}"
        engine.subscribe_many(wanted.selectExpr("consumer", f"concat('{slots} = ', substring(slot, 6)) AS filter"))
    contenders = {
        f"{consumers:,} consumers": lambda turn, engine=engine: engine.route(_named(events, turn))
        for consumers, engine in engines.items()
    }
    return compare("bucket layout", contenders, baseline="10 consumers", rounds=rounds)


def _engine(spark: SparkSession, place: Path, name: str, layout: str) -> Engine:
    source = {"format": "rate", "id": "id", "publisher": "exchange", "time": "at"}
    settings = {
        "warehouse": str(place),
        "database": name,
        "sources": {"quotes": source},
        "notifications": {"layout": layout},
    }
    return routing.open(spark, settings)


def _events(spark: SparkSession, place: Path, count: int) -> DataFrame:
    """Quotes with ten columns, stored as Parquet."""
    made = spark.range(count, numPartitions=4).select(
        F.col("id").cast("string").alias("id"),
        F.concat(F.lit("X"), F.col("id") % 7).alias("exchange"),
        F.timestamp_micros(F.lit(1767600000000000) + F.col("id") * 1000).alias("at"),
        F.format_string("S%03d", F.pmod(F.xxhash64("id"), F.lit(SYMBOLS))).alias("symbol"),
        F.concat(F.lit("sector"), F.pmod(F.xxhash64("id"), F.lit(SECTORS))).alias("sector"),
        (F.rand(1) * 400).alias("price"),
        (F.rand(2) * 2 - 1).alias("change"),
        (F.rand(3) * 100000).cast("bigint").alias("volume"),
        (F.col("id") % 10).alias("slot10"),
        (F.col("id") % 10_000).alias("slot10000"),
    )
    made.write.parquet(str(place / "events"))
    return spark.read.parquet(str(place / "events"))


def _named(events: DataFrame, turn: int) -> DataFrame:
    """The same events under ids of their own for each round."""
    return events.withColumn("id", F.concat(F.col("id"), F.lit(f"-{turn}")))


if __name__ == "__main__":
    main()
