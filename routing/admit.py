"""Stage one: which of the rows that arrived are events, and in which order.

Law: every row that arrived is in the result, admitted (reason NULL) or refused with a reason. Of the rows with one key
at most one is admitted: within a batch the one with the least (time, content), and none if an earlier batch admitted
one. Refused rows are not remembered, so a corrected resend is new. Ranks grow with (time, order column, publisher, id).

There are three ways to the same result. *Small* batches are judged and sorted by one task. Most are judged *together*:
one task of Python gets what the judgement needs of each row, and the rows themselves stay where they are. What is too
large for that is judged *apart*, by Spark's own shuffles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from routing.beside import beside
from routing.identify import identify
from routing.snapshot import Snapshot
from routing.sources import MALFORMED
from schemas.delivery import (
    CONTENT_HASH,
    DETAIL,
    EVENT_ID,
    KEY_HASH,
    PUBLISHED_AT,
    PUBLISHER,
    REASON,
)
from udfs.judge import BITS, CONFLICT, DUPLICATE, LARGEST, MANY, MARK, MARKS, PIECE, PLACES, RANKS, ROW, SEEN, TIE, TWIN
from udfs.runs import Recall
from udfs.spark import judging, recalling

REFUSALS = ("malformed", "missing_id", "missing_publisher", "missing_time", DUPLICATE, CONFLICT)
TOGETHER = 2_000_000
"""So many rows at most are judged together."""
_PARTITION, _PLACE = "partition", "place"
_EARLIER = "in an earlier batch"
_ORDER = (PUBLISHED_AT, TIE, PUBLISHER, EVENT_ID)
_SORTABLE = (StringType(), TimestampType(), TimestampNTZType(), DateType(), BooleanType(), BinaryType())
_CHANGED = "the rows came in another order when Spark computed them again; the batch has to be done once more"


@dataclass(frozen=True)
class Admitted:
    """The rows that arrived, judged; the rank of those admitted; and how many there are for each reason, if known."""

    rows: DataFrame
    rank: Column
    counts: Counter[str | None] | None = None
    spread: int | None = None
    """In so many partitions the admitted rows had better lie, if the ones they lie in are too uneven."""


@contextmanager
def admit(arrived: DataFrame, snapshot: Snapshot) -> Iterator[Admitted]:
    """Reads columns, raw, malformed. Adds event_id, publisher, published_at, event, key_hash, content_hash, reason,
    detail. The rows are kept while the context lasts.
    """
    with ExitStack() as kept:

        def keep(rows: DataFrame) -> DataFrame:
            kept.callback(rows.persist().unpersist)
            return rows

        if snapshot.small:
            rows = identify(arrived.coalesce(1), snapshot)
            rows = keep(_placed(_deduplicated(rows, snapshot.seen(), snapshot), snapshot))
            yield Admitted(_remember(rows, snapshot), F.col(_PLACE))
            return
        rows = identify(arrived, snapshot).withColumn(ROW, F.monotonically_increasing_id())
        if snapshot.journal is None and _sortable(rows):
            keep(rows)
            with beside(arrived.sparkSession, rows.count) as many:  # the memory is brought up to date meanwhile
                seen = snapshot.seen()
            if 0 < many() <= TOGETHER:
                yield _together(rows, keep(_verdicts(rows, seen)))
                return
        else:
            seen = snapshot.seen()
        judged = _apart(_remember(keep(_placed(_deduplicated(rows, seen, snapshot), snapshot)), snapshot))
        rows.unpersist()
        yield judged


# — together —


def _sortable(rows: DataFrame) -> bool:
    """Whether Python sorts the order column as Spark does."""
    type = rows.schema[TIE].dataType
    return isinstance(type, IntegralType | DecimalType) or type in _SORTABLE


def _verdicts(rows: DataFrame, seen: Recall | None) -> DataFrame:
    """What one task finds of all rows, from what the judgement needs of each."""
    time = F.unix_micros(PUBLISHED_AT).alias(PUBLISHED_AT)
    told = rows.select(ROW, _mark().alias(MARK), REASON, time, TIE, PUBLISHER, EVENT_ID, KEY_HASH, CONTENT_HASH)
    return judging(told.repartition(1), seen)


def _mark() -> Column:
    """By this a row is known again."""
    return F.xxhash64(KEY_HASH, CONTENT_HASH)


def _together(rows: DataFrame, verdicts: DataFrame) -> Admitted:
    """The rows with what was found of them."""
    with beside(rows.sparkSession, lambda: _told(verdicts)) as told:
        place = F.col(ROW).bitwiseAND(F.lit((1 << PLACES) - 1)).cast("int")
        pieces = F.broadcast(verdicts.where(F.col(PIECE).isNotNull()).select(PIECE, RANKS, MARKS))
        judged = rows.drop(TIE, MALFORMED).withColumn(PIECE, F.shiftright(ROW, PLACES)).join(pieces, PIECE, "left")
        # A row whose block was lost is read again, and its neighbours might then come in another order.
        same = F.when(F.get(MARKS, place) == _mark(), F.col(REASON)).otherwise(F.raise_error(F.lit(_CHANGED)))
        judged = judged.withColumns({REASON: same, _PLACE: F.get(RANKS, place)}).drop(PIECE, RANKS, MARKS)
    counts, spread = told()
    if counts[DUPLICATE] or counts[CONFLICT]:
        refused = verdicts.where(F.col(ROW).isNotNull()).select(ROW, TWIN, SEEN)
        judged = judged.join(F.broadcast(refused), ROW, "left")
        judged = _refuse(_refuse(judged, F.col(TWIN), "in this batch"), F.col(SEEN), _EARLIER).drop(TWIN, SEEN)
    return Admitted(judged.drop(ROW), F.col(_PLACE), counts, spread)


def _told(verdicts: DataFrame) -> tuple[Counter[str | None], int | None]:
    """How many rows there are for each reason; and the number of cores, if the partitions are uneven."""
    told = verdicts.where(F.col(MANY).isNotNull()).select(REASON, MANY, LARGEST).collect()
    counts = Counter({row[REASON]: row[MANY] for row in told})
    largest = max(row[LARGEST] or 0 for row in told)
    cores = verdicts.sparkSession.sparkContext.defaultParallelism
    return counts, cores if largest * cores > 2 * sum(counts.values()) else None


# — apart —


def _deduplicated(read: DataFrame, seen: Recall | None, snapshot: Snapshot) -> DataFrame:
    """The first of each key in the batch stays, unless an earlier batch has one."""
    if seen:
        read = read.withColumn(SEEN, recalling(seen)(F.col(KEY_HASH)))
        read = read.coalesce(1) if snapshot.small else read  # Spark forgets that a UDF leaves rows where they are
    same = Window.partitionBy(KEY_HASH, F.col(REASON).isNull()).orderBy(PUBLISHED_AT, CONTENT_HASH)
    copy, winner = F.row_number().over(same), F.first(CONTENT_HASH).over(same)
    ranked = read.select("*", F.when(F.col(REASON).isNull() & (copy > 1), winner).alias(TWIN))
    judged = _refuse(ranked, F.col(TWIN), "in this batch").drop(TWIN)
    return _refuse(judged, F.col(SEEN), _EARLIER).drop(SEEN) if seen else judged


def _remember(judged: DataFrame, snapshot: Snapshot) -> DataFrame:
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
    seen = known.agg(F.min(CONTENT_HASH).alias(SEEN)).coalesce(1).localCheckpoint()
    return _refuse(judged.join(F.broadcast(seen), KEY_HASH, "left"), F.col(SEEN), _EARLIER).drop(SEEN)


def _refuse(rows: DataFrame, seen: Column, where: str) -> DataFrame:
    """Refuse what has a twin, whose content is `seen`: a duplicate if the content is the same, else a conflict."""
    again = F.col(REASON).isNull() & seen.isNotNull()
    same = again & (F.col(CONTENT_HASH) == seen)
    reason = F.when(same, DUPLICATE).when(again, CONFLICT).otherwise(F.col(REASON))
    words = F.when(same, f"the same event came {where}").when(again, f"another content came under this id {where}")
    return rows.withColumns({REASON: reason, DETAIL: words.otherwise(F.col(DETAIL))})


def _placed(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """Sort the batch and give each row its place: a partition and an index in it.

    The partitions' bounds come from a sample and may differ from run to run; the order does not, and the rank that is
    made of both is the same every time.
    """
    order = [F.col(REASON).isNotNull(), *map(F.col, _ORDER)]
    index = F.monotonically_increasing_id()
    sorted_rows = (rows.coalesce(1) if snapshot.small else rows.repartitionByRange(*order)).sortWithinPartitions(*order)
    place = {_PARTITION: F.shiftright(index, BITS).cast("int"), _PLACE: index.bitwiseAND(F.lit((1 << BITS) - 1))}
    return sorted_rows.withColumns(place).drop(TIE, MALFORMED, ROW)


def _apart(rows: DataFrame) -> Admitted:
    """A row's rank in the batch: the rows of earlier partitions, and its place in its own."""
    found = rows.groupBy(_PARTITION, REASON).count().collect()  # a few rows, whatever the size of the batch
    counts, sizes = Counter[str | None](), Counter[int]()
    for row in found:
        counts[row[REASON]] += row["count"]
        sizes[row[_PARTITION]] += row["count"]
    starts = [0, *accumulate(sizes[partition] for partition in range(max(sizes, default=0)))]
    start = F.element_at(F.array(*map(F.lit, starts)), F.col(_PARTITION) + 1).cast("bigint")
    return Admitted(rows, start + F.col(_PLACE), counts)
