"""What a batch writes, and in which order: journal, dead letters, what policies remember, and notifications.

Law: the notifications' commit makes the batch visible, and what it remembers count; whoever reads or streams the table
sees whole batches, once. A retry skips the commits that carry its tag already, and writes the same rows into the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import accumulate

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from routing.admit import PARTITION, PLACE, REFUSALS, remember
from routing.crash import crash_point
from routing.delay import CONTENT, released, remembered, staying
from routing.flow import Versions
from routing.memory import TAKEN
from routing.pipeline import STAGES, number
from routing.snapshot import Snapshot
from routing.sources import COLUMNS, RAW
from routing.tables import Tables
from schemas.delivery import (
    ADMITTED_AT,
    BATCH,
    BUCKET,
    CONSUMER,
    COPIES,
    DETAIL,
    EVENT,
    EVENT_ID,
    PUBLISHED_AT,
    PUBLISHER,
    RANK,
    RANKS,
    REASON,
    REFUSED_AT,
    SEQUENCE,
    SOURCE,
    VERSIONS,
)

ADMITTED = "admitted"
_COMPILING = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


def write(tables: Tables, arrived: DataFrame, snapshot: Snapshot, pinned: Callable[[], None]) -> dict[str, int]:
    """Run the stages over the rows that arrived and write what comes of them; returns counts for the ledger.

    `pinned` waits until the opening is written.
    """
    if not snapshot.small:
        return _write(tables, arrived, snapshot, pinned)
    with _uncompiled(arrived.sparkSession):
        return _write(tables, arrived, snapshot, pinned)


@contextmanager
def _uncompiled(spark: SparkSession) -> Iterator[None]:
    """Let Spark interpret its plans: a batch's ordinal and clock are part of them, so each would be compiled anew."""
    before = {name: str(spark.conf.get(name)) for name in _COMPILING}
    for name, value in _COMPILING.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def _write(tables: Tables, arrived: DataFrame, snapshot: Snapshot, pinned: Callable[[], None]) -> dict[str, int]:
    admit, flow, *_ = STAGES
    kept = admit(arrived, snapshot).persist()
    try:
        judged, due = remember(kept, snapshot), snapshot.due
        events, counts = _journalled(tables, judged, snapshot, pinned)
        crash_point("journal")
        refused = Counter({reason: count for reason, count in counts.items() if reason})
        admitted = counts[None]
        versions = flow(events, snapshot) if admitted or due else None
        dead = [_dead_letters(judged, refused["duplicate"], snapshot)] if refused else []
        if versions and versions.letters is not None:
            dead.append(_letters(versions.letters, snapshot))
        if dead:
            _once(tables, "dead_letters", reduce(DataFrame.unionByName, dead), snapshot)
        crash_point("dead_letters")
        state = _remembered(versions, snapshot) if versions else []
        if state:
            _once(tables, "policy_state", reduce(DataFrame.unionByName, state), snapshot)
        crash_point("policy_state")
        notified = 0
        if versions and len(snapshot.active):
            rows = _laid_out(_notified(versions, snapshot), snapshot)
            notified = _once(tables, "notifications", rows, snapshot)
        crash_point("notifications")
        return {
            "events": sum(counts.values()),
            "admitted": admitted,
            "refused": sum(refused.values()),
            "notifications": notified,
        }
    finally:
        kept.unpersist()


def _journalled(
    tables: Tables, judged: DataFrame, snapshot: Snapshot, pinned: Callable[[], None]
) -> tuple[DataFrame, Counter[str | None]]:
    """The admitted events with their ranks, which are then in the journal; and how many rows there are for each reason.

    What was held back comes first. Of a small batch the places are the ranks, so it is counted while it is written.
    """
    first, admitted = snapshot.due.events if snapshot.due else 0, F.col(REASON).isNull()
    if snapshot.small and snapshot.config.journal != "off" and not snapshot.opening.retry:
        observed = Observation()
        counting = [F.count_if(F.col(REASON) == reason).alias(reason) for reason in REFUSALS]
        places = judged.observe(observed, F.count_if(admitted).alias(ADMITTED), *counting)
        pinned()
        crash_point("opened")
        crash_point("admitted")
        tables.append("events", _journal(_ranked(places, F.col(PLACE) + first), snapshot), tag=snapshot.opening.tag)
        found = Counter({None if name == ADMITTED else name: many for name, many in observed.get.items() if many})
        return _ranked(judged, F.col(PLACE) + first), found
    parts = _counts(judged)
    counts = Counter[str | None]()
    for (_, reason), count in parts.items():
        counts[reason] += count
    events = _ranked(judged, _rank(parts) + first)
    pinned()
    crash_point("opened")
    crash_point("admitted")
    if counts[None] and snapshot.config.journal != "off":
        _once(tables, "events", _journal(events, snapshot), snapshot)
    return events, counts


def _ranked(judged: DataFrame, rank: Column) -> DataFrame:
    return judged.where(F.col(REASON).isNull()).withColumn(RANK, rank)


def _notified(versions: Versions, snapshot: Snapshot) -> DataFrame:
    """The notifications of these versions: of equal ones the first, with their numbers."""
    _, _, match, policy, shape = STAGES
    matched = policy(match(versions, snapshot), snapshot)
    if snapshot.due and CONTENT in matched.columns:
        matched = _union(matched, snapshot.due.delivered)
    rows = shape(matched, snapshot)
    by = _partitioned_by(snapshot)
    return number(rows if snapshot.small else rows.repartition(by), by=by)


