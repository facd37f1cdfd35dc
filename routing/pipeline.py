"""One batch, top to bottom. The stages are a constant: read it first.

Law: a stage is a function (rows, Snapshot) -> rows without effects. Everything a batch writes, `sink` writes;
everything it depends on is in the snapshot.

    admit ──▶ flow ──▶ match ──▶ policy ──▶ shape
    which     in which  for whom   who of    the row that
    rows are  versions             them      is written
    events
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routing.admit import admit
from routing.delay import CONTENT
from routing.flow import JUDGED, OWN, TOUCHED, TRAIL, Versions, flow
from routing.identify import source_columns
from routing.matching.match import arrow_schema, packed, referenced
from routing.memory import TAKEN
from routing.policy import Matched, policy
from routing.scopes.graph import WORLD
from routing.snapshot import Snapshot
from routing.sources import COLUMNS
from schemas.delivery import (
    BATCH,
    BUCKET,
    CONSUMER,
    DELIVERED_AT,
    EVENT,
    EVENT_ID,
    PATH,
    PUBLISHED_AT,
    PUBLISHER,
    RANK,
    RANKS,
    SEQUENCE,
    SOURCE,
    SUBSCRIPTION_IDS,
    VERSIONS,
)


def match(versions: Versions, snapshot: Snapshot) -> Matched:
    """Reads columns, trail. Gives one row per version and consumer with a match: adds consumer, subscription_ids, path.

    A publisher gets its own event as it published it, whatever becomes of it on the way.
    """
    names = snapshot.active.names
    found = referenced(names, snapshot.schema, COLUMNS, without=source_columns(snapshot.source))
    if snapshot.scopes is None:
        called = snapshot.matcher(arrow_schema(found))(packed(found))
        return Matched(versions.originals.select("*", F.inline(called)).withColumn(PATH, F.array(F.lit(WORLD))))
    called = snapshot.seeing(arrow_schema(found))(packed(found), F.col(TRAIL))
    matched = _seen(versions.originals, called, _own_only if snapshot.scopes.owned else None).drop(OWN)
    if versions.moved is None or versions.contents is None:
        return Matched(matched)
    contents = versions.contents
    fields = contents.fields(names, contents.touched(names, {*snapshot.scopes.mapped, *contents.over}))
    called = snapshot.seeing(arrow_schema(fields), versions.ways)(packed(fields), F.col(TRAIL))
    moved = _seen(versions.moved, called, lambda own: ~own | (F.col(CONTENT) == ""))
    parts = [RANK, EVENT_ID, PUBLISHER, PUBLISHED_AT, EVENT, CONSUMER, SUBSCRIPTION_IDS, PATH]
    none = (F.lit("").alias(CONTENT), F.lit("").alias(TAKEN), F.lit(False).alias(TOUCHED))
    return Matched(matched.select(*parts, *none), moved.select(*parts, CONTENT, TAKEN, TOUCHED, JUDGED))


def _own_only(own: Column) -> Column:
    return ~F.col(OWN) | own


def _seen(rows: DataFrame, called: Column, kept: Callable[[Column], Column] | None) -> DataFrame:
    """A row for each entry of the call that is kept; it is told whether the consumer is the publisher.

    Entries are left out before they become rows: of a filter behind `inline` Spark 4.0 and 4.1 make plans that fail.
    """
    if kept:
        called = F.filter(called, lambda entry: kept(entry[CONSUMER] == F.col(PUBLISHER)))
    return rows.select("*", F.inline(called))


def shape(matched: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Reads consumer, subscription_ids, path, event_id, publisher, published_at, event, rank. Gives the notification.

    Where an event may have come in several versions, content and taken are there too, for `number`.
    """
    opening, config = snapshot.opening, snapshot.config.notifications
    sequence = F.lit(opening.ordinal * RANKS * VERSIONS) + F.col(RANK) * VERSIONS
    touched = F.col(TOUCHED) if TOUCHED in matched.columns else F.lit(False)
    # What was held back lies in the journal of another batch.
    late = F.col(RANK) < (snapshot.due.events if snapshot.due else 0)
    payload = F.col(EVENT) if config.payload == "embed" else F.when(touched | late, F.col(EVENT))
    bucket = F.pmod(F.xxhash64(CONSUMER), F.lit(config.buckets)).cast("int")
    return matched.select(
        CONSUMER,
        EVENT_ID,
        SUBSCRIPTION_IDS,
        PUBLISHER,
        PUBLISHED_AT,
        F.lit(opening.source).alias(SOURCE),
        payload.alias(EVENT),
        PATH,
        F.lit(opening.ordinal).cast("bigint").alias(BATCH),
        sequence.alias(SEQUENCE),
        F.lit(opening.clock).alias(DELIVERED_AT),
        *([bucket.alias(BUCKET)] if config.layout == "bucket" else []),
        *(name for name in (CONTENT, TAKEN) if name in matched.columns),
    )


def number(notifications: DataFrame, *, by: str) -> DataFrame:
    """Of equal contents for one consumer the one with the first path; and each version its own sequence number.

    The rows are partitioned by `by`; they come sorted as they are to be written. The empty path, of one's own event,
    comes behind every other. Rows without a path are what was delivered by earlier batches: they come first, and are
    left out.
    """
    if CONTENT not in notifications.columns:
        return notifications
    order = [F.col(PATH).isNotNull(), F.size(PATH) == 0, F.col(PATH), F.col(TAKEN)]
    event = Window.partitionBy(by, CONSUMER, SEQUENCE).orderBy(*order)
    before = F.collect_list(CONTENT).over(event.rowsBetween(Window.unboundedPreceding, -1))
    rows = notifications.withColumn("before", before)
    rows = rows.where(F.col(PATH).isNotNull() & ~F.array_contains("before", F.col(CONTENT)))
    return rows.withColumn(SEQUENCE, F.col(SEQUENCE) + F.size(F.array_distinct("before"))).drop("before")


STAGES = (admit, flow, match, policy, shape)
