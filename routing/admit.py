"""Stage one: which of the rows that arrived are events, and in which order.

Law: every row that arrived is in the result, admitted (reason NULL) or refused with a reason. Of the rows with one key at
most one is admitted, within a batch the one with the least (time, content), and none if the journal remembers the key.
Refused rows are not remembered, so a corrected resend is new.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType, VariantType

from routing.config import Source
from routing.errors import SourceError, nearest
from routing.snapshot import Snapshot
from routing.sources import COLUMNS, MALFORMED, RAW
from schemas.delivery import CONTENT_HASH, DETAIL, EVENT, EVENT_ID, KEY_HASH, PUBLISHED_AT, PUBLISHER, REASON

TIE = "tie"
PLACE = "place"
PARTITION = "partition"


def admit(arrived: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Reads columns, raw, malformed. Adds event_id, publisher, published_at, event, key_hash, content_hash, reason,
    detail, and the row's place in the order of the batch (partition, place).
    """
    read = _identified(arrived, snapshot)
    return _placed(_remembered(_deduplicated(read), snapshot))


def _identified(arrived: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Name the id, publisher and time, and refuse what lacks one."""
    source, schema = snapshot.source, snapshot.schema
    clock = F.lit(snapshot.opening.clock)
    id, time = _column(schema, source.id, "id"), clock if source.time is None else _time(schema, source.time)
    publisher = F.lit(source.publisher_name) if source.publisher is None else _column(schema, source.publisher, "publisher")
    order = F.lit(None).cast("string") if source.order is None else _column(schema, source.order, "order")
    keys = _key(snapshot)
    named = arrived.select(
        COLUMNS,
        RAW,
        MALFORMED,
        id.cast("string").alias(EVENT_ID),
        publisher.cast("string").alias(PUBLISHER),
        time.alias(PUBLISHED_AT),
        order.alias(TIE),
        F.to_variant_object(COLUMNS).alias(EVENT),
    )
    missing = (
        F.when(F.col(MALFORMED).isNotNull(), "malformed")
        .when(F.coalesce(F.col(EVENT_ID), F.lit("")) == "", "missing_id")
        .when(F.coalesce(F.col(PUBLISHER), F.lit("")) == "", "missing_publisher")
        .when(F.col(PUBLISHED_AT).isNull(), "missing_time")
    )
    detail = (
        F.when(F.col(REASON) == "malformed", F.col(MALFORMED))
        .when(F.col(REASON) == "missing_id", F.lit(f"column '{source.id}' is NULL or empty"))
        .when(F.col(REASON) == "missing_publisher", F.lit(f"column '{source.publisher}' is NULL or empty"))
        .when(F.col(REASON) == "missing_time", F.lit(f"column '{source.time}' is NULL or not a time"))
    )
    return (
        named.withColumn(REASON, missing)
        .withColumn(DETAIL, detail)
        .withColumn(CONTENT_HASH, _content_hash(schema))
        # Refused rows have no key; spreading them by content keeps a flood of them out of one task.
        .withColumn(KEY_HASH, F.when(F.col(REASON).isNull(), F.xxhash64(*keys)).otherwise(F.xxhash64(RAW, CONTENT_HASH)))
        .withColumn("twin", F.when(F.col(REASON).isNull(), F.array(*keys)))
    )


def _deduplicated(read: DataFrame) -> DataFrame:
    """Within the batch: the first of each key stays."""
    same = Window.partitionBy(KEY_HASH, "twin").orderBy(PUBLISHED_AT, CONTENT_HASH)
    ranked = read.withColumn("copy", F.row_number().over(same)).withColumn("winner", F.first(CONTENT_HASH).over(same))
    again = F.col(REASON).isNull() & (F.col("copy") > 1)
    return _refuse(ranked, again, F.col("winner"), "in this batch").drop("copy", "winner")


def _remembered(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Across batches: what the journal holds within the horizon is refused."""
    if snapshot.journal is None:
        return rows
    keys = rows.where(F.col(REASON).isNull()).select(KEY_HASH)
    # The batch is small and the journal large: reduce the journal to the batch's keys, then join what is left.
    seen = snapshot.journal.join(F.broadcast(keys), KEY_HASH, "left_semi").select(
        F.col(KEY_HASH).alias("seen_hash"), F.array(*_key(snapshot)).alias("seen_twin"), F.col(CONTENT_HASH).alias("seen_content")
    )
    seen = seen.groupBy("seen_hash", "seen_twin").agg(F.min("seen_content").alias("seen_content"))
    joined = rows.join(seen, (rows[KEY_HASH] == seen["seen_hash"]) & (rows["twin"] == seen["seen_twin"]), "left")
    again = F.col(REASON).isNull() & F.col("seen_hash").isNotNull()
    return _refuse(joined, again, F.col("seen_content"), "in an earlier batch").drop("seen_hash", "seen_twin", "seen_content")


def _key(snapshot: Snapshot) -> list[str]:
    return [PUBLISHER, EVENT_ID] if snapshot.config.duplicates.key == "publisher_and_id" else [EVENT_ID]


def _refuse(rows: DataFrame, again: Column, content: Column, where: str) -> DataFrame:
    """Mark repeated keys: a duplicate if the content is the same, else a conflict."""
    same = F.col(CONTENT_HASH) == content
    reason = F.when(again & same, "duplicate").when(again, "conflict").otherwise(F.col(REASON))
    detail = F.when(again & same, f"the same event came {where}").when(again, f"another content came under this id {where}").otherwise(F.col(DETAIL))
    return rows.withColumn(DETAIL, detail).withColumn(REASON, reason)


def _placed(rows: DataFrame) -> DataFrame:
    """Sort the batch by (time, order column, id) and give each row its place: a partition and an index in it.

    The partitions' bounds come from a sample and may differ from run to run; the order does not, and the rank made from
    it (see `sink`) is the same every time.
    """
    order = [F.col(REASON).isNotNull(), F.col(PUBLISHED_AT), F.col(TIE), F.col(PUBLISHER), F.col(EVENT_ID)]
    placed = rows.drop("twin", MALFORMED).repartitionByRange(*order).sortWithinPartitions(*order)
    index = F.monotonically_increasing_id()
    return placed.withColumn(PARTITION, F.shiftright(index, 33).cast("int")).withColumn(PLACE, index.bitwiseAND(F.lit((1 << 33) - 1)))


def _column(schema: StructType, name: str, role: str) -> Column:
    """The column that the configuration names, which may be nested."""
    type, column = _find(schema, name)
    if type is None or column is None:
        close = nearest(name, schema.names)
        raise SourceError(f"the {role} column '{name}' is not in the source." + (f" Did you mean '{close}'?" if close else f" It has: {', '.join(schema.names)}."))
    return F.try_variant_get(column, "$", "string") if isinstance(type, VariantType) else column


def _find(schema: StructType, name: str) -> tuple[DataType | None, Column | None]:
    type: DataType = schema
    column = F.col(COLUMNS)
    for step in [name] if name in schema.names else name.split("."):
        if not (isinstance(type, StructType) and step in type.names):
            return None, None
        type, column = type[step].dataType, column[step]
    return type, column


def _time(schema: StructType, name: str) -> Column:
    column = _column(schema, name, "time")
    type = _find(schema, name)[0]
    return F.try_to_timestamp(column) if isinstance(type, StringType | VariantType) else column.cast("timestamp")


def _content_hash(schema: StructType) -> Column:
    """A hash of all columns, each at its place, so that a value that moves to another column changes it."""
    parts: list[Column] = []
    for position, field in enumerate(schema):
        column = F.col(COLUMNS)[field.name]
        hashable = column if not _holds_unhashable(field.dataType) else F.to_json(F.struct(column.alias("v")))
        parts += [F.lit(position), hashable]
    return F.xxhash64(*parts) if parts else F.lit(0).cast("bigint")


def _holds_unhashable(type: DataType) -> bool:
    return "variant" in type.simpleString() or "map<" in type.simpleString()


def source_columns(source: Source) -> frozenset[str]:
    """The columns that are not attributes."""
    return frozenset(name for name in (source.id, source.publisher, source.time) if name)
