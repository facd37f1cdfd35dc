"""Where everybody is, once edges that change nothing are contracted: closures, visibility roots, first paths.

Identity edges here are those that nothing is tracked across: no boundary, and no end that chooses or refuses anybody.

Law: two parties see each other along identity edges iff their *roots* meet (SPEC §5): the places above them, along
identity edges, that are in no further one. The cost is reachability, never the number of paths: a place is what is
above it, as a set, computed once for each scope and once for each set of scopes that a party is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Places:
    """The open scopes, each with its open superscopes along identity edges. A party is told by the scopes it is in.

    >>> places = Places({"all": (), "left": ("all",), "right": ("all",), "low": ("left", "right")})
    >>> sorted(places.closure(frozenset({"low"}))), places.descent("all", frozenset({"low"}))
    (['all', 'left', 'low', 'right'], ('all', 'left', 'low'))
    """

    parents: Mapping[str, Iterable[str]]
    _of: dict[frozenset[str], frozenset[str]] = field(default_factory=dict)

    @cached_property
    def above(self) -> dict[str, frozenset[str]]:
        """Each scope with all that is above it."""
        found: dict[str, frozenset[str]] = {}
        for scope in self.parents:
            waiting = [scope]
            while waiting:
                missing = [parent for parent in self.parents[waiting[-1]] if parent not in found]
                if missing:
                    waiting += missing
                elif (now := waiting.pop()) not in found:
                    found[now] = frozenset({now}).union(*(found[parent] for parent in self.parents[now]))
        return found

    def closure(self, direct: frozenset[str]) -> frozenset[str]:
        """The places of a party: the scopes that it is in, and all above them."""
        if direct not in self._of:
            self._of[direct] = frozenset().union(*(self.above[scope] for scope in direct))
        return self._of[direct]

    def roots(self, direct: frozenset[str]) -> frozenset[str]:
        """The places of a party that are in no further one."""
        return self.closure(direct) & self.tops

    @cached_property
    def tops(self) -> frozenset[str]:
        """The scopes that are in no further one."""
        return frozenset(scope for scope, parents in self.parents.items() if not parents)

    def path(self, x: frozenset[str], y: frozenset[str]) -> tuple[str, ...] | None:
        """The first path from a publisher in some scopes to a consumer in others; None if there is none."""
        shared = self.closure(x) & self.closure(y)
        return self.descent(min(shared), y) if shared else None

    def descent(self, scope: str, direct: frozenset[str]) -> tuple[str, ...]:
        """The first path from a scope that is above a party down to it; it begins with the scope."""
        closure, path = self.closure(direct), [scope]
        while path[-1] not in direct:
            path.append(min(child for child in self._held[path[-1]] if child in closure))
        return tuple(path)

    def approach(self, scope: str, last: str) -> tuple[str, ...]:
        """The first path from a scope down to another one below it, with both."""
        return self.descent(scope, frozenset({last}))

    @cached_property
    def _held(self) -> dict[str, list[str]]:
        """The scopes in each scope."""
        held: dict[str, list[str]] = {}
        for scope, parents in self.parents.items():
            for parent in parents:
                held.setdefault(parent, []).append(scope)
        return held
