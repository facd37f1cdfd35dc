"""Where everybody is, once edges that change nothing are contracted: closures, visibility roots, first paths.

Identity edges here are those that nothing is tracked across: no boundary, and no end that chooses or refuses anybody.

Law: two parties see each other along identity edges iff their *roots* meet (SPEC §5): the places above them, along
identity edges, that are in no further one. The cost is reachability, never the number of paths: what is above a scope
is a set of bits in one integer, computed once. Scopes are numbered in order of their names, so the first bit is the
first name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Places:
    """The open scopes, each with its open superscopes along identity edges. A party is told by the scopes it is in.

    >>> places = Places({"all": (), "left": ("all",), "right": ("all",), "low": ("left", "right")})
    >>> low = frozenset({"low"})
    >>> list(places.members(places.closure(low))), places.descent("all", low)
    (['all', 'left', 'low', 'right'], ('all', 'left', 'low'))
    """

    parents: Mapping[str, Sequence[str]]
    _of: dict[frozenset[str], int] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        """The scopes in order; a scope's place is its bit."""
        return sorted(self.parents)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The bit of each scope."""
        return {name: number for number, name in enumerate(self.names)}

    def bits(self, scopes: frozenset[str]) -> int:
        """These scopes, as bits."""
        return sum(1 << self.numbers[scope] for scope in scopes)

    def members(self, bits: int) -> Iterator[str]:
        """The scopes that the bits stand for, in order."""
        while bits:
            yield self.first(bits)
            bits &= bits - 1

    def first(self, bits: int) -> str:
        """The first of them."""
        return self.names[(bits & -bits).bit_length() - 1]

    def closure(self, direct: frozenset[str]) -> int:
        """The places of a party: the scopes that it is in, and all above them."""
        if direct not in self._of:
            found = 0
            for scope in direct:
                found |= self._above[scope]
            self._of[direct] = found
        return self._of[direct]

    def roots(self, direct: frozenset[str]) -> int:
        """The places of a party that are in no further one, numbered among themselves."""
        found = 0
        for scope in direct:
            found |= self._roots[scope]
        return found

    @cached_property
    def tops(self) -> list[str]:
        """The scopes that are in no further one."""
        return [scope for scope in self.names if not self.parents[scope]]

    def path(self, x: frozenset[str], y: frozenset[str]) -> tuple[str, ...] | None:
        """The first path from a publisher in some scopes to a consumer in others; None if there is none."""
        shared = self.closure(x) & self.closure(y)
        return self.descent(self.first(shared), y) if shared else None

    def descent(self, scope: str, direct: frozenset[str]) -> tuple[str, ...]:
        """The first path from a scope that is above a party down to it; it begins with the scope."""
        closure, path = self.closure(direct), [scope]
        while path[-1] not in direct:
            path.append(self.first(self._held[path[-1]] & closure))
        return tuple(path)

    def approach(self, scope: str, last: str) -> tuple[str, ...]:
        """The first path from a scope down to another one below it, with both."""
        return self.descent(scope, frozenset({last}))

    @cached_property
    def _order(self) -> list[str]:
        """Superscopes first."""
        done: dict[str, None] = {}
        for scope in self.parents:
            waiting = [scope]
            while waiting:
                missing = [parent for parent in self.parents[waiting[-1]] if parent not in done]
                if missing:
                    waiting += missing
                else:
                    done[waiting.pop()] = None
        return list(done)

    @cached_property
    def _above(self) -> dict[str, int]:
        """Each scope with all that is above it."""
        return self._spread({scope: 1 << number for scope, number in self.numbers.items()})

    @cached_property
    def _roots(self) -> dict[str, int]:
        """The roots above each scope, by their places in `tops`."""
        own = {scope: 1 << number for number, scope in enumerate(self.tops)}
        return self._spread({scope: own.get(scope, 0) for scope in self.parents})

    def _spread(self, own: Mapping[str, int]) -> dict[str, int]:
        found: dict[str, int] = {}
        for scope in self._order:
            bits = own[scope]
            for parent in self.parents[scope]:
                bits |= found[parent]
            found[scope] = bits
        return found

    @cached_property
    def _held(self) -> dict[str, int]:
        """The scopes in each scope."""
        held = dict.fromkeys(self.parents, 0)
        for scope, parents in self.parents.items():
            for parent in parents:
                held[parent] |= 1 << self.numbers[scope]
        return held
