"""The checker at ten million notifications: seconds for each property, and of what size.

    make bench-check

A generated engine: events are routed for real, in batches, until there are as many notifications as asked for.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from time import perf_counter

import pyarrow as pa
from pyspark.sql import functions as F

import routing
from benchmarks import workload
from benchmarks.harness import report
from routing.session import session


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--notifications", type=int, default=10_000_000)
    parser.add_argument("--events", type=int, default=50_000, help="in a batch")
    parser.add_argument("--subscriptions", type=int, default=500)
    options = parser.parse_args()
    spark, place = session(name="sluice-bench"), Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    try:
        source = {"format": "rate", "id": "id", "publisher_name": "feed"}
        settings = {"warehouse": str(place), "sources": {"events": source}, "notifications": {"layout": "bucket"}}
        engine = routing.open(spark, settings)
        # Half of them rare, as in the other benchmarks; half match a fifth of all events each.
        half = options.subscriptions // 2
        texts = [text for _, text in workload.subscriptions(half)] + [f"i1 < {15 + n % 15}" for n in range(half)]
        rows = [(f"c{at % (half + half // 2)}", text) for at, text in enumerate(texts)]
        engine.subscribe_many(spark.createDataFrame(rows, "consumer string, filter string"))
        made = spark.createDataFrame(pa.Table.from_batches([workload.events(options.events)]))
        made = made.withColumn("number", F.monotonically_increasing_id()).repartition(4)
        made.write.parquet(str(place / "events"))
        events, total, batches = spark.read.parquet(str(place / "events")), 0, 0
        while total < options.notifications:
            id = F.concat_ws("-", F.col("number"), F.lit(batches))
            counts = engine.route(events.withColumn("id", id).drop("number")).counts
            total, batches = total + counts["notifications"], batches + 1
            print(f"batch {batches}: {total:,} notifications", flush=True)
        started, facts = perf_counter(), {}
        for finding in engine.check():
            print(f"{finding.verdict} {finding.property}: {finding.words} ({finding.seconds} s)", flush=True)
            facts[f"{finding.property}, seconds"] = finding.seconds
            if finding.verdict != "holds":
                raise SystemExit(f"{finding}")
        facts["all, seconds"] = round(perf_counter() - started, 1)
        report(facts=facts, notifications=total, batches=batches)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
