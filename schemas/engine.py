"""What the engine remembers about itself: the ledger, rejected control rows, and state that spans batches.

Law: the ledger row of a batch is written before the batch is computed, and the batch is a function of it.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from schemas.table import Table, column

ORDINAL, KEY, STATE, CLOCK = "ordinal", "key", "state", "clock"
OPENED, CLOSED = "opened", "closed"
HELD = "held"

_TEXT, _TIME, _LONG = StringType(), TimestampType(), LongType()
_VERSIONS = MapType(StringType(), LongType(), False)

BATCHES = Table(
    "batches",
    "The ledger: a batch has a row 'opened', which pins what it depends on, and a row 'closed': how it went",
    StructType(
        [
            column(ORDINAL, _LONG, "the batch's place in the order of all batches", required=True),
            column(STATE, _TEXT, "opened or closed", required=True),
            column(
                KEY,
                _TEXT,
                "what makes a retry the same batch: source, generation, Spark's batch id and a hash of its offsets, "
                "or the caller's key",
                required=True,
            ),
            column("source", _TEXT, "the source of the batch", required=True),
            column(CLOCK, _TIME, "the batch's clock: expiry and delivered_at go by it", required=True),
            column("control_versions", _VERSIONS, "the version of each control table that the batch reads"),
            column("output_versions", _VERSIONS, "the version of each output table when the batch was opened"),
            column("schema", _TEXT, "the schema of the source in this batch, as JSON"),
            column("offsets", _TEXT, "what of the source the batch holds, as Spark's checkpoint says it"),
            column(
                "unfinished", ArrayType(_LONG, False), "the batches before it that had not delivered when it was opened"
            ),
            column("code", _TEXT, "the version of Sluice"),
            column("counts", _VERSIONS, "closed: events, admitted, refused, notifications"),
            column("seconds", DoubleType(), "closed: how long the batch took"),
        ]
    ),
    constraints={"state_is_known": f"state IN ('{OPENED}', '{CLOSED}')"},
    properties={"delta.dataSkippingNumIndexedCols": "0"},  # it is read whole, and written with every batch
)

REJECTIONS = Table(
    "rejections",
    "Control rows that do not compile (errors: the row is skipped) or look mistaken (warnings: the row counts)",
    StructType(
        [
            column("severity", _TEXT, "error or warning", required=True),
            column("table_name", _TEXT, "the control table", required=True),
            column("owner", _TEXT, "the consumer, publisher or scope that the row is about", required=True),
            column("id", _TEXT, "the row's effective id", required=True),
            column("text", _TEXT, "the text that is wrong"),
            column("position", IntegerType(), "the column in the text, from 1"),
            column("reason", _TEXT, "what is wrong, and what to do", required=True),
            column("noticed_at", _TIME, "the clock of the batch that noticed it first", required=True),
        ]
    ),
)

PATTERN_STATE = Table(
    "pattern_state",
    "How far each pattern subscription has come",
    StructType(
        [
            column("consumer", _TEXT, "the party", required=True),
            column("id", _TEXT, "the subscription", required=True),
            column("position", IntegerType(), "how many filters of the pattern are matched", required=True),
            column("events", _TEXT, "the events matched so far, as JSON"),
            column("batch", _LONG, "the ledger's ordinal of the batch that wrote the row", required=True),
        ]
    ),
)

_STEPS = ArrayType(ArrayType(_TEXT, False), False)
HELD_COLUMNS = StructType(
    [
        StructField("due", _TIME),
        StructField("source", _TEXT),
        StructField("origin", _LONG),
        StructField("rank", _LONG),
        StructField("event_id", _TEXT),
        StructField("publisher", _TEXT),
        StructField("published_at", _TIME),
        StructField("event", VariantType()),
        StructField(
            "changes",
            ArrayType(StructType([StructField("attribute", _TEXT), StructField("value", VariantType())])),
        ),
        StructField("content", _TEXT),
        StructField("ascended", _STEPS),
        StructField("crossed", _STEPS),
    ]
)

POLICY_STATE = Table(
    "policy_state",
    "What rate limits, throttles and delays remember",
    StructType(
        [
            column("scope", _TEXT, "the scope with the policy; empty for what an event has become", required=True),
            column("key", _TEXT, "the policy; of a throttle with the value that passed"),
            column("value", _TEXT, "the remembered state, as JSON"),
            column(HELD, HELD_COLUMNS, "a version that is held back: when it is due, what it is, where it has been"),
            column("batch", _LONG, "the ledger's ordinal of the batch that wrote the row", required=True),
        ]
    ),
)
