"""How a version came where it is: all that decides who may get it, and by which path.

Law: a trail is a function of the publisher's party and the crossings so far; it knows nothing of contents. Two versions
of equal content whose trails are of one *group* have the same future, so the one that comes first is enough: of trails
to a component the one with the first path, of trails to a scope the one with the first path through it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from routing.scopes.boundaries import Boundaries, Crossing
from udfs.chart import OWN, Party, Trail

Key: TypeAlias = tuple[str, str]
Step: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True)
class Way:
    """A trail, with what only the driver needs: which boundaries were crossed and ascended, and who may not publish."""

    trail: Trail
    refused: frozenset[str] = frozenset()
    ascended: frozenset[Key] = frozenset()
    crossed: tuple[Step, ...] = ()
    exact: bool = False

    @property
    def group(self) -> object:
        """What decides where a version may go on to."""
        trail = self.trail
        path = trail.path if self.exact else ()
        return trail.carries, trail.direct, trail.below, trail.refusing, self.refused, self.ascended, path

    @cached_property
    def order(self) -> object:
        """Which of the trails of one group comes first."""
        return (*self.trail.path, *self.trail.through), len(self.crossed), self.crossed

    @property
    def flow(self) -> tuple[object, ...]:
        """What makes flows of one content through a scope that chooses consumers different ones."""
        return tuple(sorted(self.ascended)), tuple(sorted(self.trail.refusing))


@dataclass(frozen=True)
class Ways:
    """The trails of one graph. `subscribers` are the scopes that subscribe under their own names."""

    boundaries: Boundaries
    subscribers: frozenset[str] = frozenset()

    def party(self, name: str, action: str) -> Party:
        """What distinguishes a party from others, as a publisher or a subscriber."""
        grants, edges = self.boundaries.graph.grants, self.boundaries
        refused = frozenset(scope for scope in self.guarded[action] if not grants.may(name, action, scope))
        above = [edge.parent for edge in edges.graph.up(name)] if refused else []
        barred, under = bool(above) and refused.issuperset(above), frozenset[str]()
        if action == "subscribe":
            under = edges.under(name)
        return Party(edges.direct(name), edges.selves(name), refused, barred, under)

    @cached_property
    def guarded(self) -> Mapping[str, frozenset[str]]:
        """The scopes in which not everybody may do a thing."""
        graph, found = self.boundaries.graph, dict[str, set[str]]()
        for action, scope in graph.grants.verdicts:
            found.setdefault(action, set()).update({scope} & graph.scopes.keys())
        return {action: frozenset(found.get(action, ())) for action in ("publish", "subscribe")}

    def start(self, party: Party) -> Way:
        """Where an event begins. What is in no region is at least its own publisher's."""
        carries = self.boundaries.published(party.direct, party.selves)
        return Way(Trail(carries if party.direct else carries | {OWN}, party.direct), party.refused)

    def held(self, party: Party) -> frozenset[str]:
        """The tokens that a consumer holds; one in no region can see its own events only."""
        tokens = self.boundaries.held(party.under, party.selves)
        return tokens if party.direct else tokens | {OWN}

    def moved(self, way: Way, crossing: Crossing) -> Way | None:
        """The way beyond a crossing; None if it is refused, or would descend a boundary that it ascended."""
        edge = crossing.edge
        key: Key = (edge.child, edge.parent)
        if crossing.enters in way.refused or (not crossing.upwards and key in way.ascended):
            return None
        crossed = (*way.crossed, (*key, "1 up" if crossing.upwards else "2 down")) if crossing.boundary else way.crossed
        if crossing.upwards:
            ascended = way.ascended | {key} if crossing.boundary else way.ascended
            shut = frozenset(key for key in ascended if key[1] in self.boundaries.under(key[0]))
            trail = Trail(crossing.carries, self.boundaries.region(edge.parent), shut=shut)
            return Way(trail, way.refused, ascended, crossed)
        return Way(self._down(way.trail, crossing), way.refused, way.ascended, crossed, edge.child in self.subscribers)

    def _down(self, trail: Trail, crossing: Crossing) -> Trail:
        places, edge, region, shut = self.boundaries.places, crossing.edge, crossing.region, trail.shut
        shared = places.closure(trail.direct) & places.origins(region, shut)
        first = trail.below if trail.below is not None else places.first(shared)
        refusing = trail.refusing | {crossing.refuses} if crossing.refuses else trail.refusing
        through = (edge.child,) if edge.child in self.boundaries.graph.scopes else ()
        path = trail.path + places.descent(first, region, shut)
        return Trail(crossing.carries, frozenset(), edge.child, path, refusing, through, shut)
