"""What a batch writes, and in which order: journal, dead letters, what policies remember, and notifications.

Law: the notifications' commit makes the batch visible, and what it remembers count; whoever reads or streams the table
sees whole batches, once. A retry skips the commits that carry its tag already, and writes the same rows into the rest;
unless other batches have delivered some of its events in the meantime: then what it wrote before it died is replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from routing.admit import REFUSALS, Admitted
from routing.beside import beside
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
from udfs.judge import DUPLICATE

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
    with admit(arrived, snapshot) as judged:
        pinned()
        crash_point("opened")
        crash_point("admitted")
        events = _ranked(judged.rows, _rank(judged, snapshot))
        hopeless = judged.counts is not None and not judged.counts[None] and not snapshot.due
        versions, notified = None, None
        # What follows is planned while the journal is written.
        with beside(arrived.sparkSession, lambda: _journal(tables, judged, snapshot)) as journalled:
            if not hopeless:
                versions = flow(events.repartition(judged.spread, RANK) if judged.spread else events, snapshot)
                notified = _laid_out(_notified(versions, snapshot), snapshot) if len(snapshot.active) else None
        counts, anew = journalled()
        crash_point("journal")
        refused = Counter({reason: count for reason, count in counts.items() if reason})
        if not (counts[None] or snapshot.due):
            versions, notified = None, None
        dead = [_dead_letters(judged.rows, refused[DUPLICATE], snapshot)] if refused else []
        if versions and versions.letters is not None:
            dead.append(_letters(versions.letters, snapshot))
        dead += [tables.read("dead_letters").limit(0)] if anew else []
        if dead:
            _once(tables, "dead_letters", reduce(_union, dead), snapshot, anew=anew)
        crash_point("dead_letters")
        state = _remembered(versions, snapshot) if versions else []
        state += [tables.read("policy_state").limit(0)] if anew else []
        if state:
            _once(tables, "policy_state", reduce(DataFrame.unionByName, state), snapshot, anew=anew)
        crash_point("policy_state")
        if (
            anew and snapshot.config.journal != "off"
        ):  # last: until then the next retry sees that there is something to replace
            _once(tables, "events", journal_rows(events, snapshot), snapshot, anew=True)
        many = _once(tables, "notifications", notified, snapshot) if notified is not None else 0
        crash_point("notifications")
        return {
            "events": sum(counts.values()),
            "admitted": counts[None],
            "refused": sum(refused.values()),
            "notifications": many,
        }


def _journal(tables: Tables, judged: Admitted, snapshot: Snapshot) -> tuple[Counter[str | None], bool]:
    """Write the admitted events into the journal; how many rows there are for each reason, and whether the batch has
    to write anew what it wrote before it died, the journal at last. What has not been counted is counted while it is
    written.
    """
    rank, wanted = _rank(judged, snapshot), snapshot.config.journal != "off"
    if judged.counts is None and wanted and not snapshot.opening.retry:
        observed = Observation()
        counting = [F.count_if(F.col(REASON) == reason).alias(reason) for reason in REFUSALS]
        rows = judged.rows.observe(observed, F.count_if(F.col(REASON).isNull()).alias(ADMITTED), *counting)
        tables.append("events", journal_rows(_ranked(rows, rank), snapshot), tag=snapshot.opening.tag)
        found = {None if name == ADMITTED else name: many for name, many in observed.get.items() if many}
        return Counter(found), False
    counts = judged.counts or Counter(
        {row[REASON]: row["count"] for row in judged.rows.groupBy(REASON).count().collect()}
    )
    anew = _outdated(tables, counts[None], snapshot)
    if wanted and counts[None] and not anew:
        _once(tables, "events", journal_rows(_ranked(judged.rows, rank), snapshot), snapshot)
    return counts, anew


def _rank(judged: Admitted, snapshot: Snapshot) -> Column:
    """What was held back comes first."""
    return judged.rank + (snapshot.due.events if snapshot.due else 0)


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


def _once(tables: Tables, table: str, rows: DataFrame, snapshot: Snapshot, *, anew: bool = False) -> int:
    """Append, unless this batch has done so before; how many rows it wrote, now or then. `anew`: instead of those."""
    opening, observed = snapshot.opening, Observation()
    written = _written(tables, table, snapshot)
    if written is not None and not anew:
        return written
    counted = rows.observe(observed, F.count(F.lit(1)).alias("rows"))
    if written is None:
        tables.append(table, counted, tag=opening.tag)
    else:
        tables.replace(table, counted, batch=opening.ordinal, tag=opening.tag)
    return int(observed.get["rows"])


def _written(tables: Tables, table: str, snapshot: Snapshot) -> int | None:
    """How many rows this batch has in the table, if it came so far before it died."""
    opening = snapshot.opening
    return tables.appended(table, tag=opening.tag, since=opening.outputs.get(table, 0)) if opening.retry else None


def _outdated(tables: Tables, admitted: int, snapshot: Snapshot) -> bool:
    """Whether a batch that died has to write anew what it wrote: others have delivered some of its events since, or may
    have let out what it was about to let out.
    """
    if not snapshot.opening.retry or snapshot.finished:
        return False
    stateful = snapshot.memory is not None or _written(tables, "policy_state", snapshot) is not None
    return stateful or _written(tables, "events", snapshot) not in (None, admitted)


def journal_rows(events: DataFrame, snapshot: Snapshot) -> DataFrame:
    """The events as the journal has them."""
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
        whole = refused.where(F.col(REASON) == DUPLICATE).orderBy(PUBLISHER, EVENT_ID, RAW).limit(kept)
        counted = [
            (
                DUPLICATE,
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
        refused = refused.where(F.col(REASON) != DUPLICATE).unionAll(whole).unionAll(rest)
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
