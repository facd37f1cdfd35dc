"""The checker: proves every property of docs/guarantees.md from the tables alone, or refutes it with offending rows.

Law: nothing is taken from matching and routing. What should have been delivered is derived again, from the journal and
from the control tables at the versions that the ledger pinned, and compared with what was, row by row. What cannot be
checked is said, never counted as holding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from routing.checker.comparison import INTEREST, LIVENESS, RANK_BITS, VERSION_BITS, VISIBLE, Comparison
from routing.checker.controls import Controls
from routing.checker.crossing import ApplyMapping
from routing.checker.finding import HOLDS, UNKNOWN, Finding, found, judged
from routing.checker.graph import ParseMapping
from routing.checker.range import CLOSING, Options, Range, per_batch

if TYPE_CHECKING:
    from routing.config import Config
    from routing.tables import Tables


def audited(
    tables: Tables, config: Config, options: Options, *, apply_mapping: ApplyMapping, parse_mapping: ParseMapping
) -> Iterator[Finding]:
    """The findings, one property after the other."""
    range = Range(tables, config, options)
    audit = Audit(range, Controls(range, parse_mapping), apply_mapping)
    for prove in (
        audit.whole_batches,
        audit.at_most_once,
        audit.admitted_once,
        audit.only_published,
        audit.publisher_order,
        audit.as_expected,
    ):
        started = perf_counter()
        for finding in prove():
            yield replace(finding, seconds=round(perf_counter() - started, 1))
            started = perf_counter()


@dataclass(frozen=True)
class Audit:
    """The properties of a range of batches; each method yields what it finds."""

    range: Range
    controls: Controls
    apply_mapping: ApplyMapping

    def whole_batches(self) -> Iterator[Finding]:
        """As many rows as the ledger says, of batches that it knows; pinned versions only grow."""
        ledger, finished = self.range.ledger, self.range.finished
        tables = {"notifications": per_batch(self.range.notifications)}
        if self.range.config.journal != "off":
            tables["admitted"] = per_batch(self.range.events)
        offending: list[dict[str, object]] = [
            {"batch": ordinal, "what": what, "ledger": row[CLOSING].get(what), "table": counts.get(ordinal, 0)}
            for ordinal, row in ledger.items()
            for what, counts in tables.items()
            if CLOSING in row
            and row[CLOSING].get(what, 0) != counts.get(ordinal, 0)
            # A closing that was lost and written by a later batch knows the notifications only.
            and what in row[CLOSING]
        ]
        strange = sorted(set(tables["notifications"]) - set(finished))
        offending += [{"batch": ordinal, "what": "the ledger does not know this batch"} for ordinal in strange]
        before: dict[str, int] = {}
        for ordinal, row in ledger.items():
            pinned = dict(row["control_versions"])
            older = [table for table, version in pinned.items() if version < before.get(table, 0)]
            offending += [{"batch": ordinal, "what": f"{table} was pinned older than before"} for table in older]
            before = pinned
        begun = len(ledger) - len(finished)
        words = f"{len(finished)} batches" + (f"; {begun} more were begun and wait for their retry" if begun else "")
        yield judged("whole_batches", words, len(finished), offending)

    def at_most_once(self) -> Iterator[Finding]:
        """No consumer has one event twice in one content, within the horizon, nor two rows with one number."""
        event, horizon = self.range.key, self.range.config.duplicates.horizon
        rows = self.range.notifications.select("consumer", *event, "sequence", "delivered_at", "batch", "event")
        keys = {"same": ["consumer", *event], "numbered": ["consumer", "sequence"]}
        if self.controls.several:
            rows = rows.withColumn("content", F.coalesce(F.to_json("event"), F.lit("")))
            keys["same"].append("content")
        rows, total = rows.drop("event"), rows.count()
        # Most keys are there once: a hash finds the few that may not be.
        hashes = {name: F.xxhash64(*columns, F.lit(name)) for name, columns in keys.items()}
        suspects = rows.select(F.explode(F.array(*hashes.values())).alias("key")).groupBy("key").count()
        suspects = F.broadcast(suspects.where("count > 1").select("key").localCheckpoint())
        near = {name: rows.withColumn("key", hashes[name]).join(suspects, "key", "left_semi") for name in keys}
        again = _again(near["same"], keys["same"], horizon)
        twice = near["numbered"].groupBy(*keys["numbered"]).agg(F.count(F.lit(1)).alias("times")).where("times > 1")
        yield found(
            "at_most_once", _count(total, "notifications"), total, again.unionByName(twice, allowMissingColumns=True)
        )

    def admitted_once(self) -> Iterator[Finding]:
        """No event was admitted twice within the horizon."""
        if self.range.config.journal == "off":
            yield Finding("admitted_once", UNKNOWN, _NO_JOURNAL)
            return
        rows = self.range.events.select(*self.range.key, "batch", F.col("admitted_at").alias("delivered_at"))
        again, total = _again(rows, self.range.key, self.range.config.duplicates.horizon), rows.count()
        yield found("admitted_once", _count(total, "events"), total, again)

    def only_published(self) -> Iterator[Finding]:
        """Every notification is of an admitted event, with its time, its place in the order, and its content."""
        if self.range.config.journal == "off":
            yield Finding("only_published", UNKNOWN, _NO_JOURNAL)
            return
        rows, whole = self.range.notifications, self.range.config.journal == "full" and not self.controls.several
        names = {"published_at": "e_time", "source": "e_source", "batch": "e_batch", "rank": "e_rank"}
        kept = [F.col(name).alias(alias) for name, alias in names.items()]
        columns = ["consumer", "publisher", "event_id", "batch", "sequence"]
        rows = rows.select(*columns, "published_at", "source", *([_text("text")] if whole else []))
        kept += [_text("e_text")] if whole else []
        joined = rows.join(self.range.events.select("publisher", "event_id", *kept), ["publisher", "event_id"], "left")
        # What a policy held back comes in a later batch than its event, with a place there.
        later = F.col("e_batch") < F.col("batch") if "delay" in self.controls.publishing else F.lit(False)
        place = F.col("batch") * (1 << RANK_BITS) + F.col("e_rank")
        here = (F.col("e_batch") == F.col("batch")) & (F.shiftright("sequence", VERSION_BITS) == place)
        fits = (here | later) & (F.col("published_at") == F.col("e_time")) & (F.col("source") == F.col("e_source"))
        if whole:
            fits &= F.col("text").isNull() | (F.col("text") == F.col("e_text"))
        # An id may be published again after the horizon, so one of its journal rows must fit.
        judged_rows = joined.select(*columns, F.coalesce(fits, F.lit(False)).alias("fits"))
        if self._published_again:
            judged_rows = judged_rows.groupBy(*columns).agg(F.max("fits").alias("fits"))
        total = rows.count()
        yield found("only_published", _count(total, "notifications"), total, judged_rows.where("NOT fits").drop("fits"))

    def publisher_order(self) -> Iterator[Finding]:
        """`sequence` grows with every batch, and within one each publisher's events keep their order."""
        ordinal = F.shiftright("sequence", RANK_BITS + VERSION_BITS)
        astray = self.range.notifications.where(ordinal != F.col("batch")).select("consumer", "batch", "sequence")
        if self.range.config.journal == "off":
            total = self.range.notifications.count()
            yield found("publisher_order", f"numbers only: {_NO_JOURNAL}", total, astray)
            return
        ranked = Window.partitionBy("batch", "publisher").orderBy("rank")
        time, id = F.lag("published_at").over(ranked), F.lag("event_id").over(ranked)
        # Ties are broken by the order column where there is one, else by id.
        tied = (time == F.col("published_at")) & (id > F.col("event_id")) & ~F.col("source").isin(*self._ordered)
        back = (time > F.col("published_at")) | tied | (F.lag("rank").over(ranked) == F.col("rank"))
        events = self.range.events.select("batch", "publisher", "event_id", "rank", "published_at", "source")
        backwards = events.withColumn("back", back).where("back").drop("back", "source")
        total = events.count()
        yield found(
            "publisher_order", _count(total, "events"), total, backwards.unionByName(astray, allowMissingColumns=True)
        )

    def as_expected(self) -> Iterator[Finding]:
        """Only of interest, only visible, in the right form; and nothing is missing."""
        why = self._why_not()
        if why or not self.range.finished:
            for name in (INTEREST, VISIBLE, LIVENESS):
                yield Finding(name, UNKNOWN if why else HOLDS, why or "there are no batches")
            return
        comparison = Comparison(self.range, self.controls, self.apply_mapping)
        yield from comparison.findings(comparison.pairs())

    def _why_not(self) -> str:
        config = self.range.config
        if config.journal != "full":
            return f"the journal does not keep events (journal: {config.journal})"
        if unknown := sorted({row["source"] for row in self.range.ledger.values()} - set(config.sources)):
            return f"source {', '.join(unknown)} is not in the configuration"
        if self.controls.remembering and self.range.options.first > 1:
            return "policies remember what came before the first batch that is looked at; check from the first on"
        now = datetime(2026, 1, 1, tzinfo=UTC)
        if self.controls.several and now.astimezone(self.range.tables.zone).utcoffset():
            return "scopes that change or choose are checked in UTC only; set spark.sql.session.timeZone"
        return ""

    @cached_property
    def _published_again(self) -> bool:
        """Whether one id is in the journal of several batches."""
        counts = self.range.events.groupBy(F.xxhash64("publisher", "event_id")).count()
        return not counts.where("count > 1").isEmpty()

    @property
    def _ordered(self) -> list[str]:
        return [name for name, source in self.range.config.sources.items() if source.order]


_NO_JOURNAL = "there is no journal (journal: off)"


def _count(number: int, of: str) -> str:
    return f"{number:,} {of}"


def _text(name: str) -> Column:
    """A hash of the event, so that little has to be moved; NULL where the payload is kept by reference."""
    return F.when(F.col("event").isNotNull(), F.xxhash64(F.to_json("event"))).alias(name)


def _again(rows: DataFrame, keys: list[str], horizon: timedelta) -> DataFrame:
    """Rows with a key that another has, which came at most the horizon before; in one batch if there is none."""
    before = F.lag("delivered_at").over(Window.partitionBy(*keys).orderBy("delivered_at"))
    near = F.col("delivered_at") - F.col("before") <= F.lit(horizon)
    named = [key for key in keys if key != "content"]
    batches = F.sort_array(F.collect_set("batch")).alias("batches")
    return rows.withColumn("before", before).where(near).groupBy(*named).agg(F.count(F.lit(1)).alias("again"), batches)
