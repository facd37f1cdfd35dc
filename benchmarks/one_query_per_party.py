"""A streaming query of its own for every party, as one writes it by hand, against one job of ours on the same files.

Law: the same session, files and filter texts, and each party gets the same events from both, id by id. A query reads
the files, filters by its party's text and writes a directory of Parquet; all are started together, and all must be
done. The job also looks for duplicates, puts events in order and keeps a journal and a ledger. Not timed: creating its
empty tables and inserting the subscriptions.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Timer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

import routing
from benchmarks import workload
from benchmarks.harness import Result, compare
from routing.engine import Engine
from routing.matching import compile_program
from schemas.delivery import CONSUMER, EVENT_ID

OURS, THEIRS = "one job", "a query per party"
SCHEMA = from_arrow_schema(workload.SCHEMA.insert(0, pa.field("id", pa.string())))
FILES = 4
FEW, LOOKED_AT = 10, 40
"""Events that a party gets at the least, and subscriptions of the workload that are looked at for each party."""

MANY = 100
"""From here on one round must do, on the warm session that fewer have left; and with more the layout is `bucket`."""


@dataclass(frozen=True)
class Party:
    """Who gets which events."""

    name: str
    filter: str


@dataclass(frozen=True)
class Outcome:
    """The parties whose query ended in time, and those whose query failed."""

    finished: tuple[Party, ...]
    failed: int


def against_queries(
    spark: SparkSession, place: Path, count: int, events: int, bound: float
) -> tuple[Result, dict[str, object]]:
    """Both in turn, with so many parties."""
    batch = workload.events(events)
    parties, source, output = _parties(count, batch), _written(place / "events", batch), place / f"queries-{count}"
    rounds, warm_up = (1, 0) if count >= MANY else (3, 1)
    engines = [_engine(spark, place, f"peers_{count}_{turn}", source, parties) for turn in range(rounds + warm_up)]
    outcomes: list[Outcome] = []
    contenders = {
        OURS: lambda turn: _drain(engines[turn], bound),
        THEIRS: lambda turn: outcomes.append(_run(spark, source, output / str(turn), parties, bound)),
    }
    result = compare(f"{count:,} parties, {events:,} events", contenders, baseline=OURS, rounds=rounds, warm_up=warm_up)
    last = outcomes[-1]
    rows = _same(engines[-1], output / str(rounds + warm_up - 1), last.finished)
    shutil.rmtree(output)
    if len(last.finished) < count:  # what it took to stop the others is not theirs
        name = f"{result.name}; {len(last.finished):,} queries ended within {bound:.0f} s"
        result = replace(result, name=name, seconds={**result.seconds, THEIRS: bound})
    return result, {"finished": len(last.finished), "failed": last.failed, "rows": rows, "bound": bound}


def _parties(count: int, events: pa.RecordBatch) -> list[Party]:
    """The first so many of the workload's subscriptions that match a few of the events."""
    texts = [text for _, text in workload.subscriptions(LOOKED_AT * count)]
    program = compile_program([(str(at), text) for at, text in enumerate(texts)], workload.SCHEMA)
    matches = np.bincount(program.match(events).values.to_numpy(), minlength=len(texts))
    kept = [text for text, got in zip(texts, matches, strict=True) if got >= FEW][:count]
    if len(kept) < count:
        raise SystemExit(f"only {len(kept)} of {len(texts)} subscriptions match {FEW} of the events; take more events")
    return [Party(f"p{at:05}", text) for at, text in enumerate(kept)]


def _run(spark: SparkSession, source: Path, output: Path, parties: Iterable[Party], bound: float) -> Outcome:
    """Start them all, wait for them all; what has not ended within the bound is stopped."""
    deadline = time.monotonic() + bound
    started: dict[Party, StreamingQuery] = {}
    for party in parties:
        if time.monotonic() < deadline:
            started[party] = _query(spark, source, output / party.name, party)
    finished, failed = [], 0
    for party, query in started.items():
        try:
            if _ended(query, deadline):
                finished.append(party)
        except StreamingQueryException:
            failed += 1
    for query in started.values():
        query.stop()
    return Outcome(tuple(finished), failed)


def _ended(query: StreamingQuery, deadline: float) -> bool:
    left = int(deadline - time.monotonic())
    if left < 1 and query.isActive:
        return False
    return query.awaitTermination(max(left, 1)) or False  # at once if it has ended; raises if it has failed


def _query(spark: SparkSession, source: Path, output: Path, party: Party) -> StreamingQuery:
    return (
        spark.readStream.schema(SCHEMA)
        .parquet(str(source))
        .where(F.expr(party.filter))
        .writeStream.format("parquet")
        .option("path", str(output / "rows"))
        .option("checkpointLocation", str(output / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def _engine(spark: SparkSession, place: Path, name: str, source: Path, parties: list[Party]) -> Engine:
    described = {"format": "parquet", "path": str(source), "id": "id", "publisher_name": "bench"}
    settings = {
        "warehouse": str(place),
        "database": name,
        "sources": {"events": described},
        "notifications": {"layout": "bucket" if len(parties) > MANY else "consumer"},
    }
    engine = routing.open(spark, settings)
    rows = [(party.name, party.filter) for party in parties]
    engine.subscribe_many(spark.createDataFrame(rows, "consumer string, filter string"))
    return engine


def _drain(engine: Engine, bound: float) -> None:
    running = engine.start()
    timer = Timer(bound, running.ask_to_stop)
    timer.start()
    try:
        if not running.await_termination():
            raise SystemExit(f"the job was not done after {bound:.0f} seconds")
    finally:
        timer.cancel()


def _same(engine: Engine, output: Path, parties: Iterable[Party]) -> int:
    """How many rows the parties have got; an error if one of them got others from the job."""
    ours: dict[str, list[str]] = {}
    delivered = engine.notifications().select(CONSUMER, EVENT_ID).toArrow()
    for consumer, id in zip(*(column.to_pylist() for column in delivered.columns), strict=True):
        ours.setdefault(consumer, []).append(id)
    rows = 0
    for party in parties:
        files = (output / party.name / "rows").glob("*.parquet")
        theirs = [id for file in files for id in pq.read_table(file, columns=["id"])["id"].to_pylist()]
        if not theirs or sorted(theirs) != sorted(ours.get(party.name, [])):
            raise SystemExit(
                f"{party.name} ({party.filter}) got {len(theirs)} events from its query and "
                f"{len(ours.get(party.name, []))} from the job, or other ones"
            )
        rows += len(theirs)
    return rows


def _written(directory: Path, events: pa.RecordBatch) -> Path:
    """The events, as a few files of Parquet; written once."""
    if not directory.exists():
        directory.mkdir()
        ids = pa.array([f"e{number}" for number in range(len(events))])
        table = pa.Table.from_batches([events]).add_column(0, "id", ids)
        each = -(-len(events) // FILES)
        for part in range(FILES):
            pq.write_table(table.slice(part * each, each), directory / f"{part}.parquet")
    return directory
