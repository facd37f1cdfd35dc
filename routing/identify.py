"""What a row that arrived says of itself: its id, publisher, time, content, and the key by which it is known again.

Law: nothing is refused here but what lacks one of them. A key is known by its MD5: 128 bits, and nobody can make one
that collides with a given other.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, FloatType, IntegralType, StringType, StructType, VariantType

from routing.config import Source
from routing.errors import SourceError, nearest
from routing.snapshot import Snapshot
from routing.sources import COLUMNS, MALFORMED, RAW
from schemas.delivery import CONTENT_HASH, DETAIL, EVENT, EVENT_ID, KEY_HASH, PUBLISHED_AT, PUBLISHER, REASON
from udfs.judge import TIE

_APART = "\0"


def identify(arrived: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Reads columns, raw, malformed. Adds event_id, publisher, published_at, tie, event, key_hash, content_hash, and
    reason and detail for what lacks one of them.
    """
    opening, source = snapshot.opening, snapshot.source
    time = F.lit(opening.clock) if source.time is None else _time(snapshot.schema, source.time)
    # Making the columns takes longer than using them on a small batch.
    named, judged = snapshot.programs.columns(("admit", opening.source, opening.schema), lambda: _columns(snapshot))
    return arrived.select(*named, time.alias(PUBLISHED_AT)).select("*", *judged)


def check_columns(schema: StructType, source: Source) -> None:
    """Refuse a batch whose source lacks a column that the configuration names, before anything is written."""
    for role, name in (
        ("id", source.id),
        ("publisher", source.publisher),
        ("time", source.time),
        ("order", source.order),
    ):
        if name is not None:
            _column(schema, name, role)


def source_columns(source: Source) -> frozenset[str]:
    """The columns that are not attributes."""
    return frozenset(name for name in (source.id, source.publisher, source.time) if name)


def _columns(snapshot: Snapshot) -> tuple[list[Column], list[Column]]:
    """What is named, and what follows from it."""
    source, schema = snapshot.source, snapshot.schema
    named = [
        F.col(COLUMNS),
        F.col(RAW),
        F.col(MALFORMED),
        _column(schema, source.id, "id").cast("string").alias(EVENT_ID),
        _publisher(schema, source).cast("string").alias(PUBLISHER),
        (_column(schema, source.order, "order") if source.order else F.lit(None).cast("string")).alias(TIE),
    ]
    missing = (
        (F.col(MALFORMED).isNotNull(), "malformed", F.col(MALFORMED)),
        (_empty(EVENT_ID), "missing_id", F.lit(f"column '{source.id}' is NULL or empty")),
        (_empty(PUBLISHER), "missing_publisher", F.lit(f"column '{source.publisher}' is NULL or empty")),
        (F.col(PUBLISHED_AT).isNull(), "missing_time", F.lit(f"column '{source.time}' is NULL or not a time")),
    )
    reason, detail = F.lit(None).cast("string"), F.lit(None).cast("string")
    for condition, name, text in reversed(missing):
        reason, detail = F.when(condition, name).otherwise(reason), F.when(condition, text).otherwise(detail)
    content = _content_hash(schema, source)
    # Refused rows have no key; spreading them by content keeps a flood of them out of one task.
    key = F.when(reason.isNull(), _key(snapshot)).otherwise(F.concat_ws(_APART, F.col(RAW), content.cast("string")))
    judged = [
        F.to_variant_object(COLUMNS).alias(EVENT),
        content.alias(CONTENT_HASH),
        reason.alias(REASON),
        detail.alias(DETAIL),
        F.unhex(F.md5(key)).alias(KEY_HASH),
    ]
    return named, judged


def _key(snapshot: Snapshot) -> Column:
    """What tells one event from another, as one text: the publisher's length keeps the two names apart."""
    if snapshot.config.duplicates.key == "id":
        return F.col(EVENT_ID)
    return F.concat_ws(_APART, F.length(PUBLISHER).cast("string"), F.col(PUBLISHER), F.col(EVENT_ID))


def _empty(name: str) -> Column:
    return F.coalesce(F.col(name), F.lit("")) == ""


def _publisher(schema: StructType, source: Source) -> Column:
    return F.lit(source.publisher_name) if source.publisher is None else _column(schema, source.publisher, "publisher")


def _time(schema: StructType, name: str) -> Column:
    column, (type, _) = _column(schema, name, "time"), _find(schema, name)
    return F.try_to_timestamp(column) if isinstance(type, StringType | VariantType) else column.try_cast("timestamp")


def _column(schema: StructType, name: str, role: str) -> Column:
    """The column that the configuration names, which may be nested."""
    type, column = _find(schema, name)
    if not schema.names:  # nothing in this batch could be read; every row is refused, and the stream goes on
        return F.lit(None).cast("string")
    if type is None:
        close = nearest(name, schema.names)
        hint = f"Did you mean '{close}'?" if close else f"It has: {', '.join(schema.names) or 'no columns'}."
        advice = "Correct it in the configuration, or give the source a schema that has it."
        raise SourceError(f"the {role} column '{name}' is not in the source. {hint} {advice}")
    return F.try_variant_get(column, "$", "string") if isinstance(type, VariantType) else column


def _find(schema: StructType, name: str) -> tuple[DataType | None, Column]:
    type: DataType = schema
    column = F.col(COLUMNS)
    for step in [name] if name in schema.names else name.split("."):
        if not (isinstance(type, StructType) and step in type.names):
            return None, column
        type, column = type[step].dataType, column[step]
    return type, column


def _content_hash(schema: StructType, source: Source) -> Column:
    """A hash of the names and values of all columns that have one, whatever their order and width.

    So a column that appears later leaves the content of earlier events as it was. Where and when a message lay in
    Kafka is not part of what it says.
    """
    parts: list[Column] = []
    for field in sorted(schema, key=lambda field: field.name):
        if not (source.value and field.name == "kafka"):
            column = F.col(COLUMNS)[field.name]
            parts += [F.when(column.isNotNull(), F.lit(field.name)), _hashable(field.dataType, column)]
    return F.xxhash64(*parts) if parts else F.lit(0).cast("bigint")


def _hashable(type: DataType, column: Column) -> Column:
    if isinstance(type, IntegralType):
        return column.cast("bigint")
    if "variant" in type.simpleString() or "map<" in type.simpleString():
        return F.to_json(F.struct(column))
    return column.cast("double") if isinstance(type, FloatType) else column
