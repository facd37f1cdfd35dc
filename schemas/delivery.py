"""What the engine delivers, keeps and refuses: notifications, the journal of events, and dead letters.

Law: every row carries the ordinal of the batch that wrote it. A row that arrived is in exactly one of `events` and
`dead_letters` (beyond a cap, duplicates are only counted). An event that a boundary or a grant stopped on its way
(`mapping`, `versions`, `refused`) is in both.
"""

from __future__ import annotations

from typing import Literal

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from schemas.table import Table, column

CONSUMER, EVENT_ID, PUBLISHER, PUBLISHED_AT = "consumer", "event_id", "publisher", "published_at"
SUBSCRIPTION_IDS, SOURCE, EVENT, PATH = "subscription_ids", "source", "event", "path"
BATCH, SEQUENCE, DELIVERED_AT, BUCKET = "batch", "sequence", "delivered_at", "bucket"
ADMITTED_AT, KEY_HASH, CONTENT_HASH, RANK = "admitted_at", "key_hash", "content_hash", "rank"
REASON, DETAIL, RAW, COPIES, REFUSED_AT = "reason", "detail", "raw", "copies", "refused_at"

Layout = Literal["consumer", "bucket"]

# A sequence number is ordinal, rank in the batch, version of the event: 27, 30 and 6 bits.
VERSIONS = 1 << 6
RANKS = 1 << 30

_TEXT, _TIME, _LONG = StringType(), TimestampType(), LongType()


def notifications(layout: Layout = "consumer") -> Table:
    """The table of notifications: partitioned by consumer, or for many consumers by a hash bucket of the consumer."""
    columns = [
        column(CONSUMER, _TEXT, "the party notified", required=True),
        column(EVENT_ID, _TEXT, "the event's id, unique within its publisher", required=True),
        column(SUBSCRIPTION_IDS, ArrayType(_TEXT, False), "the consumer's subscriptions that matched", required=True),
        column(PUBLISHER, _TEXT, "who published the event", required=True),
        column(PUBLISHED_AT, _TIME, "when it was published", required=True),
        column(SOURCE, _TEXT, "the source that it came from", required=True),
        column(EVENT, VariantType(), "the event as this consumer sees it; NULL where the payload is kept by reference"),
        column(PATH, ArrayType(_TEXT, False), "the scope where the flow turned and those it came down through"),
        column(BATCH, _LONG, "the ledger's ordinal of the batch", required=True),
        column(SEQUENCE, _LONG, "a total order per consumer, stable across re-reads; gaps are normal", required=True),
        column(DELIVERED_AT, _TIME, "the clock of the batch", required=True),
    ]
    if layout == "bucket":
        columns.append(column(BUCKET, IntegerType(), "a hash of the consumer", required=True))
    return Table(
        "notifications",
        "Every match, once, for the party that asked for it",
        StructType(columns),
        partitioned_by=(CONSUMER if layout == "consumer" else BUCKET,),
        properties={
            # Any name may be a partition value: without random prefixes long, astral or NUL names fail the write.
            **({"delta.randomizeFilePrefixes": "true"} if layout == "consumer" else {}),
            # Statistics of what readers look for, and no more: collecting them is a good part of a small commit.
            "delta.dataSkippingStatsColumns": ",".join(
                name
                for name in (CONSUMER, BATCH, SEQUENCE, PUBLISHED_AT, DELIVERED_AT)
                if layout == "bucket" or name != CONSUMER
            ),
        },
    )


EVENTS = Table(
    "events",
    "The journal: every admitted event",
    StructType(
        [
            column(EVENT_ID, _TEXT, "the event's id, unique within its publisher", required=True),
            column(PUBLISHER, _TEXT, "who published the event", required=True),
            column(PUBLISHED_AT, _TIME, "when it was published", required=True),
            column(SOURCE, _TEXT, "the source that it came from", required=True),
            column(EVENT, VariantType(), "the event as published; NULL where only keys are kept"),
            column(BATCH, _LONG, "the ledger's ordinal of the batch", required=True),
            column(RANK, _LONG, "the event's place in the order of its batch", required=True),
            column(ADMITTED_AT, _TIME, "the clock of the batch", required=True),
            column(KEY_HASH, BinaryType(), "MD5 of the key, to find duplicates by", required=True),
            column(CONTENT_HASH, _LONG, "a hash of the content, to tell a duplicate from a conflict", required=True),
        ]
    ),
    properties={"delta.dataSkippingStatsColumns": f"{BATCH},{ADMITTED_AT},{PUBLISHED_AT}"},
)

DEAD_LETTERS = Table(
    "dead_letters",
    "Every event that was refused or stopped on its way, with the reason and the row as it came",
    StructType(
        [
            column(
                REASON,
                _TEXT,
                "malformed, missing_id, missing_publisher, missing_time, duplicate, conflict; "
                "mapping, versions or refused",
                required=True,
            ),
            column(DETAIL, _TEXT, "what exactly is wrong, and where"),
            column(RAW, _TEXT, "the row as it came: its text, or its columns as JSON"),
            column(
                COPIES,
                _LONG,
                "how many events this row stands for: 1, or more where duplicates were only counted",
                required=True,
            ),
            column(EVENT_ID, _TEXT, "the event's id, if it could be read"),
            column(PUBLISHER, _TEXT, "the publisher, if it could be read"),
            column(PUBLISHED_AT, _TIME, "the time, if it could be read"),
            column(SOURCE, _TEXT, "the source that it came from", required=True),
            column(BATCH, _LONG, "the ledger's ordinal of the batch", required=True),
            column(REFUSED_AT, _TIME, "the clock of the batch", required=True),
        ]
    ),
)
