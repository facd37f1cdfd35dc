"""Boundaries as tokens: what a version of an event carries says where it may go, with no walk along paths.

Law: a version carries tokens, a crossing and a consumer hold tokens, and one meets the other iff they share one (DESIGN
decision 6). Only boundaries are crossed; identity edges are contracted into the tokens:

    ^c   it may leave c upwards, over a boundary
    !c   it has come down over a boundary into c: only what is below c may get it

What goes up or turns is besides in a *region*: everyone who has a root in common with it may get it (`udfs.places`).
A boundary that is *free* downwards, because it has nothing to say there, is no crossing that way: it is contracted too,
but for the flows that ascended it.

So a boundary that nobody crosses costs nothing, and a version that came down never goes up again (SPEC §6).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from routing.filters import Filter
from routing.filters.ast import conjunction
from routing.scopes.graph import WORLD, Edge, Gate, Graph, Scope
from routing.scopes.policy import ALL, FORWARD, Publishing
from udfs.places import Places

NOWHERE = ""
"""Stands for everyone in no scope: one edge to `world`, not one for each. No party has this name."""

_COMPONENT = Scope(NOWHERE)
_OPEN = (Gate(None, None), Gate(None, None))


@dataclass(frozen=True, slots=True)
class Crossing:
    """One direction of a tracked edge: what must be carried to reach it, its gates in order, what is carried beyond.

    What ascended a `boundary` may not descend it. `enters` is the scope beyond, if some may not publish in it. `judge`
    and `refuses` are the scope that the flow comes down from, if that chooses consumers, and if some may not subscribe.
    What is in the `region` reaches it too.
    """

    edge: Edge
    upwards: bool
    gates: tuple[Gate, Gate]
    holds: frozenset[str]
    carries: frozenset[str]
    boundary: bool
    enters: str | None = None
    judge: str | None = None
    refuses: str | None = None
    policy: Publishing = FORWARD
    region: frozenset[str] = frozenset()

    @property
    def admits(self) -> Filter:
        """What judges the content as it arrives: the filters before the first mapping and the publishing policy."""
        first, second = self.gates
        found = [gate.filter for gate in ((first, second) if self._plain else (first,)) if gate.filter is not None]
        return conjunction(found)

    @property
    def steps(self) -> tuple[Gate, Gate]:
        """What is left of the gates then."""
        first, second = self.gates
        return Gate(None, first.mapping), Gate(None, second.mapping) if self._plain else second

    @property
    def _plain(self) -> bool:
        return self.gates[0].mapping is None and self.policy == FORWARD

    @property
    def names(self) -> tuple[str, str]:
        """What its gates are called."""
        child, parent = self.edge.child, self.edge.parent
        if self.upwards:
            return f"output of {child}", f"{child} up to {parent}"
        return f"{parent} down to {child}", f"input of {child}"


@dataclass(frozen=True)
class Boundaries:
    """All boundaries of a graph."""

    graph: Graph

    @cached_property
    def places(self) -> Places:
        """The open scopes, with the edges that nothing is tracked across."""
        open = [scope for scope in self.graph.scopes if scope not in self.graph.closed]
        parents, over = ({scope: tuple(above(scope)) for scope in open} for above in (self.direct, self.under))
        return Places(parents, {} if over == parents else over)

    def direct(self, name: str) -> frozenset[str]:
        """The open scopes that a party is in along identity edges; nothing leaves a closed scope upwards."""
        edges = () if name in self.graph.closed else self.graph.up(name)
        return frozenset(
            edge.parent for edge in edges if edge.parent not in self.graph.closed and not self.graph.is_tracked(edge)
        )

    def under(self, name: str) -> frozenset[str]:
        """The open scopes from which something may come down to a party, or into a scope, without a crossing."""
        edges = () if name in self.graph.closed else self.graph.up(name)
        return frozenset(edge.parent for edge in edges if edge.parent not in self.graph.closed and self._free(edge))

    def _free(self, edge: Edge) -> bool:
        """Whether what comes down the edge is neither changed, nor stopped, nor judged."""
        guards = self._guarded(edge.child, "publish") or self._guarded(edge.parent, "subscribe")
        gates = edge.down, self.graph.scopes.get(edge.child, _COMPONENT).input
        return gates == _OPEN and self._judge(edge) is None and guards is None

    @cached_property
    def crossings(self) -> tuple[Crossing, ...]:
        """Every boundary, upwards and downwards; nothing crosses an edge from a closed scope."""
        found = []
        for edge in self._edges:
            if edge.child not in self.graph.closed:
                up = self.up(edge)
                found += [up] if up.policy.kind != "discard" else []
                found += [] if self._free(edge) else [self._down(edge)]
        return tuple(found)

    def published(self, direct: frozenset[str], selves: Iterable[str]) -> frozenset[str]:
        """What an event carries at first, if its publisher is in these scopes and has tracked edges by these names."""
        bounded = self.places.members(self.places.closure(direct) & self._bounded_bits)
        return frozenset(f"^{name}" for name in (*bounded, *selves))

    def held(self, under: frozenset[str], selves: Iterable[str]) -> frozenset[str]:
        """What a consumer holds that is under these scopes and has tracked edges by these names."""
        bounded = self.places.members(self.places.origins(under) & self._bounded_bits)
        return frozenset(f"!{name}" for name in (*bounded, *selves))

    def up(self, edge: Edge) -> Crossing:
        """An edge upwards."""
        scope = self.graph.scopes.get(edge.child, _COMPONENT)
        return Crossing(
            edge, True, (scope.output, edge.up), frozenset({f"^{edge.child}"}),
            self.published(self.region(edge.parent), ()),
            self.graph.is_boundary(edge), self._guarded(edge.parent, "publish"), policy=scope.publishing,
        )  # fmt: skip

    def _down(self, edge: Edge) -> Crossing:
        scope = self.graph.scopes.get(edge.child, _COMPONENT)
        region = self.region(edge.parent)
        return Crossing(
            edge, False, (edge.down, scope.input), self.held(region, ()), frozenset({f"!{edge.child}"}),
            self.graph.is_boundary(edge), self._guarded(edge.child, "publish"), self._judge(edge),
            self._guarded(edge.parent, "subscribe"), region=region,
        )  # fmt: skip

    def _judge(self, edge: Edge) -> str | None:
        return edge.parent if self.graph.scopes[edge.parent].delivery != ALL else None

    def _guarded(self, name: str, action: str) -> str | None:
        return name if name in self.graph.scopes and self.graph.grants.guards(action, name) else None

    def region(self, scope: str) -> frozenset[str]:
        """Where a version is that has come up into a scope; nowhere, if that is closed."""
        return frozenset() if scope in self.graph.closed else frozenset({scope})

    def selves(self, name: str) -> frozenset[str]:
        """The names under which a party has a tracked edge: its own, or that of whoever is nowhere.

        A scope has its own name in any case: its edges may have been boundaries when something ascended them.
        """
        own = frozenset({name} & self.graph.scopes.keys())
        return own | self._bounded & ({name, NOWHERE} if self.graph.is_nowhere(name) else {name})

    @cached_property
    def _edges(self) -> list[Edge]:
        implied = [Edge(NOWHERE, WORLD)] if self.graph.world else []
        edges = [*implied, *(edge for some in self.graph.parents.values() for edge in some)]
        return [edge for edge in edges if self.graph.is_tracked(edge)]

    @cached_property
    def _bounded(self) -> frozenset[str]:
        """Who has a boundary above."""
        return frozenset(edge.child for edge in self._edges)

    @cached_property
    def _bounded_bits(self) -> int:
        return self.places.bits(self._bounded.intersection(self.places.parents))
