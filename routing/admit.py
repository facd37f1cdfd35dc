"""Stage one: which of the rows that arrived are events, and in which order.

Law: every row that arrived is in the result, admitted (reason NULL) or refused with a reason. Of the rows with one key
at most one is admitted: within a batch the one with the least (time, content), and none if an earlier batch admitted
one. Refused rows are not remembered, so a corrected resend is new. A key is known by its MD5: 128 bits, and nobody can
make one that collides with a given other.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, FloatType, IntegralType, StringType, StructType, VariantType

from routing.config import Source
from routing.errors import SourceError, nearest
from routing.snapshot import Snapshot
from routing.sources import COLUMNS, MALFORMED, RAW
from schemas.delivery import CONTENT_HASH, DETAIL, EVENT, EVENT_ID, KEY_HASH, PUBLISHED_AT, PUBLISHER, REASON

PARTITION, PLACE = "partition", "place"
REFUSALS = ("malformed", "missing_id", "missing_publisher", "missing_time", "duplicate", "conflict")
_TIE, _APART, _EARLIER = "tie", "\0", "in an earlier batch"


def admit(arrived: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Reads columns, raw, malformed. Adds event_id, publisher, published_at, event, key_hash, content_hash, reason,
    detail, and the row's place in the order of the batch (partition, place).
    """
    arrived = arrived.coalesce(1) if snapshot.small else arrived
    return _placed(_deduplicated(_identified(arrived, snapshot), snapshot), snapshot)


def remember(judged: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Refuse what an earlier batch admitted, by a look at the journal, where there is no memory made for it.

    Reads key_hash, content_hash, reason; changes reason and detail. Only the batch's own part of the journal is looked
    at. It is cut loose from the table, because a write to the journal would otherwise throw away everything cached
    that was computed from it.
    """
    if snapshot.journal is None:
        return judged
    # The batch is small and the journal large: reduce the journal to the batch's keys.
    keys = F.broadcast(judged.where(F.col(REASON).isNull()).select(KEY_HASH))
    known = snapshot.journal.join(keys, KEY_HASH, "left_semi").groupBy(KEY_HASH)
    seen = known.agg(F.min(CONTENT_HASH).alias("seen")).coalesce(1).localCheckpoint()
    return _refuse(judged.join(F.broadcast(seen), KEY_HASH, "left"), F.col("seen"), _EARLIER).drop("seen")


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


def _identified(arrived: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Name the id, publisher and time, and refuse what lacks one."""
    opening, source = snapshot.opening, snapshot.source
    time = F.lit(opening.clock) if source.time is None else _time(snapshot.schema, source.time)
    # Making the columns takes longer than using them on a small batch.
    named, judged = snapshot.programs.columns(("admit", opening.source, opening.schema), lambda: _columns(snapshot))
    return arrived.select(*named, time.alias(PUBLISHED_AT)).select("*", *judged)


def _columns(snapshot: Snapshot) -> tuple[list[Column], list[Column]]:
    """What is named, and what follows from it."""
    source, schema = snapshot.source, snapshot.schema
    named = [
        F.col(COLUMNS),
        F.col(RAW),
        F.col(MALFORMED),
        _column(schema, source.id, "id").cast("string").alias(EVENT_ID),
        _publisher(schema, source).cast("string").alias(PUBLISHER),
        (_column(schema, source.order, "order") if source.order else F.lit(None).cast("string")).alias(_TIE),
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


def _deduplicated(read: DataFrame, snapshot: Snapshot) -> DataFrame:
    """The first of each key in the batch stays, unless an earlier batch has one."""
    if snapshot.seen:
        read = read.withColumn("seen", snapshot.seen(F.col(KEY_HASH)))
        read = read.coalesce(1) if snapshot.small else read  # Spark forgets that a UDF leaves rows where they are
    same = Window.partitionBy(KEY_HASH).orderBy(PUBLISHED_AT, CONTENT_HASH)
    copy, winner = F.row_number().over(same), F.first(CONTENT_HASH).over(same)
    ranked = read.select("*", F.when(F.col(REASON).isNull() & (copy > 1), winner).alias("twin"))
    judged = _refuse(ranked, F.col("twin"), "in this batch").drop("twin")
    return _refuse(judged, F.col("seen"), _EARLIER).drop("seen") if snapshot.seen else judged


def _refuse(rows: DataFrame, seen: Column, where: str) -> DataFrame:
    """Refuse what has a twin, whose content is `seen`: a duplicate if the content is the same, else a conflict."""
    again = F.col(REASON).isNull() & seen.isNotNull()
    same = again & (F.col(CONTENT_HASH) == seen)
    reason = F.when(same, "duplicate").when(again, "conflict").otherwise(F.col(REASON))
    words = F.when(same, f"the same event came {where}").when(again, f"another content came under this id {where}")
    return rows.withColumns({REASON: reason, DETAIL: words.otherwise(F.col(DETAIL))})


def _placed(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Sort the batch by (time, order column, id) and give each row its place: a partition and an index in it.

    The partitions' bounds come from a sample and may differ from run to run; the order does not, and the rank that
    `sink` makes of both is the same every time.
    """
    order = [F.col(REASON).isNotNull(), F.col(PUBLISHED_AT), F.col(_TIE), F.col(PUBLISHER), F.col(EVENT_ID)]
    index = F.monotonically_increasing_id()
    sorted_rows = (rows.coalesce(1) if snapshot.small else rows.repartitionByRange(*order)).sortWithinPartitions(*order)
    place = {PARTITION: F.shiftright(index, 33).cast("int"), PLACE: index.bitwiseAND(F.lit((1 << 33) - 1))}
    return sorted_rows.withColumns(place).drop(_TIE, MALFORMED)


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
