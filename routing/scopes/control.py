"""The scopes of one control version, as a batch uses them: where events begin, who is alike, what can be crossed.

Law: a function of the tables' versions. Whoever no table names is like everyone else: what is kept here grows with the
names in the scope tables, not with publishers and consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routing.filters.ast import attributes
from routing.model import Problem
from routing.scopes.boundaries import Boundaries, Crossing
from routing.scopes.graph import WORLD, Graph, accept
from routing.scopes.members import NOBODY, ON_DRIVER, Members, reduced
from routing.scopes.security import ANYONE, Grants, grants
from routing.scopes.trails import Way, Ways
from routing.tables import Tables
from udfs.chart import Chart, Party

TABLES = ("scopes", "scope_edges", "components", "grants")
_KEYS = {
    "scopes": ("scope",),
    "scope_edges": ("child", "parent"),
    "components": ("component",),
    "grants": ("principal", "action", "object", "priority", "allowed"),
}


@dataclass(frozen=True, eq=False)
class Scopes:
    """The graph, what is wrong with its rows, the properties of components, and those for whom others stand in."""

    key: tuple[int, ...]
    graph: Graph
    problems: tuple[Problem, ...]
    properties: Mapping[str, Mapping[str, str]]
    members: Members = NOBODY

    @cached_property
    def ways(self) -> Ways:
        """The trails that events may take."""
        return Ways(Boundaries(self.graph))

    @property
    def crossings(self) -> tuple[Crossing, ...]:
        """All that can be crossed, in both directions."""
        return self.ways.boundaries.crossings

    @cached_property
    def named(self) -> tuple[str, ...]:
        """The parties that may differ from everyone else."""
        principals = {name for some in self.graph.grants.verdicts.values() for name in some}
        return tuple(sorted({*self.graph.parents, *self.graph.scopes, *self.graph.grants.groups, *principals}))

    @cached_property
    def starts(self) -> Parties:
        """Where the events of each publisher begin."""
        return Parties.of(self, "publish")

    @cached_property
    def consumers(self) -> Parties:
        """Which consumers are alike."""
        return Parties.of(self, "subscribe")

    @cached_property
    def begin(self) -> tuple[Way, ...]:
        """The way of each party's events, at first."""
        return tuple(map(self.ways.start, self.starts.parties))

    @cached_property
    def owned(self) -> frozenset[int]:
        """The parties that are in no region: nobody but the publisher gets their events."""
        return frozenset(number for number, way in enumerate(self.begin) if not way.trail.direct)

    @cached_property
    def rising(self) -> frozenset[int]:
        """The parties whose events may cross something."""
        return frozenset(number for number, way in enumerate(self.begin) if self.reaches(way))

    def reaches(self, way: Way) -> bool:
        """Whether what came this way may cross something."""
        return bool(
            way.trail.carries & self._held or self.ways.boundaries.places.roots(way.trail.direct) & self._regions
        )

    @cached_property
    def _held(self) -> frozenset[str]:
        return frozenset().union(*(crossing.holds for crossing in self.crossings))

    @cached_property
    def _regions(self) -> int:
        """The roots from which something can be crossed downwards."""
        places = self.ways.boundaries.places
        return reduce(or_, (places.outlook(crossing.region) for crossing in self.crossings), 0)

    @cached_property
    def mapped(self) -> frozenset[str]:
        """The attributes that some mapping sets or drops."""
        mappings = (gate.mapping for crossing in self.crossings for gate in crossing.gates if gate.mapping)
        return frozenset(assignment.attribute for mapping in mappings for assignment in mapping.assignments)

    @cached_property
    def filtered(self) -> frozenset[str]:
        """The attributes that some crossing's filter names."""
        return frozenset(name for crossing in self.crossings for name in attributes(crossing.admits))

    def above(self, scope: str) -> frozenset[str]:
        """The scopes above a scope, over whatever edges."""
        found, waiting = set[str](), [scope]
        while waiting:
            fresh = {edge.parent for edge in self.graph.up(waiting.pop())} - found
            found |= fresh
            waiting += fresh
        return frozenset(found)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """A number for each scope, superscopes first."""
        return {scope: number for number, scope in enumerate(self.graph.ordered)}

    def refusals(self, subscribes: Callable[[str], bool]) -> list[Problem]:
        """A warning for each consumer and scope above it in which it may not subscribe; of those that tables name."""
        guarded, grants = self.ways.guarded["subscribe"], self.graph.grants
        found = []
        for name in self.named if guarded else ():
            refusing = {s for s in guarded & self.above(name) if not grants.may(name, "subscribe", s)}
            alike = [name, *self.members.behind.get(name, ())] if refusing else []
            for one in filter(subscribes, alike):
                reason = "'{}' may not subscribe in '{}': nothing reaches it that turns there or comes down through it"
                found += [Problem("warning", "grants", one, s, "", reason.format(one, s)) for s in sorted(refusing)]
        return found

    def chart(self) -> Chart:
        """For the workers: who sees what was published where."""
        held = [(party, self.ways.held(party)) for party in self.consumers.parties]
        return Chart(self.ways.boundaries.places, held, [way.trail for way in self.begin])

    def crossing_chart(self) -> Chart:
        """For the workers: which crossings what was published where may reach."""
        held = [(Party(crossing.region, under=crossing.region), crossing.holds) for crossing in self.crossings]
        return Chart(self.ways.boundaries.places, held, [way.trail for way in self.begin])


