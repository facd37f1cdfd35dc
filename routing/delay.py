"""What scopes hold back: the publishing policy `delay` (docs/scopes.md).

Law: a version that is held lies in `policy_state` with all that it needs to go on: the event as it came, what mappings
have made of it, the boundaries that it crossed. Beside it lies what has become of the event so far: the contents that
it had, and who got which. The first batch of its source whose clock has come to `due` lets it out, before its own
events, and writes that it did; whatever happens, it is let out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.model import Opening
from routing.scopes.content import Contents
from routing.scopes.layout import OVERLAY
from routing.sources import COLUMNS
from schemas.delivery import (
    BATCH,
    CONSUMER,
    EVENT,
    EVENT_ID,
    PUBLISHED_AT,
    PUBLISHER,
    RANK,
    RANKS,
    SOURCE,
)
from schemas.engine import HELD, HELD_COLUMNS

if TYPE_CHECKING:
    from routing.snapshot import Snapshot

SCOPE, KEY, VALUE, CONTENT = "scope", "key", "value", "content"
ASCENDED, CROSSED = "ascended", "crossed"
_HELD, _RELEASED, _CONTENT, _DELIVERED = "held", "released", "content", "delivered"
_DUE, _ORIGIN, _KEPT = "due", "origin", "kept"
_EVENT = [EVENT_ID, PUBLISHER, PUBLISHED_AT, EVENT]
_OFFSETS = T.StructType([T.StructField(BATCH, T.LongType()), T.StructField("offset", T.LongType())])


@dataclass(frozen=True, eq=False)
class Due:
    """What a batch lets out, a row for each version; their events have the first ranks of the batch.

    An event is known by its `origin`: the batch and the rank in which it came. `later` are the origins of what stays
    held, and `left` the scopes and batches that held what leaves.
    """

    rows: DataFrame
    contents: Contents
    events: int
    origins: DataFrame
    memory: DataFrame
    later: DataFrame
    left: DataFrame

    @cached_property
    def known(self) -> DataFrame:
        """The contents that the events had in earlier batches, and whether they were within the limit."""
        return self._of_events(_CONTENT, "content STRING, kept BOOLEAN").select(RANK, CONTENT, _KEPT)

    @cached_property
    def most(self) -> int:
        """How many contents one of the events has had at most, beside the original."""
        found = self.known.groupBy(RANK).count().agg(F.max("count").alias("most")).collect()
        return found[0]["most"] or 0

    @property
    def delivered(self) -> DataFrame:
        """Who got which content of the events in earlier batches."""
        return self._of_events(_DELIVERED, "consumer STRING, content STRING").select(RANK, CONSUMER, CONTENT)

    def _of_events(self, key: str, columns: str) -> DataFrame:
        rows = self.memory.where(F.col(KEY) == key)
        rows = rows.select(F.from_json(VALUE, f"{_ORIGIN} BIGINT, {columns}").alias(VALUE)).select(f"{VALUE}.*")
        return rows.join(self.origins, _ORIGIN)


def due(
    memory: DataFrame, now: DataFrame, opening: Opening, schema: T.StructType, without: frozenset[str]
) -> Due | None:
    """What is due in a batch of these columns, by what was remembered when it was opened; None if nothing is.

    `now` is what is remembered now: what others have let out meanwhile is gone.
    """
    held = _outstanding(memory, now, opening)
    ripe = held.where(F.col(_DUE) <= F.lit(opening.clock)).localCheckpoint()
    firsts = ripe.groupBy(_ORIGIN).agg(F.min(F.struct(BATCH, RANK)).alias("first")).select(_ORIGIN, "first.*")
    counts = {row[BATCH]: row["count"] for row in firsts.groupBy(BATCH).count().collect()}
    if not counts:
        return None
    batches = sorted(counts)
    offsets = list(zip(batches, accumulate((counts[batch] for batch in batches), initial=0), strict=False))
    table = F.broadcast(memory.sparkSession.createDataFrame(offsets, _OFFSETS))
    place = F.row_number().over(Window.partitionBy(BATCH).orderBy(RANK)) - 1
    origins = firsts.withColumn("place", place).join(table, BATCH)
    origins = origins.select(_ORIGIN, (F.col("offset") + F.col("place")).alias(RANK))
    names = {row["name"] for row in ripe.select(F.explode("changes.attribute").alias("name")).distinct().collect()}
    contents = Contents(schema, without, {name: (T.VariantType(),) for name in names})
    overlay = [contents.restored(F.col("changes")).alias(OVERLAY)] if names else []
    rows = ripe.dropDuplicates([SCOPE, _ORIGIN, CONTENT, ASCENDED, CROSSED]).drop(RANK).join(origins, _ORIGIN)
    rows = rows.select(
        RANK, *_EVENT, F.col(EVENT).try_cast(schema).alias(COLUMNS), *overlay, CONTENT, SCOPE, ASCENDED, CROSSED
    )
    later = held.where(F.col(_DUE) > F.lit(opening.clock)).select(_ORIGIN)
    return Due(rows, contents, sum(counts.values()), origins, memory, later, ripe.select(SCOPE, BATCH).distinct())


def _outstanding(memory: DataFrame, now: DataFrame, opening: Opening) -> DataFrame:
    """The versions of the source that are held, without those that another batch has let out, even if it came later.

    What a scope holds in one batch is due at one time, so it leaves as one.
    """
    held = memory.where(F.col(KEY) == _HELD).select(SCOPE, BATCH, f"{HELD}.*").where(F.col(SOURCE) == opening.source)
    left = now.where((F.col(KEY) == _RELEASED) & (F.col(BATCH) != opening.ordinal))
    left = left.select(SCOPE, F.from_json(VALUE, "batch BIGINT")["batch"].alias(BATCH))
    return held.join(left, [SCOPE, BATCH], "left_anti")


def holding(rows: DataFrame, contents: Contents) -> DataFrame:
    """Versions that a scope holds: they have its name, when they are due, and what they have ascended and crossed."""
    changes = contents.stored().alias("changes")
    return rows.select(SCOPE, _DUE, RANK, *_EVENT, changes, CONTENT, ASCENDED, CROSSED)


def staying(held: Iterable[DataFrame], snapshot: Snapshot) -> DataFrame | None:
    """The rank and the origin of each event of which something is held behind the batch; None if nothing is."""
    due = snapshot.due
    ranks = [_with_origins(rows.select(RANK), snapshot) for rows in held]
    if due is not None:
        ranks.append(due.origins.join(due.later, _ORIGIN, "left_semi").select(RANK, _ORIGIN))
    return reduce(DataFrame.unionByName, ranks).distinct() if ranks else None


def remembered(
    held: Iterable[DataFrame],
    stay: DataFrame,
    contents: Mapping[bool, DataFrame],
    delivered: DataFrame,
    snapshot: Snapshot,
) -> list[DataFrame]:
    """The rows of `policy_state`: what is held, and of the events that stay what they have become and who got it.

    `contents` are ranks and contents within the limit, and beyond it; `delivered` has consumers too.
    """
    opening = snapshot.opening
    rows = [_state(_held(some, snapshot), F.col(SCOPE), _HELD, None, opening) for some in held]
    for kept, some in contents.items():
        news = some.where(F.col(CONTENT) != "").distinct().join(stay, RANK).withColumn(_KEPT, F.lit(kept))
        rows.append(_state(news, F.lit(""), _CONTENT, [_ORIGIN, CONTENT, _KEPT], opening))
    rows.append(_state(delivered.join(stay, RANK), F.lit(""), _DELIVERED, [_ORIGIN, CONSUMER, CONTENT], opening))
    return rows


def released(snapshot: Snapshot) -> list[DataFrame]:
    """The rows of `policy_state` that say what has left."""
    if snapshot.due is None:
        return []
    return [_state(snapshot.due.left, F.col(SCOPE), _RELEASED, [BATCH], snapshot.opening)]


def _held(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    named = _with_origins(rows, snapshot).withColumn(SOURCE, F.lit(snapshot.opening.source))
    return named.select(SCOPE, F.struct(*(field.name for field in HELD_COLUMNS)).alias(HELD))


def _with_origins(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    new = F.lit(snapshot.opening.ordinal * RANKS) + F.col(RANK)
    if snapshot.due is None:
        return rows.withColumn(_ORIGIN, new)
    return rows.join(snapshot.due.origins, RANK, "left").withColumn(_ORIGIN, F.coalesce(_ORIGIN, new))


def _state(rows: DataFrame, scope: Column, key: str, value: list[str] | None, opening: Opening) -> DataFrame:
    text = F.to_json(F.struct(*value)) if value else F.lit(None).cast(T.StringType())
    held = None if value else F.col(HELD)
    return state(rows, scope, F.lit(key), text, opening, held)


def state(
    rows: DataFrame, scope: Column, key: Column, value: Column, opening: Opening, held: Column | None = None
) -> DataFrame:
    """Rows of `policy_state` that a batch writes."""
    nothing, batch = F.lit(None).cast(HELD_COLUMNS), F.lit(opening.ordinal).cast(T.LongType())
    there = nothing if held is None else held
    columns = {SCOPE: scope, KEY: key, VALUE: value, HELD: there, BATCH: batch}
    return rows.select(*(column.alias(name) for name, column in columns.items()))
