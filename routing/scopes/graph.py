"""The scope graph of one control version: which rows count, and what is wrong with the others.

Law: what is accepted is acyclic, and only scopes hold anything. A bad row costs itself and nothing else: an edge is
ignored, a scope is closed (docs/scopes.md). The cost is one walk up from the parent of each edge between scopes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from functools import cached_property

from routing.errors import RoutingError
from routing.filters import Filter, Limits, parse
from routing.filters.limits import DEFAULT
from routing.mappings import Mapping as Assignments
from routing.mappings import parse_mapping
from routing.model import UNUSABLE_NAMES, Problem
from routing.scopes.policy import ALL, FORWARD, Delivery, Publishing, parse_delivery, parse_publishing
from routing.scopes.security import ANYONE, OPEN, Grants

WORLD = "world"

_BAD = (RoutingError, ArithmeticError, ValueError, RecursionError)
"""What a row may raise: it costs itself, and must not stop the stream."""


@dataclass(frozen=True, slots=True)
class Gate:
    """What one direction of an edge, or of a scope's interface, does: a filter, then assignments."""

    filter: Filter | None = None
    mapping: Assignments | None = None

    def __bool__(self) -> bool:
        return self.filter is not None or self.mapping is not None


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope that is open: its interface and its policies."""

    name: str
    input: Gate = Gate()
    output: Gate = Gate()
    delivery: Delivery = ALL
    publishing: Publishing = FORWARD

    @property
    def plain(self) -> bool:
        """Whether crossing an edge from it to a superscope changes nothing on its account."""
        return not (self.input or self.output) and self.delivery == ALL and self.publishing == FORWARD


@dataclass(frozen=True, slots=True)
class Edge:
    """An accepted edge: the child is in the parent."""

    child: str
    parent: str
    up: Gate = Gate()
    down: Gate = Gate()

    @property
    def plain(self) -> bool:
        """Whether crossing it changes nothing on its own account."""
        return not (self.up or self.down)


@dataclass(frozen=True)
class Graph:
    """The scopes by name, those that are closed, and the accepted edges by child."""

    scopes: Mapping[str, Scope]
    closed: frozenset[str] = frozenset()
    parents: Mapping[str, tuple[Edge, ...]] = field(default_factory=dict)
    world: bool = True
    grants: Grants = OPEN

    def up(self, name: str) -> tuple[Edge, ...]:
        """The edges to the superscopes of a component or a scope; of one that is nowhere, to `world`."""
        return (Edge(name, WORLD),) if self.is_nowhere(name) else self.parents.get(name, ())

    def is_nowhere(self, name: str) -> bool:
        """Whether it is in `world` because nothing else says where it is."""
        return self.world and name not in self.parents and name not in self.scopes

    def is_boundary(self, edge: Edge) -> bool:
        """Whether crossing the edge, in either direction, may stop or change a flow."""
        return not edge.plain or (edge.child in self.scopes and not self.scopes[edge.child].plain)

    def is_tracked(self, edge: Edge) -> bool:
        """Whether flows are followed across the edge: a boundary, or an end of it chooses or refuses somebody."""
        judges = self.scopes[edge.parent].delivery != ALL
        return self.is_boundary(edge) or judges or any(map(self._refuses, (edge.child, edge.parent)))

    def _refuses(self, name: str) -> bool:
        return name in self.scopes and any(self.grants.guards(action, name) for action in ("publish", "subscribe"))

    @cached_property
    def ordered(self) -> tuple[str, ...]:
        """All scopes, superscopes first."""
        done: dict[str, None] = {}
        for scope in self.scopes:
            waiting = [scope]
            while waiting:
                missing = [edge.parent for edge in self.up(waiting[-1]) if edge.parent not in done]
                if missing:
                    waiting += missing
                else:
                    done[waiting.pop()] = None
        return tuple(done)


def accept(
    scopes: Iterable[Mapping[str, object]],
    edges: Iterable[Mapping[str, object]],
    grants: Grants = OPEN,
    *,
    isolated: bool = False,
    limits: Limits = DEFAULT,
    zone: tzinfo = UTC,
) -> tuple[Graph, list[Problem]]:
    """The graph of these rows, one for each key, and a problem for each row that does not count.

    `limits` are those of filters; timestamps without a zone are read in `zone`.

    >>> graph, problems = accept([{"scope": "s"}], [{"child": "a", "parent": "s"}, {"child": "a", "parent": "t"}])
    >>> [edge.parent for edge in graph.up("a")], problems[0].reason
    (['s'], "'t' is not a scope: it has no row in scopes")
    """
    reader = _Reader(limits, zone)
    found, closed, problems = _scopes(scopes, reader)
    if not isolated:
        found.setdefault(WORLD, Scope(WORLD))
    parents: dict[str, list[Edge]] = {}
    for row in sorted(edges, key=_age):
        try:
            edge = _edge(row, found, grants, isolated, reader)
            _refuse_cycle(edge, found, parents)
        except _BAD as error:
            problems.append(_problem("scope_edges", str(row["child"]), str(row["parent"]), error))
        else:
            parents.setdefault(edge.child, []).append(edge)
    taken = {child: tuple(sorted(some, key=lambda edge: edge.parent)) for child, some in parents.items()}
    return Graph(found, frozenset(closed), taken, not isolated, grants), problems


def _scopes(rows: Iterable[Mapping[str, object]], reader: _Reader) -> tuple[dict[str, Scope], set[str], list[Problem]]:
    found: dict[str, Scope] = {}
    closed: set[str] = set()
    problems = []
    for row in rows:
        name = str(row["scope"])
        if name in (*UNUSABLE_NAMES, ANYONE):
            problems.append(_problem("scopes", name, "", RoutingError(f"{name!r} cannot be a name")))
            continue
        try:
            found[name] = Scope(
                name,
                reader.gate(row, "input"),
                reader.gate(row, "output"),
                parse_delivery(_text(row, "delivery") or "all", reader.filter),
                parse_publishing(_text(row, "publishing") or "forward"),
            )
        except _BAD as error:
            found[name] = Scope(name)
            closed.add(name)
            problems.append(_problem("scopes", name, "", error, "closed: "))
    return found, closed, problems


def _edge(
    row: Mapping[str, object], scopes: Mapping[str, Scope], grants: Grants, isolated: bool, reader: _Reader
) -> Edge:
    child, parent = str(row["child"]), str(row["parent"])
    if child in (*UNUSABLE_NAMES, ANYONE):
        raise RoutingError(f"{child!r} cannot be a name")
    if parent not in scopes:
        raise RoutingError(f"'{parent}' is not a scope: it has no row in scopes")
    if child == WORLD and not isolated:
        raise RoutingError("the built-in scope 'world' may be in nothing")
    edge = Edge(child, parent, reader.gate(row, "up"), reader.gate(row, "down"))
    if not grants.may_join(child, _text(row, "created_by") or "", parent):
        raise RoutingError(f"'{child}' may not join '{parent}': see the grants of that scope")
    return edge


def _refuse_cycle(edge: Edge, scopes: Mapping[str, Scope], parents: Mapping[str, list[Edge]]) -> None:
    """Only scopes have anything in them, so only an edge from a scope can close a cycle."""
    if edge.child in scopes and edge.child in _above(edge.parent, parents):
        raise RoutingError(f"it would close a cycle: '{edge.parent}' is already in '{edge.child}'")


def _above(name: str, parents: Mapping[str, list[Edge]]) -> Iterator[str]:
    """The name and everything above it, each once."""
    seen, waiting = {name}, [name]
    while waiting:
        now = waiting.pop()
        yield now
        fresh = {edge.parent for edge in parents.get(now, ())} - seen
        seen |= fresh
        waiting += fresh


@dataclass
class _Reader:
    """Reads filters and mappings; many edges carry the same text, which is read once."""

    limits: Limits
    zone: tzinfo
    _filters: dict[str, Filter] = field(default_factory=dict)
    _mappings: dict[str, Assignments] = field(default_factory=dict)

    def gate(self, row: Mapping[str, object], way: str) -> Gate:
        filter, mapping = _text(row, f"{way}_filter"), _text(row, f"{way}_mapping")
        return Gate(None if filter is None else self.filter(filter), None if mapping is None else self.mapping(mapping))

    def filter(self, text: str) -> Filter:
        if text not in self._filters:
            self._filters[text] = parse(text, limits=self.limits, zone=self.zone)
        return self._filters[text]

    def mapping(self, text: str) -> Assignments:
        if text not in self._mappings:
            self._mappings[text] = parse_mapping(text, zone=self.zone)
        return self._mappings[text]


def _text(row: Mapping[str, object], name: str) -> str | None:
    value = row.get(name)
    return None if value is None else str(value)


def _age(row: Mapping[str, object]) -> tuple[bool, object, str, str]:
    """Edges without a time are the oldest."""
    created = row.get("created_at")
    return created is not None, created or 0, str(row["child"]), str(row["parent"])


def _problem(table: str, owner: str, id: str, error: Exception, prefix: str = "") -> Problem:
    return Problem("error", table, owner, id, "", f"{prefix}{error}")
