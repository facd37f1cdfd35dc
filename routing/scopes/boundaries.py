"""Boundaries as tokens: what a version of an event carries says where it may go, with no walk along paths.

Law: a version carries tokens, a crossing and a consumer hold tokens, and one meets the other iff they share one (DESIGN
decision 6). Only boundaries are crossed; identity edges are contracted into the tokens:

    @s   it is in the region below root s, going up or turning: everyone below s along identity edges may get it
    ^c   it may leave c upwards, over a boundary
    !c   it has come down over a boundary into c: only what is below c may get it

So a boundary that nobody crosses costs nothing, and a version that came down never goes up again (SPEC §6).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from routing.scopes.graph import WORLD, Edge, Gate, Graph
from routing.scopes.places import Places
from routing.scopes.policy import ALL

NOWHERE = ""
"""Stands for everyone in no scope: one edge to `world`, not one for each. No party has this name."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """One direction of a tracked edge: what must be carried to reach it, its gates in order, what is carried beyond.

    What ascended a `boundary` may not descend it. `enters` is the scope beyond, if some may not publish in it. `judge`
    and `refuses` are the scope that the flow comes down from, if that chooses consumers, and if some may not subscribe.
    """

    edge: Edge
    upwards: bool
    gates: tuple[Gate, ...]
    holds: frozenset[str]
    carries: frozenset[str]
    boundary: bool
    enters: str | None = None
    judge: str | None = None
    refuses: str | None = None


@dataclass(frozen=True)
class Boundaries:
    """All boundaries of a graph."""

    graph: Graph

    @cached_property
    def places(self) -> Places:
        """The graph with its identity edges contracted."""
        return Places(self.graph)

    @cached_property
    def crossings(self) -> tuple[Crossing, ...]:
        """Every boundary, upwards and downwards; nothing crosses an edge from a closed scope."""
        found = []
        for edge in self._edges:
            if edge.child not in self.graph.closed:
                found.append(self._up(edge))
                found.append(self._down(edge))
        return tuple(found)

    def published(self, name: str) -> frozenset[str]:
        """What an event of this publisher carries at first."""
        return self._rising(self.places.closure(name), *self._selves(name))

    def held(self, name: str) -> frozenset[str]:
        """What a consumer holds."""
        return self._falling(self.places.closure(name), self.places.roots(name), *self._selves(name))

    def _up(self, edge: Edge) -> Crossing:
        scope = self.graph.scopes.get(edge.child)
        beyond = self.places.above.get(edge.parent, frozenset())
        gates = (*([scope.output] if scope else []), edge.up)
        own = frozenset({f"^{edge.child}"})
        enters = self._guarded(edge.parent, "publish")
        return Crossing(edge, True, gates, own, self._rising(beyond), self.graph.is_boundary(edge), enters)

    def _down(self, edge: Edge) -> Crossing:
        scope = self.graph.scopes.get(edge.child)
        above = self.places.above.get(edge.parent, frozenset())
        gates = (edge.down, *([scope.input] if scope else []))
        holds = self._falling(above, above & self.places.tops)
        judge = edge.parent if self.graph.scopes[edge.parent].delivery != ALL else None
        return Crossing(
            edge, False, gates, holds, frozenset({f"!{edge.child}"}), self.graph.is_boundary(edge),
            self._guarded(edge.child, "publish"), judge, self._guarded(edge.parent, "subscribe"),
        )  # fmt: skip

    def _guarded(self, name: str, action: str) -> str | None:
        return name if name in self.graph.scopes and self.graph.grants.guards(action, name) else None

    def _rising(self, closure: Iterable[str], *own: str) -> frozenset[str]:
        roots = {f"@{scope}" for scope in closure if scope in self.places.tops}
        return frozenset(roots | {f"^{name}" for name in (*closure, *own) if name in self._bounded})

    def _falling(self, closure: Iterable[str], roots: Iterable[str], *own: str) -> frozenset[str]:
        below = {f"!{name}" for name in (*closure, *own) if name in self._bounded}
        return frozenset({f"@{scope}" for scope in roots} | below)

    def _selves(self, name: str) -> tuple[str, ...]:
        """The names under which a party may have a tracked edge: its own, or that of whoever is nowhere."""
        return (name, NOWHERE) if self.graph.is_nowhere(name) else (name,)

    @cached_property
    def _edges(self) -> list[Edge]:
        implied = [Edge(NOWHERE, WORLD)] if self.graph.world else []
        edges = [*implied, *(edge for some in self.graph.parents.values() for edge in some)]
        return [edge for edge in edges if self.graph.is_tracked(edge)]

    @cached_property
    def _bounded(self) -> frozenset[str]:
        """Who has a boundary above."""
        return frozenset(edge.child for edge in self._edges)