def _remembered(versions: Versions, snapshot: Snapshot) -> list[DataFrame]:
    """What policies remember, and what is held back, with what its events have become and who got what of them."""
    found = [*versions.remembered, *released(snapshot)]
    stay = staying(versions.held, snapshot)
    stay = stay.localCheckpoint() if stay else None
    if stay is None or stay.isEmpty():
        return found
    rows = _notified(versions.of(stay), snapshot)
    content = F.col(CONTENT) if CONTENT in rows.columns else F.lit("").alias(CONTENT)
    rank = F.shiftright(SEQUENCE, VERSIONS.bit_length() - 1).bitwiseAND(F.lit(RANKS - 1)).alias(RANK)
    contents = {True: [] if versions.moved is None else [versions.moved.select(RANK, CONTENT)], False: versions.beyond}
    seen = {kept: reduce(DataFrame.unionByName, some) for kept, some in contents.items() if some}
    return found + remembered(versions.held, stay, seen, rows.select(CONSUMER, rank, content), snapshot)


def _union(rows: DataFrame, others: DataFrame) -> DataFrame:
    """Of both; what only one of them has is NULL in the other."""
    return rows.unionByName(others, allowMissingColumns=True)


def _once(tables: Tables, table: str, rows: DataFrame, snapshot: Snapshot) -> int:
    """Append, unless this batch has done so before; how many rows it wrote, now or then."""
    opening = snapshot.opening
    if opening.retry:
        written = tables.appended(table, tag=opening.tag, since=opening.outputs.get(table, 0))
        if written is not None:
            return written
    observed = Observation()
    tables.append(table, rows.observe(observed, F.count(F.lit(1)).alias("rows")), tag=opening.tag)
    return int(observed.get["rows"])


def _counts(judged: DataFrame) -> dict[tuple[int, str | None], int]:
    """How many rows each partition holds for each reason: a few rows, whatever the size of the batch."""
    rows = judged.groupBy(PARTITION, REASON).count().collect()
    return {(row[PARTITION], row[REASON]): row["count"] for row in rows}


def _rank(counts: dict[tuple[int, str | None], int]) -> Column:
    """A row's rank in the batch: the rows of earlier partitions, and its place in its own."""
    sizes = Counter[int]()
    for (partition, _), count in counts.items():
        sizes[partition] += count
    if not sizes:
        return F.lit(0).cast("bigint")
    starts = [0, *accumulate(sizes[partition] for partition in range(max(sizes)))]
    return F.element_at(F.array(*map(F.lit, starts)), F.col(PARTITION) + 1).cast("bigint") + F.col(PLACE)


def _journal(events: DataFrame, snapshot: Snapshot) -> DataFrame:
    if snapshot.config.journal == "keys":
        events = events.withColumn(EVENT, F.lit(None).cast("variant"))
    return _stamped(events, snapshot, ADMITTED_AT)


def _dead_letters(judged: DataFrame, duplicates: int, snapshot: Snapshot) -> DataFrame:
    """The refused rows; of the duplicates a capped number whole, and one row that counts the rest."""
    kept = snapshot.config.duplicates.kept
    refused = judged.where(F.col(REASON).isNotNull()).select(
        REASON,
        DETAIL,
        F.coalesce(RAW, F.to_json(COLUMNS)).alias(RAW),
        F.lit(1).cast("bigint").alias(COPIES),
        EVENT_ID,
        PUBLISHER,
        PUBLISHED_AT,
    )
    if duplicates > kept:
        whole = refused.where(F.col(REASON) == "duplicate").orderBy(PUBLISHER, EVENT_ID, RAW).limit(kept)
        counted = [
            (
                "duplicate",
                f"{duplicates - kept} more duplicates in this batch, counted only",
                None,
                duplicates - kept,
                None,
                None,
                None,
            )
        ]
        nullable = StructType([StructField(field.name, field.dataType) for field in refused.schema])
        rest = judged.sparkSession.createDataFrame(counted, nullable)
        refused = refused.where(F.col(REASON) != "duplicate").unionAll(whole).unionAll(rest)
    return _stamped(refused, snapshot, REFUSED_AT)


def _letters(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """What was stopped on its way, as dead letters: the event as it was published."""
    raw, one = F.to_json(COLUMNS).alias(RAW), F.lit(1).cast("bigint").alias(COPIES)
    return _stamped(rows.select(REASON, DETAIL, raw, one, EVENT_ID, PUBLISHER, PUBLISHED_AT), snapshot, REFUSED_AT)


def _stamped(rows: DataFrame, snapshot: Snapshot, clock: str) -> DataFrame:
    """With the source, the batch, and its clock under this name."""
    opening = snapshot.opening
    batch = F.lit(opening.ordinal).cast("bigint")
    return rows.withColumns({SOURCE: F.lit(opening.source), BATCH: batch, clock: F.lit(opening.clock)})


def _laid_out(notifications: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Each consumer, or each bucket, from one task: one file a partition, sorted so that a reader skips most of it."""
    if CONTENT in notifications.columns:  # numbered, and so sorted
        return notifications.drop(CONTENT, TAKEN)
    return notifications.sortWithinPartitions(_partitioned_by(snapshot), CONSUMER, SEQUENCE)


def _partitioned_by(snapshot: Snapshot) -> str:
    return CONSUMER if snapshot.config.notifications.layout == "consumer" else BUCKET
