"""Many random systems at once: packed into one engine's tables, batch by batch, against the reference of each.

Names of different systems differ, and nobody is in `world`, so the systems do not meet. They share the batches and
their clocks: that keeps Spark's work small and the systems many.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routing.checker import Event, Reference, System
from routing.checker.content import sameness
from routing.checker.system import WORLD
from routing.engine import Engine
from routing.mappings import apply, parse_mapping
from schemas.control import COMPONENTS, GRANTS, SCOPE_EDGES, SCOPES, SUBSCRIPTIONS
from tests.systems import Run, random_system

SOURCE = {
    "format": "json",
    "path": "unused",
    "id": "id",
    "publisher": "publisher",
    "time": "at",
    "schema": "id STRING, publisher STRING, at TIMESTAMP, a BIGINT, b BIGINT, price BIGINT, tag STRING, zero BIGINT",
}
ATTRIBUTES = ("a", "b", "price", "tag", "zero")
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def moment(seconds: float) -> datetime:
    """Seconds of the reference's clock as a time; the hour begins with its zero."""
    return datetime.fromtimestamp(seconds, UTC)


class Packed:
    """Runs of systems on one engine, whose clock it holds."""

    def __init__(self, make: Callable[..., Engine], runs: Iterable[Run], **config: Any) -> None:
        self.runs = list(runs)
        self.now = 1000.0
        self.engine = make(clock=lambda: moment(self.now), sources={"events": SOURCE}, **config)
        self.delivered: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
        """What the last batch has delivered, by publisher and id."""
        self.references = [Reference(_apply, parse_mapping) for _ in self.runs]

    def step(self, number: int, clock: float) -> list[str]:
        """One batch of all systems that have so many; what differs from the references."""
        self.now = clock
        systems = [run.systems[min(number, len(run.systems) - 1)] for run in self.runs]
        events = [run.batches[number][0] if number < len(run.batches) else [] for run in self.runs]
        self._write(systems)
        report = self.engine.route(self._events(events), key=f"batch {number}")
        got, dead = self._delivered(report.ordinal), self._dead(report.ordinal)
        self.delivered = dict(got)
        differences = []
        for place, (system, some) in enumerate(zip(systems, events, strict=True)):
            outcome = self.references[place].batch(system, some, clock)
            ids = {(event.publisher, event.id) for event in some}
            wanted = Counter(
                (n.consumer, n.publisher, n.event_id, sameness(n.content), n.path, n.subscription_ids, n.version)
                for n in outcome.notifications
            )
            ids |= {row[1:3] for row in wanted} | {(one.publisher, one.event_id) for one in outcome.dead}
            found = Counter(row for key in ids for row in got.pop(key, ()))
            stopped = sorted((d.publisher, d.event_id, d.kind) for d in outcome.dead)
            seen = sorted((*key, kind) for key in ids for kind in dead.pop(key, ()))
            if found != wanted:
                differences.append(
                    f"system {place} batch {number}: missing {wanted - found}, unexpected {found - wanted}"
                )
            if stopped != seen:
                differences.append(f"system {place} batch {number}: dead {seen}, wanted {stopped}")
        differences += [f"batch {number}: unasked {key}: {rows}" for key, rows in (*got.items(), *dead.items())]
        return differences

    def _write(self, systems: list[System]) -> None:
        rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in _TABLES}
        for system in systems:
            rows["scopes"] += [{**asdict(scope), "scope": scope.name} for scope in system.scopes]
            newest = {edge.key: edge for edge in system.edges}
            rows["scope_edges"] += [{**asdict(edge), "created_at": moment(edge.created_at)} for edge in newest.values()]
            rows["components"] += [
                {"component": component.name, "properties": component.properties} for component in system.components
            ]
            rows["grants"] += [asdict(grant) for grant in system.grants]
            rows["subscriptions"] += [asdict(subscription) for subscription in system.subscriptions]
        for table in _TABLES:
            names = table.columns.names
            tuples = [tuple(row.get(name, _DEFAULTS.get(name)) for name in names) for row in rows[table.name]]
            made = self.engine.spark.createDataFrame(tuples, table.columns)
            self.engine.tables.overwrite(table.name, made.coalesce(1))

    def _events(self, events: list[list[Event]]) -> DataFrame:
        rows = [
            (event.id, event.publisher, _EPOCH + timedelta(seconds=place), *(map(event.attributes.get, ATTRIBUTES)))
            for some in events
            for place, event in enumerate(some)
        ]
        return self.engine.spark.createDataFrame(rows, SOURCE["schema"])

    def _delivered(self, ordinal: int) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
        rows = self.engine.tables.read("notifications").where(F.col("batch") == ordinal)
        found: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
        for row in rows.withColumn("event", F.to_json("event")).toArrow().to_pylist():
            content = json.loads(row["event"])
            kept = {name: value for name, value in content.items() if name not in ("id", "publisher", "at")}
            key = (row["publisher"], row["event_id"])
            ids, version = tuple(row["subscription_ids"]), row["sequence"] % 64 + 1
            found.setdefault(key, []).append((row["consumer"], *key, sameness(kept), tuple(row["path"]), ids, version))
        return found

    def _dead(self, ordinal: int) -> dict[tuple[str, str], list[str]]:
        rows = self.engine.tables.read("dead_letters").where(F.col("batch") == ordinal)
        found: dict[tuple[str, str], list[str]] = {}
        for row in rows.toArrow().to_pylist():
            found.setdefault((row["publisher"], row["event_id"]), []).append(row["reason"])
        return found


_TABLES = (SCOPES, SCOPE_EDGES, COMPONENTS, GRANTS, SUBSCRIPTIONS)
_DEFAULTS = {"suspended": False, "created_at": moment(0), "created_by": ""}


def _apply(text: str, content: dict[str, Any]) -> dict[str, Any]:
    return apply(parse_mapping(text), content)


def renamed(system: System, prefix: str) -> System:
    """The system with other names, so that it can be packed."""
    return replace(
        system,
        scopes=tuple(replace(scope, name=prefix + scope.name) for scope in system.scopes),
        edges=tuple(replace(edge, child=prefix + edge.child, parent=prefix + edge.parent) for edge in system.edges),
        components=tuple(replace(one, name=prefix + one.name) for one in system.components),
        grants=tuple(
            replace(grant, principal=prefix + grant.principal, object=prefix + grant.object) for grant in system.grants
        ),
        subscriptions=tuple(replace(one, consumer=prefix + one.consumer) for one in system.subscriptions),
    )


def random_runs(first: int, count: int, **options: bool) -> list[Run]:
    """So many random systems, each with its own names."""
    return [random_system(random.Random(seed), f"p{seed}-", **options) for seed in range(first, first + count)]


def changed(run: Run, change: Callable[[System], System]) -> Run:
    """The run with each of its systems changed."""
    return Run(change(run.system), run.batches, [change(edit) for edit in run.edits])


def isolated(system: System) -> System:
    """The system in which whoever is in no scope is alone, and `world` is nothing special, and not there."""
    return replace(
        system,
        scopes=tuple(scope for scope in system.scopes if scope.name != WORLD),
        edges=tuple(edge for edge in system.edges if edge.parent != WORLD),
        grants=tuple(grant for grant in system.grants if grant.object != WORLD),
        unscoped="isolated",
    )


def with_few_versions(system: System) -> System:
    """The system in which an event may have two contents."""
    return replace(system, versions=2)
