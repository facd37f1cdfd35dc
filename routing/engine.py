"""The front door: one engine is one configuration on one set of tables.

Law: nothing is held in memory that another process could not see; what is remembered here is only a copy of tables at
known versions. One batch at a time is under way, over all sources, threads and processes of an engine.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from routing import inboxes, registry, views
from routing.acting import Acting, Refused, check_acting
from routing.beside import beside
from routing.config import Config, Source, load
from routing.crash import crash_point
from routing.delay import due
from routing.errors import Cancelled, ConfigError, nearest
from routing.identify import check_columns, source_columns
from routing.ledger import Ledger
from routing.maintain import Done, maintain
from routing.matching.attributes import variant_columns
from routing.model import Opening, Report
from routing.rejections import Rejections
from routing.scopes import registry as scopes
from routing.scopes.control import Control as ScopeControl
from routing.scopes.control import Scopes
from routing.seen import Seen
from routing.session import session
from routing.sink import write
from routing.snapshot import Programs, Snapshot, unknown_attributes
from routing.sources import RAW, Decoder, JsonText, Rows
from routing.subscriptions import Active, Control
from routing.tables import Tables
from schemas.delivery import (
    ADMITTED_AT,
    BATCH,
    BUCKET,
    CONSUMER,
    CONTENT_HASH,
    KEY_HASH,
    REASON,
    SEQUENCE,
)
from udfs.runs import Recall

if TYPE_CHECKING:
    from routing.checker.finding import Finding
    from routing.checker.range import Options
    from routing.running import Running

REGISTER = "register.sql"
SMALL = 20_000
"""A batch with fewer events and notifications than this is done by one task."""
FIRST = 1_000
"""The same for the first batch of a process, of which only the events can be counted."""
REQUEUED = ("malformed", "missing_id", "missing_publisher", "missing_time")
"""Dead letters that may have become events since, by a correction of the configuration."""


def open(
    spark: SparkSession | None = None,
    config: Config | Mapping[str, Any] | str | Path | None = None,
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_batch: Callable[[Report], None] = lambda report: None,
    accept_restored: bool = False,
) -> Engine:
    """An engine on a session (or a new one) and a configuration: a file, a mapping, or the defaults.

    `accept_restored`: go on, although somebody has set tables of the engine back to an older version.
    """
    checked = load(config)
    running = session(checked, existing=spark)
    return Engine(running, checked, clock=clock, on_batch=on_batch, accept_restored=accept_restored)


class Engine:
    """Subscribes, routes and reads. Made by `routing.open`."""

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        *,
        clock: Callable[[], datetime],
        on_batch: Callable[[Report], None],
        accept_restored: bool = False,
    ) -> None:
        self.spark, self.config, self.on_batch = spark, config, on_batch
        self.tables = Tables(spark, config)
        self.ledger = Ledger(self.tables, clock, accept_restored=accept_restored)
        self._control, self._scopes = Control(self.tables), ScopeControl(self.tables)
        self._acting = Acting(self.tables)
        self._programs, self._rejections = Programs(self.tables), Rejections(self.tables)
        self._seen = Seen(self.tables, self.tables.directory) if self.tables.directory else None
        self._sizes: dict[str, int] = {}
        self._reported: object = None
        self._registered: dict[str, StructType] | None = None
        self._turn = threading.Lock()
        self._create()

    # — subscriptions —

    def subscribe(
        self, consumer: str, filter: str, *, id: str | None = None, expires_at: datetime | None = None
    ) -> str:
        """Subscribe a consumer; returns the subscription's id. The next batch sees it."""
        check_acting(self.tables, [consumer])
        return registry.subscribe(self.tables, consumer, filter, id, expires_at)

    def subscribe_many(self, rows: DataFrame) -> None:
        """Insert many subscriptions (consumer, filter, and any other column of the table) in one commit."""
        if CONSUMER in rows.columns and self.tables.version("grants"):
            check_acting(self.tables, [row[CONSUMER] for row in rows.select(CONSUMER).distinct().collect()])
        registry.subscribe_many(self.tables, rows)

    def unsubscribe(self, consumer: str, id: str) -> int:
        """End a subscription; returns how many ended, 1 or 0. From the next batch on it matches nothing."""
        check_acting(self.tables, [consumer])
        return registry.unsubscribe(self.tables, consumer, id)

    # — scopes —

    def create_scope(
        self,
        scope: str,
        *,
        delivery: str | None = None,
        publishing: str | None = None,
        input_filter: str | None = None,
        input_mapping: str | None = None,
        output_filter: str | None = None,
        output_mapping: str | None = None,
    ) -> None:
        """Create a scope, or change one: its policies, and the interface that holds on every edge to a superscope."""
        interface = {"input_filter": input_filter, "input_mapping": input_mapping}
        interface |= {"output_filter": output_filter, "output_mapping": output_mapping}
        scopes.create_scope(self.tables, scope, {"delivery": delivery, "publishing": publishing, **interface})

    def drop_scope(self, scope: str) -> int:
        """Drop a scope and its edges; returns how many were dropped, 1 or 0."""
        return scopes.drop_scope(self.tables, scope)

    def join(
        self,
        child: str,
        parent: str,
        *,
        up_filter: str | None = None,
        up_mapping: str | None = None,
        down_filter: str | None = None,
        down_mapping: str | None = None,
    ) -> None:
        """Put a component or a scope into a scope, with what happens to events that cross the edge."""
        gates = {"up_filter": up_filter, "up_mapping": up_mapping}
        scopes.join(self.tables, child, parent, {**gates, "down_filter": down_filter, "down_mapping": down_mapping})

    def leave(self, child: str, parent: str) -> int:
        """Take a component or a scope out of a scope; returns how many edges ended, 1 or 0."""
        return scopes.leave(self.tables, child, parent)

    # — events —

    def route(self, batch: DataFrame, *, key: str | None = None, source: str | None = None) -> Report:
        """Route one batch of typed rows. The same key again is a retry of the same batch; no key is a new batch."""
        name = source or self._only_source()
        described = self._source(name)
        return self.process(
            name, Rows(batch, described), key=key or f"{name}/route/{uuid.uuid4()}", known_new=key is None
        )

    def start(self, streams: Mapping[str, DataFrame] | None = None) -> Running:
        """Start one streaming query per source, or on the streaming DataFrames given by source name."""
        from routing.running import Running

        return Running(self, streams or {})

    def process(
        self,
        name: str,
        decoder: Decoder,
        *,
        key: str,
        offsets: str | None = None,
        known_new: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Report:
        """One batch, from the ledger's opening to its closing, unless it is cancelled before its turn comes."""
        with self.turn():
            if cancelled():
                raise Cancelled("the stream is stopping; the batch is done at the next start")
            started = perf_counter()
            crash_point("read")
            opening = None if known_new else self.ledger.find(key)
            if opening is None:
                schema = decoder.observe(self.schema(name))
                check_columns(schema, self._source(name))
                self._register({**self.schemas(), name: schema})
                opening = self.ledger.open(key, name, schema.json(), offsets)
            with self._writing(opening) as pinned:
                snapshot = self._snapshot(opening)
                rows = decoder.rows(snapshot.schema)
                counts = write(self.tables, rows, replace(snapshot, small=self._is_small(name, rows)), pinned)
            report = Report(opening.ordinal, name, counts, perf_counter() - started, opening.retry)
            self.ledger.close(opening, report)
            self._sizes[name] = max(counts["events"], counts["notifications"])
            if not counts["notifications"] and self.tables.version("policy_state") > opening.outputs["policy_state"]:
                self.ledger.flush()  # Delta makes no commit of no rows, and what policies remember must count
            crash_point("closed")
        self.on_batch(report)
        return report

    def close(self) -> None:
        """Write what the ledger still holds. The session stays open: it may be somebody else's."""
        with self.turn():
            self.ledger.flush()

    def requeue(self, source: str | None = None, *, reasons: Collection[str] = REQUEUED) -> Report | None:
        """Route dead letters again, as one batch, and take them from the table; None if there are none.

        What was delivered since is refused as a duplicate, so nothing comes twice, whatever happens on the way.
        """
        name = source or self._only_source()
        self.ledger.refresh()
        # Of a batch that has not finished dead letters may still come: they are for another time.
        there = (F.col(BATCH) <= self.ledger.last) & ~F.col(BATCH).isin(*self.ledger.unfinished)
        mine = (F.col("source") == name) & F.col(REASON).isin(*reasons) & F.col(RAW).isNotNull() & there
        letters = self.tables.read("dead_letters").where(mine)
        if letters.isEmpty():
            return None
        decoder = JsonText(letters.select(F.col(RAW).alias("value")), self._source(name))
        report = self.process(name, decoder, key=f"{name}/requeue/{uuid.uuid4()}", known_new=True)
        self.tables.delete("dead_letters", mine)
        self.close()
        return report

    def maintain(self) -> Iterator[Done]:
        """Expire what is older than the retention, compact and vacuum, table by table. Safe while streams run."""
        return maintain(self.tables, self.ledger, self.ledger.now())

    # — reading —

    def notifications(self, consumer: str | None = None, *, source: str | None = None) -> DataFrame:
        """The notifications, of one consumer and with one source's typed columns if named, in the order delivered."""
        if source is None:
            rows = self.tables.read("notifications")
        else:
            self._source(source)
            self.register()
            rows = self.spark.read.table(self.tables.name(f"notifications_{source}"))
        if consumer is None:
            return rows.orderBy(CONSUMER, SEQUENCE)
        if BUCKET in rows.columns:
            rows = rows.where(
                F.col(BUCKET) == F.pmod(F.xxhash64(F.lit(consumer)), F.lit(self.config.notifications.buckets))
            )
        return rows.where(F.col(CONSUMER) == consumer).orderBy(SEQUENCE)

    def create_view(self, consumer: str, name: str | None = None) -> str:
        """Make a view that shows only this consumer's notifications; returns its name, `inbox_<consumer>` unless given.

        Other sessions know it by `register.sql`. In a catalog with access control grant reading on it, not the table.
        """
        with self.tables.lock("_create"):
            chosen = inboxes.add(self.tables, consumer, name)
            self.spark.sql(inboxes.statement(self.tables, chosen, consumer))
            self._registered = None
            self._register(self.schemas())
        return chosen

    def check(self, options: Options | None = None) -> Iterator[Finding]:
        """Prove or refute, from the tables alone, what docs/guarantees.md promises; one property after the other."""
        from routing.check import check

        self.close()
        return check(self.tables, self.config, options)

    def register(self) -> None:
        """Make the tables' views as the newest batches, of any process, need them."""
        self.ledger.refresh()
        self._register(self.schemas())

    def schema(self, source: str) -> StructType | None:
        """A source's columns: as configured, then as in its last batch; None if neither is known."""
        self.ledger.refresh()
        configured, last = self._configured(self.config.sources.get(source)), self.schemas().get(source)
        if configured is None or last is None:
            return configured or last
        return StructType([*configured, *(field for field in last if field.name not in configured.names)])

    def schemas(self) -> dict[str, StructType]:
        """The columns of every source that has had a batch."""
        return {name: StructType.fromJson(json.loads(text)) for name, text in self.ledger.schemas.items()}

    # — parts —

    def _snapshot(self, opening: Opening) -> Snapshot:
        refused = self._acting.refused(opening.control)
        active = self._control.active(opening.control, opening.clock, refused)
        schema = StructType.fromJson(json.loads(opening.schema))
        scoped = self._scopes.scopes(opening.control)
        self._report_problems(active, scoped, refused, opening.clock)
        source, journal, memory = self._source(opening.source), self._journal(opening), self._memory(opening)
        held = None
        if memory is not None:
            now = self._remembered(self.ledger.unfinished)
            held = due(memory, now, opening, schema, source_columns(source))
        return Snapshot(
            opening,
            source,
            schema,
            self.config,
            active,
            self._programs,
            journal,
            partial(self._recall, opening),
            scoped,
            memory,
            held,
            opening.retry and opening.ordinal not in self.ledger.unfinished,
        )

    def _is_small(self, source: str, rows: DataFrame) -> bool:
        """Whether the batch is small: as the source's last one was, or by a look at the first of this process."""
        if source not in self._sizes:  # how many notifications there will be is not known: be careful
            self._sizes[source] = 0 if rows.limit(FIRST + 1).count() <= FIRST else SMALL + 1
        return self._sizes[source] <= SMALL

    def _memory(self, opening: Opening) -> DataFrame | None:
        """What policies remember from earlier batches, as it was when this one was opened; None if there is nothing."""
        version = opening.outputs.get("policy_state", 0)
        if not version:
            return None
        return self._remembered(opening.unfinished, version).where(F.col(BATCH) < opening.ordinal)

    def _remembered(self, unfinished: frozenset[int], version: int | None = None) -> DataFrame:
        """What policies remember. What a batch remembers counts from when its notifications are there."""
        return self.tables.read("policy_state", version).where(~F.col(BATCH).isin(*unfinished))

    def _without(self, opening: Opening) -> frozenset[int]:
        """The batches whose events may come again: this one, and what an unfinished one only wrote down.

        If that comes again under another key, it must still be delivered. All that other batches delivered counts,
        also after this one was pinned, should it be a retry.
        """
        return self.ledger.unfinished | {opening.ordinal}

    def _recall(self, opening: Opening) -> Recall | None:
        """What tells which keys came before, where a memory is made for them."""
        horizon = self.config.duplicates.horizon
        return self._seen.recall(opening.clock, horizon, self._without(opening)) if self._seen and horizon else None

    def _journal(self, opening: Opening) -> DataFrame | None:
        """The events that a new one may repeat, where no memory is made for them; None if there cannot be any."""
        horizon = self.config.duplicates.horizon
        if self._seen or not horizon or self.tables.version("events") == 0:
            return None
        theirs = ~F.col(BATCH).isin(*self._without(opening))
        recent = F.col(ADMITTED_AT) >= F.lit(opening.clock - horizon)
        return self.tables.read("events").where(theirs & recent).select(KEY_HASH, CONTENT_HASH)

    def _report_problems(self, active: Active, scoped: Scopes | None, refused: Refused, clock: datetime) -> None:
        """Bring `rejections` up to date, if subscriptions, scopes or sources have changed."""
        schemas = self.schemas()
        state = (active.key, scoped.key if scoped else None, tuple(sorted(self.ledger.schemas.items())))
        if state == self._reported:
            return
        hidden = [
            (schema, source_columns(self._source(name)))
            for name, schema in schemas.items()
            if name in self.config.sources
        ]
        known = set[str]().union(*(views.attribute_names([schema]) - without for schema, without in hidden))
        anything = [name for schema, _ in hidden for name in variant_columns(schema, F.lit(None))]
        warnings = unknown_attributes(active, known, anything)
        wrong = [*active.problems, *refused.problems, *(scoped.problems if scoped else ())]
        wrong += scoped.refusals(active.has_consumer) if scoped else []
        self._rejections.report([*wrong, *warnings], clock)
        self._reported = state

    def _source(self, name: str) -> Source:
        if name not in self.config.sources:
            close = nearest(name, self.config.sources)
            raise ConfigError(
                f"there is no source '{name}' in the configuration." + (f" Did you mean '{close}'?" if close else "")
            )
        return self.config.sources[name]

    def _only_source(self) -> str:
        if len(self.config.sources) != 1:
            raise ConfigError(
                f"say which source the batch is of: source=… (there are: {', '.join(self.config.sources) or 'none'})"
            )
        return next(iter(self.config.sources))

    def _configured(self, source: Source | None) -> StructType | None:
        return cast(StructType, StructType.fromDDL(source.ddl)) if source and source.ddl else None

    def _create(self) -> None:
        """Create what is missing, in the catalog and on disk, and let other processes know."""
        with self.tables.lock("_create"):
            self.tables.create()
            self.register()

    def _register(self, schemas: dict[str, StructType]) -> None:
        """Make the views in this session, and write the SQL by which any other session does."""
        if schemas == self._registered:
            return
        made = views.statements(self.tables, schemas)
        made += [inboxes.statement(self.tables, *view) for view in inboxes.known(self.tables).items()]
        for statement in made:
            self.spark.sql(statement)
        if self.tables.directory is not None:
            script = "".join(f"{statement};\n" for statement in (*self.tables.statements(), *made))
            inboxes.replace(self.tables, REGISTER, script)
        self._registered = dict(schemas)

    @contextmanager
    def _writing(self, opening: Opening) -> Iterator[Callable[[], None]]:
        """Write a new opening while the batch is computed; what is given waits for it, before anything is written."""
        if opening.retry:
            yield lambda: None
            return
        with beside(self.spark, lambda: self.ledger.write(opening)) as written:
            yield written

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the engine: no other batch is under way, in this process or another."""
        with self._turn, self.tables.lock("_turn"):
            yield
