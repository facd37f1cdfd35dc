"""Coming down: whom a flow reaches below the scope where it turned, once the delivery policies have judged.

Law: policies judge from the innermost scope outwards, so a choice is only made among those whom the choices further
down have left, and nested choices never end in none. Whoever may not subscribe in a scope of the path is not reached,
so nobody is chosen who then gets nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from routing.checker.content import Sameness, sameness
from routing.checker.crossing import Crossing, Flow, parsed
from routing.checker.graph import Graph
from routing.checker.policies import granted, parse_delivery
from routing.checker.system import Content, Event, Path
from routing.errors import RoutingError
from routing.filters import evaluate


@dataclass(frozen=True)
class Arrival:
    """A flow at its consumer, with its path and the subscriptions that match."""

    flow: Flow
    path: Path
    subscription_ids: tuple[str, ...]


Arrivals: TypeAlias = dict[str, list[Arrival]]


@dataclass(frozen=True)
class Delivery:
    """How flows of one event come down; `versions` are the contents that it may have."""

    graph: Graph
    crossing: Crossing
    event: Event
    original: Sameness
    versions: set[Sameness]

    def below(self, flow: Flow, path: Path) -> Arrivals:
        """Whom the flow reaches below the scope where it is and which ends its path."""
        found: Arrivals = {}
        for down in self.downs(flow):
            if sameness(down.content) not in self.versions:
                continue
            inner = self.below(down, (*path, down.node)) if self.graph.is_open(down.node) else {}
            for arrivals in (inner, self.at(down, path)):
                for consumer, some in arrivals.items():
                    found.setdefault(consumer, []).extend(some)
        scope = self.graph.scopes[flow.node]
        chosen = granted(parse_delivery(scope.delivery), scope.name, self.event, found, self._properties)
        return {consumer: some for consumer, some in found.items() if consumer in chosen}

    def at(self, flow: Flow, path: Path) -> Arrivals:
        """The consumer where the flow is, if it subscribes to the content and may get it by this path."""
        consumer = flow.node
        changed = sameness(flow.content) != self.original
        refused = any(not self.graph.serves(consumer, scope) for scope in path)
        ids = matching(self.graph, consumer, flow.content)
        if not ids or refused or (consumer == self.event.publisher and changed):
            return {}
        return {consumer: [Arrival(flow, path, ids)]}

    def downs(self, flow: Flow) -> list[Flow]:
        """The flow in each child of the open scope where it is that it may enter."""
        if not self.graph.is_open(flow.node):
            return []
        edges = [edge for edge in self.graph.down(flow.node) if self._may_enter(edge.child)]
        downs = [self.crossing.down(flow, edge) for edge in edges]
        return [down for down in downs if down]

    def _may_enter(self, child: str) -> bool:
        if child not in self.graph.scopes:
            return True
        return self.graph.is_open(child) and self.graph.admits(self.event.publisher, child)

    def _properties(self, consumer: str) -> dict[str, str]:
        return self.graph.properties.get(consumer, {})


def matching(graph: Graph, consumer: str, content: Content) -> tuple[str, ...]:
    """The ids of the consumer's subscriptions that match the content."""
    return tuple(id for id, filter in graph.subscriptions.get(consumer, ()) if _matches(filter, content))


def _matches(filter: str, content: Content) -> bool:
    try:
        return evaluate(parsed(filter), content) is True
    except RoutingError:
        return False
