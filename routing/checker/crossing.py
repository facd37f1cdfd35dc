"""Crossing one edge: filters judge, mappings change, and a flow remembers the boundaries it crossed.

Law: upwards the child's output interface comes before the edge's own filter and mapping, downwards the edge's own
before the child's input interface; so an interface holds on every edge, also on one that was joined later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from routing.checker.content import present
from routing.checker.graph import Graph
from routing.checker.system import Content, Edge, Scope
from routing.errors import RoutingError
from routing.filters import Filter, evaluate, parse

ApplyMapping: TypeAlias = Callable[[str, Content], Content]
Step: TypeAlias = tuple[str, str, str]  # child, parent, and "1 up" or "2 down"
Stage: TypeAlias = tuple[str, str | None, str | None]  # whose, filter, mapping

parsed: Callable[[str], Filter] = cache(parse)
_PLAIN = Scope("")


@dataclass(frozen=True)
class Flow:
    """Where a version is, its content there, the boundaries it crossed in order, and those that it ascended."""

    node: str
    content: Content
    crossed: tuple[Step, ...] = ()
    ascended: frozenset[tuple[str, str]] = frozenset()

    @property
    def order(self) -> tuple[int, tuple[Step, ...]]:
        """Versions are taken by the number of boundaries crossed, then by their names."""
        return len(self.crossed), self.crossed


@dataclass(frozen=True)
class Crossing:
    """How flows cross the edges of one graph; `failed` is told which mapping failed and why."""

    graph: Graph
    apply: ApplyMapping
    failed: Callable[[str], None]

    def lets_out(self, flow: Flow) -> bool:
        """Whether the output filter of the scope where the flow is lets it leave."""
        return _passes(self._interface(flow.node).output_filter, flow.content)

    def up(self, flow: Flow, edge: Edge) -> Flow | None:
        """The flow in the parent, once the child's output filter and publishing policy have let it out."""
        mine = (f"output of {edge.child}", None, self._interface(edge.child).output_mapping)
        own = (f"{edge.child} up to {edge.parent}", edge.up_filter, edge.up_mapping)
        content = self._through(flow.content, mine, own)
        if content is None:
            return None
        if not self.graph.is_boundary(edge):
            return Flow(edge.parent, content, flow.crossed, flow.ascended)
        return Flow(edge.parent, content, (*flow.crossed, (*edge.key, "1 up")), flow.ascended | {edge.key})

    def down(self, flow: Flow, edge: Edge) -> Flow | None:
        """The flow in the child; none if it would descend a boundary that it ascended."""
        if edge.key in flow.ascended:
            return None
        scope = self._interface(edge.child)
        own = (f"{edge.parent} down to {edge.child}", edge.down_filter, edge.down_mapping)
        content = self._through(flow.content, own, (f"input of {edge.child}", scope.input_filter, scope.input_mapping))
        if content is None:
            return None
        steps = ((*edge.key, "2 down"),) if self.graph.is_boundary(edge) else ()
        return Flow(edge.child, content, flow.crossed + steps, flow.ascended)

    def _interface(self, name: str) -> Scope:
        return self.graph.scopes.get(name, _PLAIN)

    def _through(self, content: Content, *stages: Stage) -> Content | None:
        """The content after each filter and mapping in turn; none if one stops it or fails."""
        for where, filter, mapping in stages:
            if not _passes(filter, content):
                return None
            try:
                content = content if mapping is None else present(self.apply(mapping, content))
            except RoutingError as error:
                self.failed(f"{where}: {error}")
                return None
        return content


def _passes(filter: str | None, content: Content) -> bool:
    return filter is None or evaluate(parsed(filter), content) is True
