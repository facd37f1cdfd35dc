"""One batch, top to bottom. The stages are a constant: read it first.

Law: a stage is a function (DataFrame, Snapshot) -> DataFrame without effects. Everything a batch writes, `sink` writes;
everything it depends on is in the snapshot.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routing.admit import admit, source_columns
from routing.matching.match import arrow_schema, packed, referenced
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
    SEQUENCE,
    SOURCE,
    SUBSCRIPTION_IDS,
)

# A sequence number is ordinal, rank in the batch, version of the event: 27, 30 and 6 bits.
VERSIONS = 64
RANKS = 1 << 30

# Where whoever is in no scope meets whoever else is in none (SPEC §5).
WORLD = "world"


def match(events: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Reads columns. Gives one row per event and consumer with a match: adds consumer, subscription_ids."""
    found = referenced(snapshot.active.names, snapshot.schema, F.col(COLUMNS), without=source_columns(snapshot.source))
    matched = snapshot.matcher(arrow_schema(found))
    # explode of the call itself: a named column in between would be evaluated twice.
    return events.select("*", F.explode(matched(packed(found))).alias("matched")).select(
        "*", f"matched.{CONSUMER}", f"matched.{SUBSCRIPTION_IDS}"
    )


def shape(matched: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Reads consumer, subscription_ids, event_id, publisher, published_at, event, rank. Gives the notification."""
    opening, config = snapshot.opening, snapshot.config.notifications
    sequence = F.lit(opening.ordinal * RANKS * VERSIONS) + F.col(RANK) * VERSIONS
    payload = F.col(EVENT) if config.payload == "embed" else F.lit(None).cast("variant")
    bucket = F.pmod(F.xxhash64(CONSUMER), F.lit(config.buckets)).cast("int")
    return matched.select(
        CONSUMER,
        EVENT_ID,
        SUBSCRIPTION_IDS,
        PUBLISHER,
        PUBLISHED_AT,
        F.lit(opening.source).alias(SOURCE),
        payload.alias(EVENT),
        F.array(F.lit(WORLD)).alias(PATH),
        F.lit(opening.ordinal).cast("bigint").alias(BATCH),
        sequence.alias(SEQUENCE),
        F.lit(opening.clock).alias(DELIVERED_AT),
        *([bucket.alias(BUCKET)] if config.layout == "bucket" else []),
    )


Stage = Callable[[DataFrame, Snapshot], DataFrame]
STAGES: tuple[Stage, ...] = (admit, match, shape)
