"""Where everybody is, once edges that change nothing are contracted: closures, visibility roots, first paths.

Identity edges here are those that nothing is tracked across: no boundary, and no end that chooses or refuses anybody.
An edge may also be *free* only downwards: a boundary that changes and stops nothing on the way down.

Law: a party sees what another publishes along such edges iff their *roots* meet (SPEC §5): of the publisher, the places
above it along identity edges that are in no further one; of the consumer, those of them from which free edges lead down
to it. The cost is reachability, never the number of paths: what is above a scope is a set of bits in one integer,
computed once. Scopes are numbered in order of their names, so the first bit is the first name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

Edges: TypeAlias = frozenset[tuple[str, str]]
"""Children and parents."""


@dataclass(frozen=True)
class Places:
    """The open scopes, each with its open superscopes along identity edges, and along edges that are free downwards.

    A party is told by the scopes that it is in. Edges that are `shut` are those by which a flow may not come down.

    >>> places = Places({"all": (), "left": ("all",), "right": ("all",), "low": ("left", "right")})
    >>> low = frozenset({"low"})
    >>> list(places.members(places.closure(low))), places.descent("all", low)
    (['all', 'left', 'low', 'right'], ('all', 'left', 'low'))
    >>> places.descent("all", low, frozenset({("left", "all")}))
    ('all', 'right', 'low')
    """

    parents: Mapping[str, Sequence[str]]
    over: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _of: dict[frozenset[str], int] = field(default_factory=dict)
    _to: dict[tuple[frozenset[str], Edges], int] = field(default_factory=dict)

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
        assert bits, "there is no way down: the kernel and the driver disagree about who sees what"
        return self.names[(bits & -bits).bit_length() - 1]

    def closure(self, direct: frozenset[str]) -> int:
        """The places of a publisher: the scopes that it is in, and all above them."""
        if direct not in self._of:
            found = 0
            for scope in direct:
                found |= self._above[scope]
            self._of[direct] = found
        return self._of[direct]

    def origins(self, under: frozenset[str], shut: Edges = frozenset()) -> int:
        """The places from which something may come down to a consumer in these scopes."""
        found = 0
        if not shut:
            for scope in under:
                found |= self._sources[scope]
            return found
        if (under, shut) not in self._to:
            waiting = list(under)
            while waiting:
                scope = waiting.pop()
                bit = 1 << self.numbers[scope]
                if not found & bit:
                    found |= bit
                    waiting += [above for above in self._over[scope] if (scope, above) not in shut]
            self._to[under, shut] = found
        return self._to[under, shut]

    def roots(self, direct: frozenset[str]) -> int:
        """The places of a publisher that are in no further one, numbered among themselves."""
        found = 0
        for scope in direct:
            found |= self._roots[scope]
        return found

    def outlook(self, under: frozenset[str]) -> int:
        """The same numbers of those from which something may come down to a consumer in these scopes."""
        found = 0
        for scope in under:
            found |= self._outlooks[scope]
        return found

    @cached_property
    def tops(self) -> list[str]:
        """The scopes that are in no further one."""
        return [scope for scope in self.names if not self.parents[scope]]

    def path(self, x: frozenset[str], y: frozenset[str], shut: Edges = frozenset()) -> tuple[str, ...] | None:
        """The first path from a publisher in some scopes to a consumer in others; None if there is none."""
        shared = self.closure(x) & self.origins(y, shut)
        return self.descent(self.first(shared), y, shut) if shared else None

    def descent(self, scope: str, under: frozenset[str], shut: Edges = frozenset()) -> tuple[str, ...]:
        """The first path from a scope that is above a consumer down to it; it begins with the scope."""
        origins, path = self.origins(under, shut), [scope]
        while path[-1] not in under:
            below = self._below[path[-1]] & origins
            for child, parent in shut:
                if parent == path[-1] and child in self.numbers:
                    below &= ~(1 << self.numbers[child])
            path.append(self.first(below))
        return tuple(path)

    @cached_property
    def _over(self) -> Mapping[str, Sequence[str]]:
        return self.over or self.parents

    @cached_property
    def _order(self) -> list[str]:
        """Superscopes first."""
        done: dict[str, None] = {}
        for scope in self.parents:
            waiting = [scope]
            while waiting:
                missing = [above for above in self._over[waiting[-1]] if above not in done]
                if missing:
                    waiting += missing
                else:
                    done[waiting.pop()] = None
        return list(done)

    @cached_property
    def _above(self) -> dict[str, int]:
        """Each scope with all that is above it."""
        return self._spread({scope: 1 << number for scope, number in self.numbers.items()}, self.parents)

    @cached_property
    def _sources(self) -> dict[str, int]:
        """Each scope with all from which something may come down to it."""
        if not self.over:
            return self._above
        return self._spread({scope: 1 << number for scope, number in self.numbers.items()}, self.over)

    @cached_property
    def _roots(self) -> dict[str, int]:
        """The roots above each scope, by their places in `tops`."""
        return self._spread(self._tops, self.parents)

    @cached_property
    def _outlooks(self) -> dict[str, int]:
        """The roots from which something may come down to each scope."""
        return self._spread(self._tops, self.over) if self.over else self._roots

    @cached_property
    def _tops(self) -> dict[str, int]:
        return dict.fromkeys(self.parents, 0) | {scope: 1 << number for number, scope in enumerate(self.tops)}

    def _spread(self, own: Mapping[str, int], above: Mapping[str, Sequence[str]]) -> dict[str, int]:
        found: dict[str, int] = {}
        for scope in self._order:
            bits = own[scope]
            for parent in above[scope]:
                bits |= found[parent]
            found[scope] = bits
        return found

    @cached_property
    def _below(self) -> dict[str, int]:
        """The scopes in each scope into which something may come down."""
        below = dict.fromkeys(self.parents, 0)
        for scope, parents in self._over.items():
            for parent in parents:
                below[parent] |= 1 << self.numbers[scope]
        return below
