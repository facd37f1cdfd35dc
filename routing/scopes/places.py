"""Where everybody is, once edges that change nothing are contracted: closures, visibility roots, first paths.

Identity edges here are those that nothing is tracked across: no boundary, and not into a scope that chooses consumers.

Law: two parties see each other along identity edges iff their *roots* meet (SPEC §5): the places above them, along
identity edges, that are in no further one. The cost is reachability, never the number of paths: a place is what is
above it, as a set, computed once for each scope and once for each set of scopes that a component is in.

    closure(x)   x's scopes and all above them, along identity edges, as places
    roots(x)     those of them that are in nothing further along identity edges
    path(x, y)   the first of the shortest spellings by which what is at x turns and comes down to y
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from routing.scopes.graph import Edge, Graph


@dataclass(frozen=True)
class Places:
    """The identity edges of a graph, contracted."""

    graph: Graph
    _of: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    @cached_property
    def above(self) -> dict[str, frozenset[str]]:
        """Each open scope with all that is above it along identity edges."""
        found: dict[str, frozenset[str]] = {}
        for scope in self.graph.ordered:
            if scope not in self.graph.closed:
                found[scope] = frozenset({scope}).union(*(found[parent] for parent in self._identities(scope)))
        return found

    def closure(self, name: str) -> frozenset[str]:
        """The places of a party: the open scopes that it is in along identity edges, and all above them."""
        direct = frozenset(self._identities(name))
        if direct not in self._of:
            self._of[direct] = frozenset().union(*(self.above[scope] for scope in direct))
        return self._of[direct]

    def roots(self, name: str) -> frozenset[str]:
        """The places of a party that are in no further one."""
        return self.closure(name) & self.tops

    def path(self, x: str, y: str) -> tuple[str, ...] | None:
        """The first path by which what x publishes comes to y along identity edges; None if there is none."""
        shared = self.closure(x) & self.closure(y)
        return self.descent(min(shared), y) if shared else None

    def descent(self, scope: str, y: str) -> tuple[str, ...]:
        """The first path from a scope that is above a party down to it; it begins with the scope."""
        direct, closure, path = set(self._identities(y)), self.closure(y), [scope]
        while path[-1] not in direct:
            path.append(min(child for child in self._held[path[-1]] if child in closure))
        return tuple(path)

    def approach(self, scope: str, last: str) -> tuple[str, ...]:
        """The first path from a scope down to another one below it, with both."""
        path = [scope]
        while path[-1] != last:
            path.append(min(child for child in self._held[path[-1]] if child in self.above[last]))
        return tuple(path)

    @cached_property
    def tops(self) -> frozenset[str]:
        """The places that are in no further one along identity edges."""
        return frozenset(scope for scope in self.above if not self._identities(scope))

    @cached_property
    def _held(self) -> dict[str, list[str]]:
        """The scopes in each scope, along identity edges."""
        held: dict[str, list[str]] = {}
        for scope in self.above:
            for parent in self._identities(scope):
                held.setdefault(parent, []).append(scope)
        return held

    def _identities(self, name: str) -> list[str]:
        """The open superscopes of a party along identity edges; nothing leaves a closed scope upwards."""
        edges: Iterable[Edge] = () if name in self.graph.closed else self.graph.up(name)
        return [e.parent for e in edges if not self.graph.is_tracked(e) and e.parent not in self.graph.closed]
