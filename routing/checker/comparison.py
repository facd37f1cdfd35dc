"""What should have been delivered against what was: only of interest, only visible, in the right form, nothing missing.

Law: both sides are rows of one shape, one for each version of an event for a consumer, and every difference is counted.
Where all events are judged together an event is its batch and rank, and its content is compared elsewhere; where flows
are followed, it is its name, and path and content are compared too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from routing.checker.controls import Controls
from routing.checker.crossing import ApplyMapping
from routing.checker.expected import ATTRIBUTES, EXPECTED, Work, decoded, image, one_by_one, together
from routing.checker.finding import SHOWN, Finding, judged, shown
from routing.checker.interest import understood
from routing.checker.range import Range, among, outside, per_batch
from routing.checker.tree import Types, way
from routing.filters.ast import attributes

# A sequence number is ordinal, rank in the batch, version of the event: 27, 30 and 6 bits (docs/tables.md).
RANK_BITS, VERSION_BITS = 30, 6
INTEREST, VISIBLE, LIVENESS = "only_of_interest", "only_visible", "all_notified"
_KEYS = ["batch", "rank", "publisher", "event_id", "consumer", "version"]
_SHARES = 1 << 20


@dataclass(frozen=True)
class Comparison:
    """Of a range of batches."""

    range: Range
    controls: Controls
    apply_mapping: ApplyMapping

    def findings(self, pairs: int) -> Iterator[Finding]:
        """The three properties; so many pairs of an event and a subscription there are."""
        most, seed = self.range.options.pairs, self.range.options.seed
        share = 1.0 if pairs <= most or self.controls.remembering else most / pairs
        words = f"{pairs:,} pairs of an event and a subscription"
        if share < 1:
            words = f"a sample of {share:.3%} of the events (seed {seed}), of {words}"
        events, got = self._sample(self.range.events, share), self._sample(self.range.notifications, share)
        differences = _differences(self._expected(events), self._actual(got)).persist()
        try:
            yield from self._explained(differences, words, pairs)
        finally:
            differences.unpersist()

    def pairs(self) -> int:
        """How many pairs of an event and a subscription there are."""
        counts, work = per_batch(self.range.events), self._work
        known: dict[tuple[int, int, int], int] = {}
        total = 0
        for batch in work.batches.values():
            if batch.ordinal in counts:
                key = (batch.subscriptions, batch.micros, batch.system)
                if key not in known:
                    known[key] = len(work.counting(batch))
                total += counts[batch.ordinal] * known[key]
        return total

    @property
    def _work(self) -> Work:
        return self.controls.work

    def _sample(self, rows: DataFrame, share: float) -> DataFrame:
        if share >= 1:
            return rows
        hashed = F.pmod(F.xxhash64("publisher", "event_id", F.lit(self.range.options.seed)), F.lit(_SHARES))
        return rows.where(hashed < int(share * _SHARES))

    # — the two sides —

    @cached_property
    def _followed(self) -> list[int]:
        """The batches in which flows are followed: all, if a policy remembers."""
        plain = self.controls.plain
        batches = self._work.batches.values()
        return [batch.ordinal for batch in batches if self.controls.remembering or not plain[batch.system]]

    def _expected(self, events: DataFrame) -> DataFrame:
        work, schema = self._work, from_arrow_schema(EXPECTED)
        followed = set(self._followed)
        parts: list[DataFrame] = []
        alike = {(b.schema, b.source) for b in work.batches.values() if b.ordinal not in followed}
        for number, source in sorted(alike):
            of = (number, source)
            mine = [
                b.ordinal for b in work.batches.values() if (b.schema, b.source) == of and b.ordinal not in followed
            ]
            columns = self._attributes(work.schemas[number], work.hidden[source])
            rows = among(events, mine).select("batch", "rank", "publisher", columns)
            parts.append(rows.mapInArrow(together(work), schema))
        if followed:
            remembering = self.controls.remembering
            follow = one_by_one(work, self.apply_mapping, self.controls.parse_mapping, stateful=remembering)
            rows = among(events, self._followed).select("batch", "rank", "publisher", "event_id", "event")
            rows = rows.repartition(1) if remembering else rows.repartition(F.col("batch"), F.pmod("rank", F.lit(8)))
            parts.append(rows.sortWithinPartitions("batch", "rank").mapInArrow(follow, schema))
        return reduce(DataFrame.unionByName, parts)

    def _attributes(self, types: Types, hidden: frozenset[str]) -> Column:
        """The attributes that some filter names, as a struct of structs: a child for each type."""
        names: set[str] = set()
        for text in set(self._work.interest.texts.to_pylist()):
            filter = understood(text, self._work.zone, self._work.limits)
            names |= attributes(filter) if filter else set()
        ways = {name: way(types, name) for name in sorted(names)}
        paths = {name: _variant_path(steps) for name, steps in ways.items() if steps[0] not in hidden}
        variants = {name: F.try_variant_get("event", path, "variant") for name, path in paths.items() if path}
        found = [_children(variant).alias(name) for name, variant in variants.items()]
        return F.struct(*(found or [F.struct(F.lit(None).cast("boolean").alias("other")).alias("")])).alias(ATTRIBUTES)

    def _actual(self, rows: DataFrame) -> DataFrame:
        """The notifications, in the shape of what is expected."""
        rank = F.shiftright("sequence", VERSION_BITS).bitwiseAND(F.lit((1 << RANK_BITS) - 1)).alias("rank")
        version = F.col("sequence").bitwiseAND(F.lit((1 << VERSION_BITS) - 1)).cast("int") + 1
        ids = F.array_sort("subscription_ids").alias("ids")
        common = ("batch", rank, "publisher", "event_id", "consumer", version.alias("version"), ids, "path")
        none = F.lit(None).cast("string")
        blank = {"publisher": none, "event_id": none, "path": F.lit(None).cast("array<string>"), "content": none}
        judged_together = outside(rows, self._followed).select(*common).withColumns(blank)
        if not self._followed:
            return judged_together.select(*EXPECTED.names)
        mine = among(rows, self._followed)
        if self.range.config.notifications.payload == "reference":
            kept = self.range.events.select("batch", "publisher", "event_id", F.col("event").alias("kept"))
            mine = mine.join(kept, ["batch", "publisher", "event_id"], "left")
            mine = mine.withColumn("event", F.coalesce("event", "kept"))
        images = mine.select(*common, "source", "event").mapInArrow(
            _imaged(dict(self._work.hidden)), from_arrow_schema(EXPECTED)
        )
        images = images.withColumn("rank", F.lit(None).cast("bigint"))
        return judged_together.select(*EXPECTED.names).unionByName(images)

    # — what differs —

    def _explained(self, differences: DataFrame, words: str, pairs: int) -> Iterator[Finding]:
        """Say of each of the first differences which property it violates; all of them are counted."""
        kind = F.when(F.col("e") > F.col("a"), LIVENESS).otherwise("delivered").alias("kind")
        counts = {row["kind"]: row["count"] for row in differences.groupBy(kind).count().collect()}
        rows: dict[str, list[dict[str, Any]]] = {INTEREST: [], VISIBLE: [], LIVENESS: []}
        if counts.get(LIVENESS):
            lost = self._named(shown(differences.where("e > a")))
            rows[LIVENESS] = [{**_words(row), "what": "was not delivered"} for row in lost]
        if counts.get("delivered"):
            for row in self._named(shown(differences.where("e <= a"))):
                name, what = self._judged(row)
                rows[name].append({**_words(row), "what": what})
        delivered = counts.get("delivered", 0)
        for name, some in rows.items():
            every = (
                counts.get(LIVENESS, 0) if name == LIVENESS else delivered if delivered > SHOWN and some else len(some)
            )
            yield judged(name, words, pairs, some, every)

    def _named(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """A few differences with the names of their events and what was delivered, if anything."""
        spark = self.range.tables.spark
        types = {"batch": LongType(), "rank": LongType(), "version": LongType()}
        schema = StructType([StructField(name, types.get(name, StringType())) for name in _KEYS])
        some = spark.createDataFrame([tuple(row[name] for name in _KEYS) for row in rows], schema)
        events = self.range.tables.read("events").select("batch", "rank", "publisher", "event_id")
        events = events.withColumnsRenamed({"publisher": "of", "event_id": "id"})
        by_rank = some.join(events, ["batch", "rank"], "left")
        publisher, event = F.coalesce("publisher", "of"), F.coalesce("event_id", "id")
        named = by_rank.withColumns({"publisher": publisher, "event_id": event}).drop("of", "id")
        keys = ["batch", "publisher", "event_id", "consumer"]
        delivered = self.range.notifications.select(*keys, "subscription_ids", F.col("path").alias("by"))
        found = named.join(delivered, keys, "left").dropDuplicates(_KEYS)
        return found.toArrow().to_pylist()  # type: ignore[no-any-return]

    def _judged(self, row: dict[str, Any]) -> tuple[str, str]:
        """Why a notification should not be as it is: nobody asked, it was not visible, or something else."""
        work, batch = self._work, self._work.batches.get(row["batch"])
        if batch is None or row["event_id"] is None:
            return VISIBLE, "there is no such batch or event"
        counting = work.interest.subscriptions(work.counting(batch))
        own = [one for one in counting if one.consumer == row["consumer"]]
        active = {one.id for one in own if understood(one.filter, work.zone, work.limits) is not None}
        listed = set(row["subscription_ids"] or ())
        if not listed or listed - active:
            return INTEREST, f"lists {sorted(listed)}, active are {sorted(active)}"
        sight = work.sights.get(batch.system) if batch.ordinal not in self._followed else None
        if sight is None:
            return VISIBLE, f"no flow brings this, in this form, by the path {row['by']}"
        if not sight.sees(row["publisher"], row["consumer"]):
            return VISIBLE, "the consumer does not see the publisher"
        return INTEREST, f"it lists {sorted(listed)}, which is not what matches, or it is there twice"


def _differences(expected: DataFrame, actual: DataFrame) -> DataFrame:
    """The keys of which there are more on one side (e, a: how many), or of which the rest differs."""
    same = F.xxhash64("ids", "path", "content").alias("same")
    wanted = expected.select(*_KEYS, same, F.lit(1).alias("e"), F.lit(0).alias("a"))
    got = actual.select(*_KEYS, same, F.lit(0).alias("e"), F.lit(1).alias("a"))
    sums = (F.sum("e").alias("e"), F.sum("a").alias("a"), F.min("same").alias("low"), F.max("same").alias("high"))
    return wanted.unionByName(got).groupBy(*_KEYS).agg(*sums).where("e <> a OR low <> high")


def _words(row: dict[str, Any]) -> dict[str, Any]:
    names = ("consumer", "publisher", "event_id", "batch", "rank", "version")
    return {name: row[name] for name in names if row[name] is not None}


def _variant_path(steps: tuple[str, ...]) -> str | None:
    if any("'" in step and '"' in step for step in steps):
        return None
    return "$" + "".join(f'["{step}"]' if "'" in step else f"['{step}']" for step in steps)


def _children(variant: Column) -> Column:
    """The value of a VARIANT in the column for its type."""
    kind = F.schema_of_variant(variant)
    tests = {
        "integer": (kind == "BIGINT", "bigint"),
        "double": (kind.isin("DOUBLE", "FLOAT"), "double"),
        "decimal": (kind.startswith("DECIMAL"), "string"),
        "string": (kind == "STRING", "string"),
        "boolean": (kind == "BOOLEAN", "boolean"),
        "date": (kind == "DATE", "date"),
        "timestamp": (kind.isin("TIMESTAMP", "TIMESTAMP_NTZ"), "timestamp"),
    }
    columns = [F.when(test, F.try_variant_get(variant, "$", type)).alias(name) for name, (test, type) in tests.items()]
    known = reduce(Column.__or__, (test for test, _ in tests.values()))
    return F.struct(*columns, F.when(kind.isNotNull() & (kind != "VOID") & ~known, True).alias("other"))


def _imaged(hidden: dict[str, frozenset[str]]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Notifications with the image of their content."""

    def imaged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            payloads = zip(rows["event"].to_pylist(), rows["source"].to_pylist(), strict=True)
            contents = [None if event is None else image(decoded(event), hidden[source]) for event, source in payloads]
            arrays = [pa.array(contents, pa.string()) if name == "content" else rows[name] for name in EXPECTED.names]
            yield pa.RecordBatch.from_arrays(arrays, names=EXPECTED.names)

    return imaged
