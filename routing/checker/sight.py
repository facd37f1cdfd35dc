"""Who sees whom where nothing is changed, stopped or chosen on the way: by roots, without following flows.

Law: two see each other iff they are the same or have a visibility root in common (SPEC §5). It holds only if the graph
is plain; any other is for the reference.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from routing.checker.graph import Graph
from routing.checker.system import WORLD

_JUDGING = ("publish", "subscribe")


def is_plain(graph: Graph) -> bool:
    """Whether no edge, scope or grant changes, stops or chooses anything."""
    judged = {grant.object for grant in graph.system.grants if grant.action in _JUDGING}
    edges = all(edge.plain for edge in graph.edges)
    return edges and not graph.closed and all(s.plain for s in graph.scopes.values()) and not judged & set(graph.scopes)


@dataclass(frozen=True, eq=False)
class Sight:
    """The visibility roots of everyone, as numbers of sets: whoever has the same ones has the same number."""

    parents: dict[str, tuple[str, ...]]
    scopes: frozenset[str]
    unscoped: str
    _roots: dict[str, frozenset[str]] = field(default_factory=dict)
    _numbers: dict[frozenset[str], int] = field(default_factory=dict)
    _meet: dict[tuple[int, int], bool] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Sight:
        """Of a plain graph."""
        parents: dict[str, tuple[str, ...]] = {}
        for edge in graph.edges:
            parents[edge.child] = (*parents.get(edge.child, ()), edge.parent)
        return cls(parents, frozenset(graph.scopes), graph.system.unscoped)

    @property
    def everybody(self) -> bool:
        """Whether all see all, because there are no scopes."""
        return not self.parents and not self.scopes - {WORLD} and self.unscoped == WORLD

    def number(self, name: str) -> int:
        """The number of somebody's set of roots."""
        roots = self.roots(name)
        return self._numbers.setdefault(roots, len(self._numbers))

    def roots(self, name: str) -> frozenset[str]:
        """What is above somebody and has nothing above it."""
        if name not in self._roots:
            above = self.parents.get(name, ())
            alone = WORLD if self.unscoped == WORLD and name not in self.scopes else name
            found = frozenset[str]().union(*map(self.roots, above)) if above else frozenset({alone})
            if not above:
                return found  # of whoever no edge names nothing is kept
            self._roots[name] = found
        return self._roots[name]

    def meet(self, one: int, other: int) -> bool:
        """Whether two sets have a root in common."""
        if (one, other) not in self._meet:
            self._meet[one, other] = not self._sets[one].isdisjoint(self._sets[other])
        return self._meet[one, other]

    @property
    def _sets(self) -> list[frozenset[str]]:
        return list(self._numbers)

    def sees(self, publisher: str, consumer: str) -> bool:
        """Whether the consumer sees the publisher."""
        return publisher == consumer or not self.roots(publisher).isdisjoint(self.roots(consumer))
