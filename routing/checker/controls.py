"""The control tables as each batch saw them: subscriptions through time, and every state of the scopes.

Law: a state of the scopes is the versions of their tables that a batch pinned; batches with the same versions share it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import StructType, VariantType

from routing.checker.expected import Batch, Work
from routing.checker.graph import Graph, ParseMapping, accepted
from routing.checker.interest import Interest
from routing.checker.past import past
from routing.checker.policies import parse_publishing
from routing.checker.sight import Sight, is_plain
from routing.checker.system import Component, Edge, Grant, Scope, System
from routing.checker.tree import Types

if TYPE_CHECKING:
    from routing.checker.range import Range

_REMEMBERING = {"rate_limit", "throttle", "delay"}
_TABLES: dict[str, tuple[Any, ...]] = {
    "scopes": ("scope", "delivery", "publishing", "input_filter", "input_mapping", "output_filter", "output_mapping"),
    "scope_edges": ("child", "parent", "up_filter", "up_mapping", "down_filter", "down_mapping", "created_by"),
    "components": ("component", "properties"),
    "grants": ("principal", "action", "object", "priority", "allowed"),
}


@dataclass(frozen=True)
class Controls:
    """What the batches of a range saw of the control tables."""

    range: Range
    parse_mapping: ParseMapping

    @cached_property
    def states(self) -> dict[tuple[int, ...], int]:
        """The number of each state of the scopes, by the versions of their tables."""
        return {key: number for number, key in enumerate(sorted(set(map(_pinned, self.range.ledger.values()))))}

    @cached_property
    def graphs(self) -> dict[int, Graph]:
        """The graph of each state, without subscriptions."""
        pasts = {}
        for at, (name, columns) in enumerate(_TABLES.items()):
            micros = (F.unix_micros("created_at").alias("created_at"),) if name == "scope_edges" else ()
            pasts[name] = past(self.range.tables, name, (*columns, *micros), {key[at] for key in self.states})
        scoping = self.range.config.scopes
        found = {}
        for key, number in self.states.items():
            rows = {name: pasts[name].at(version) for name, version in zip(_TABLES, key, strict=True)}
            system = _system(rows, scoping.unscoped, scoping.versions)
            found[number], _ = accepted(system, self.parse_mapping)
        return found

    @cached_property
    def plain(self) -> dict[int, bool]:
        """Whether in a state nothing is changed, stopped or chosen on the way."""
        return {number: is_plain(graph) for number, graph in self.graphs.items()}

    @property
    def several(self) -> bool:
        """Whether an event may have had several contents."""
        return not all(self.plain.values())

    @cached_property
    def publishing(self) -> set[str]:
        """The kinds of publishing policies that some batch saw."""
        texts = {
            scope.publishing
            for graph in self.graphs.values()
            for name, scope in graph.scopes.items()
            if name not in graph.closed
        }
        return {parse_publishing(text).name for text in texts}

    @property
    def remembering(self) -> bool:
        """Whether some policy remembers what earlier batches did."""
        return bool(self.publishing & _REMEMBERING)

    @cached_property
    def work(self) -> Work:
        """All that the expectation depends on, beside the events."""
        tables, config, ledger = self.range.tables, self.range.config, self.range.ledger
        schemas = {text: number for number, text in enumerate(sorted({row["schema"] for row in ledger.values()}))}
        batches = {}
        for ordinal in self.range.finished:
            row = ledger[ordinal]
            seen, clock = dict(row["control_versions"])["subscriptions"], row["clock"].astimezone(UTC)
            state, schema = self.states[_pinned(row)], schemas[row["schema"]]
            batches[ordinal] = Batch(ordinal, row["source"], clock, seen, state, schema)
        hashed = F.md5(F.concat(F.length("consumer").cast("string"), F.lit(":"), "consumer", "filter"))
        id, expires = F.coalesce("id", hashed).alias("id"), F.unix_micros("expires_at").alias("expires")
        columns = (F.col("consumer"), F.col("filter"), id, expires, F.col("created_by").alias("writer"))
        versions = {batch.subscriptions for batch in batches.values()}
        interest = Interest.of(past(tables, "subscriptions", columns, versions))
        hidden = {
            name: frozenset(column for column in (source.id, source.publisher, source.time) if column)
            for name, source in config.sources.items()
        }
        return Work(
            batches,
            interest,
            systems={number: graph.system for number, graph in self.graphs.items()},
            refused={number: interest.refused(graph.system) for number, graph in self.graphs.items()},
            sights={number: Sight.of(graph) for number, graph in self.graphs.items() if self.plain[number]},
            schemas={number: _types(StructType.fromJson(json.loads(text))) for text, number in schemas.items()},
            hidden=hidden,
            zone=tables.zone,
            limits=config.filters.limits(),
        )


def _pinned(row: dict[str, Any]) -> tuple[int, ...]:
    versions = dict(row["control_versions"])
    return tuple(versions[name] for name in _TABLES)


def _types(type: Any) -> Types:
    def inside(type: Any) -> Any:
        return _types(type) if isinstance(type, StructType) else ... if isinstance(type, VariantType) else None

    return {field.name: inside(field.dataType) for field in type}


def _system(rows: dict[str, list[dict[str, Any]]], unscoped: str, versions: int) -> System:
    """The rows as the reference takes them; of several with one key the newest counts."""
    scopes = {row["scope"]: row for row in rows["scopes"]}
    edges = {(row["child"], row["parent"]): row for row in rows["scope_edges"]}
    components = {row["component"]: row for row in rows["components"]}
    return System(
        tuple(map(_scope, scopes.values())),
        tuple(map(_edge, edges.values())),
        tuple(Component(row["component"], dict(row["properties"] or ())) for row in components.values()),
        tuple(map(_grant, rows["grants"])),
        unscoped=unscoped,
        versions=versions,
    )


def _scope(row: dict[str, Any]) -> Scope:
    policies = (row["delivery"] or "all", row["publishing"] or "forward")
    interface = (row["input_filter"], row["input_mapping"], row["output_filter"], row["output_mapping"])
    return Scope(row["scope"], *policies, *interface)


def _edge(row: dict[str, Any]) -> Edge:
    gates = (row["up_filter"], row["up_mapping"], row["down_filter"], row["down_mapping"])
    return Edge(row["child"], row["parent"], *gates, row["created_at"] or 0, row["created_by"] or "")


def _grant(row: dict[str, Any]) -> Grant:
    """A NULL opens no lock: `allowed` counts only if it is TRUE, and of `priority` NULL is 0."""
    return Grant(row["principal"], row["action"], row["object"], row["priority"] or 0, row["allowed"] is True)