@dataclass(frozen=True, eq=False)
class Parties:
    """The distinct parties, the number of each name that may differ, and that of everyone else."""

    parties: tuple[Party, ...]
    names: pa.StringArray
    numbers: NDArray[np.int32]
    other: int

    @classmethod
    def of(cls, scopes: Scopes, action: str) -> Parties:
        """The parties as publishers or as subscribers."""
        known: dict[Party, int] = {}
        other = known.setdefault(scopes.ways.party(ANYONE, action), 0)
        named = [known.setdefault(scopes.ways.party(name, action), len(known)) for name in scopes.named]
        names, numbers = pa.array(scopes.named, pa.string()), np.array(named, np.int32)
        members = scopes.members
        behind = pc.index_in(members.stand_ins, value_set=names)
        assert not behind.null_count, "somebody stands in for others and is in no scope"
        names = pa.concat_arrays([names, members.names])
        numbers = np.concatenate([numbers, numbers[behind.to_numpy()]]) if len(behind) else numbers
        differs = numbers != other
        return cls(tuple(known), names.filter(pa.array(differs)), numbers[differs], other)

    def of_names(self, names: pa.StringArray) -> NDArray[np.int32]:
        """The number of each name's party."""
        found = pc.index_in(names, value_set=self.names).fill_null(len(self.names)).to_numpy(zero_copy_only=False)
        numbers: NDArray[np.int32] = np.append(self.numbers, np.int32(self.other))[found]
        return numbers


Row: TypeAlias = dict[str, Any]


class Control:
    """Follows the scope tables from version to version."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._key: tuple[int, ...] = ()
        self._last: Scopes | None = None

    def scopes(self, versions: Mapping[str, int]) -> Scopes | None:
        """The scopes at these versions; None while there are none, and everybody is in `world`."""
        isolated = self._tables.config.scopes.unscoped == "isolated"
        key = tuple(versions[table] for table in TABLES)
        if not isolated and not any(versions[table] for table in ("scopes", "scope_edges", "grants")):
            return None
        if self._key != key:
            scopes, components, granted = (
                rows(self._tables, table, versions[table]) for table in ("scopes", "components", "grants")
            )
            granted = [row for row in granted if row["action"] != "act_for"]  # that is not about scopes
            edges, members = self._edges(versions["scope_edges"], scopes, grants(granted, components))
            found = None
            if scopes or edges or granted or isolated:
                graph, problems = graph_of(self._tables, scopes, edges, components, granted)
                properties = {row["component"]: row["properties"] or {} for row in components}
                found = Scopes(key, graph, tuple(problems), properties, members)
            self._key, self._last = key, found
        return self._last

    def _edges(self, version: int, scopes: list[Row], granted: Grants) -> tuple[list[Row], Members]:
        """The edges that the driver looks at, and the components for whom others among them stand in."""
        if version and self._tables.read("scope_edges", version).count() > ON_DRIVER:  # a look at the log
            isolated = self._tables.config.scopes.unscoped == "isolated"
            names = {str(row["scope"]) for row in scopes} | (set() if isolated else {WORLD})
            choosing = {str(row["scope"]) for row in scopes if row["delivery"] not in (None, "all")}
            every = newest(self._tables, "scope_edges", version)
            edges, members = reduced(every, names, choosing, granted)
            return edges.toArrow().to_pylist(), members
        return rows(self._tables, "scope_edges", version), NOBODY


def graph_of(
    tables: Tables, scopes: list[Row], edges: list[Row], components: list[Row], granted: list[Row]
) -> tuple[Graph, list[Problem]]:
    """The graph of these rows, under this engine's configuration, and what is wrong with them."""
    isolated = tables.config.scopes.unscoped == "isolated"
    limits, zone = tables.config.filters.limits(), tables.zone
    return accept(scopes, edges, grants(granted, components), isolated=isolated, limits=limits, zone=zone)


def rows(tables: Tables, table: str, version: int | None = None) -> list[Row]:
    """The rows of a control table; of those with one key the newest."""
    if version == 0:
        return []
    age = ("row_commit_version", "row_id")
    found = tables.read(table, version).select("*", *(f"_metadata.{name}" for name in age)).toArrow()
    last: dict[object, Row] = {}
    for row in found.sort_by([(name, "ascending") for name in age]).to_pylist(maps_as_pydicts="lossy"):
        last[tuple(row[name] for name in _KEYS[table])] = row
    return list(last.values())


def newest(tables: Tables, table: str, version: int) -> DataFrame:
    """The same, by Spark."""
    age = F.struct("_metadata.row_commit_version", "_metadata.row_id").alias("age")
    found = tables.read(table, version)
    columns = [name for name in found.columns if name not in _KEYS[table]]
    last = F.max_by(F.struct(*columns), "age").alias("last")
    return found.select("*", age).groupBy(*_KEYS[table]).agg(last).select(*_KEYS[table], "last.*")
