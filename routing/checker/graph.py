"""The scope graph: which edges count, which are ignored and why, and who is visible to whom (Definition 2).

Law: the graph is acyclic and only scopes have anything in them. Edges are taken from the oldest to the youngest, so of
the edges that form a cycle the youngest is ignored; what is ignored for another reason closes no cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from routing.checker.policies import parse_delivery, parse_publishing
from routing.checker.security import may, may_join
from routing.checker.system import WORLD, Edge, Problem, Scope, System
from routing.errors import RoutingError
from routing.filters import parse

ParseMapping = Callable[[str], object]


def accepted(system: System, parse_mapping: ParseMapping = str) -> tuple[Graph, list[Problem]]:
    """The graph of the edges that count, and a problem for each edge that does not and each scope that is closed.

    >>> rows = System(scopes=(Scope("s"), Scope("t")), edges=(Edge("s", "t"), Edge("t", "s", created_at=1)))
    >>> graph, problems = accepted(rows)
    >>> [edge.key for edge in graph.edges], problems[0].reason
    ([('s', 't')], 'it would close a cycle')
    """
    scopes = {scope.name: scope for scope in system.scopes}
    if system.unscoped == WORLD:
        scopes.setdefault(WORLD, Scope(WORLD))
    broken = {scope.name: reason for scope in scopes.values() if (reason := _why_closed(scope, parse_mapping))}
    edges, problems = _accepted_edges(system, scopes, parse_mapping)
    graph = Graph(scopes, frozenset(broken), tuple(edges), system)
    closed = [Problem("scopes", (name,), f"closed: {reason}") for name, reason in broken.items()]
    return graph, [*problems, *closed, *_bad_subscriptions(system), *_refused_subscriptions(graph)]


def visible(system: System, x: str, y: str) -> bool:
    """Whether x is visible to y by Definition 2: they are the same, or something holds both.

    It looks at the graph only: filters, mappings, policies and grants other than `join` do not count.

    >>> desk = System(scopes=(Scope("desk"),), edges=(Edge("ann", "desk"), Edge("bob", "desk")))
    >>> visible(desk, "ann", "bob"), visible(desk, "ann", "eve")
    (True, False)
    """
    graph, _ = accepted(system)
    return x == y or bool(graph.closure(x) & graph.closure(y))


@dataclass(frozen=True)
class Graph:
    """Scopes by name, those that are closed, and the accepted edges; components without an edge are in `world`."""

    scopes: dict[str, Scope]
    closed: frozenset[str]
    edges: tuple[Edge, ...]
    system: System

    def up(self, child: str) -> list[Edge]:
        """The edges from a child to its superscopes, by name."""
        return [Edge(child, WORLD)] if self._in_world(child) else self._ups.get(child, [])

    def down(self, scope: str) -> list[Edge]:
        """The edges to what is in a scope, by name."""
        return self._downs.get(scope, [])

    @cached_property
    def _ups(self) -> dict[str, list[Edge]]:
        found: dict[str, list[Edge]] = {}
        for edge in sorted(self.edges, key=lambda edge: edge.key):
            found.setdefault(edge.child, []).append(edge)
        return found

    @cached_property
    def _downs(self) -> dict[str, list[Edge]]:
        built_in = [Edge(name, WORLD) for name in _named(self.system) if self._in_world(name)]
        found: dict[str, list[Edge]] = {}
        for edge in sorted([*self.edges, *built_in], key=lambda edge: edge.key):
            found.setdefault(edge.parent, []).append(edge)
        return found

    def closure(self, name: str) -> frozenset[str]:
        """The name and all its superscopes, theirs too."""
        return frozenset({name}).union(*(self.closure(edge.parent) for edge in self.up(name)))

    def is_open(self, name: str) -> bool:
        """Whether flows may turn at it and come down through it."""
        return name in self.scopes and name not in self.closed

    def is_boundary(self, edge: Edge) -> bool:
        """Whether crossing the edge may change or stop a flow."""
        return not edge.plain or (edge.child in self.scopes and not self.scopes[edge.child].plain)

    def admits(self, publisher: str, scope: str) -> bool:
        """Whether flows of the publisher may enter the scope."""
        return may(self.system, publisher, "publish", scope)

    def serves(self, consumer: str, scope: str) -> bool:
        """Whether flows that turn at the scope or come down through it may reach the consumer."""
        return may(self.system, consumer, "subscribe", scope)

    @cached_property
    def subscriptions(self) -> dict[str, list[tuple[str, str]]]:
        """The ids and filters of each consumer, by id."""
        newest = {(row.consumer, row.id): row.filter for row in self.system.subscriptions}
        found: dict[str, list[tuple[str, str]]] = {}
        for (consumer, id), filter in sorted(newest.items()):
            found.setdefault(consumer, []).append((id, filter))
        return found

    @cached_property
    def properties(self) -> dict[str, dict[str, str]]:
        """The properties of components."""
        return {component.name: component.properties for component in self.system.components}

    def _in_world(self, name: str) -> bool:
        """Whether it is there because nothing else says where it is."""
        return self.system.unscoped == WORLD and name not in self.scopes and name not in self._ups


def _named(system: System) -> set[str]:
    parties = {subscription.consumer for subscription in system.subscriptions}
    return parties | {component.name for component in system.components} | {edge.child for edge in system.edges}


def _accepted_edges(
    system: System, scopes: dict[str, Scope], parse_mapping: ParseMapping
) -> tuple[list[Edge], list[Problem]]:
    newest = {edge.key: edge for edge in system.edges}
    taken: list[Edge] = []
    above: dict[str, list[str]] = {}
    problems = []
    for edge in sorted(newest.values(), key=lambda edge: (edge.created_at, edge.child, edge.parent)):
        reason = _why_ignored(edge, system, scopes, parse_mapping)
        if not reason and _leads(edge.parent, edge.child, above):
            reason = "it would close a cycle"
        if reason:
            problems.append(Problem("scope_edges", edge.key, reason))
        else:
            taken.append(edge)
            above.setdefault(edge.child, []).append(edge.parent)
    return taken, problems


def _why_ignored(edge: Edge, system: System, scopes: dict[str, Scope], parse_mapping: ParseMapping) -> str:
    if edge.parent not in scopes:
        return "the parent is not a scope"
    if edge.child == WORLD and system.unscoped == WORLD:
        return "the built-in scope may be in nothing"
    filters, mappings = (edge.up_filter, edge.down_filter), (edge.up_mapping, edge.down_mapping)
    if complaint := _complaint((parse, filters), (parse_mapping, mappings)):
        return complaint
    return "" if may_join(system, edge) else "joining is refused"


def _why_closed(scope: Scope, parse_mapping: ParseMapping) -> str:
    filters, mappings = (scope.input_filter, scope.output_filter), (scope.input_mapping, scope.output_mapping)
    policies = (parse_delivery, (scope.delivery,)), (parse_publishing, (scope.publishing,))
    return _complaint((parse, filters), (parse_mapping, mappings), *policies)


def _complaint(*parts: tuple[Callable[[str], object], Iterable[str | None]]) -> str:
    """What the first parser that complains of one of its texts says, or nothing."""
    for parser, texts in parts:
        for text in texts:
            try:
                if text is not None:
                    parser(text)
            except RoutingError as error:
                return str(error)
    return ""


def _leads(lower: str, upper: str, above: dict[str, list[str]]) -> bool:
    """Whether edges lead from the one name up to the other."""
    seen, waiting = {lower}, [lower]
    while waiting:
        new = set(above.get(waiting.pop(), ())) - seen
        seen |= new
        waiting += new
    return upper in seen


def _bad_subscriptions(system: System) -> list[Problem]:
    complaints = [(row, _complaint((parse, (row.filter,)))) for row in system.subscriptions]
    return [Problem("subscriptions", (row.consumer, row.id), said) for row, said in complaints if said]


def _refused_subscriptions(graph: Graph) -> list[Problem]:
    """A warning for each consumer and each scope above it in which it may not subscribe."""
    consumers = sorted({subscription.consumer for subscription in graph.system.subscriptions})
    return [
        Problem("subscriptions", (consumer,), f"subscribing in {scope} is refused")
        for consumer in consumers
        for scope in sorted(graph.closure(consumer) - {consumer})
        if not graph.serves(consumer, scope)
    ]
