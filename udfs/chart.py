"""Who may see what, and by which path: a chart of the scopes for the workers.

Law: a consumer sees a version iff they share a root or a token, and no scope on the version's trail refuses the
consumer. Its path is the trail's own, and then the first one down to the consumer. Consumers alike in this are one
*party*: everything here is computed once for a trail and a party, never for an event.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from udfs.paths import Paths
from udfs.places import Edges, Places

OWN = "="
"""Carried by an event that is in no region, and held by a consumer in none: it may be the publisher itself."""


@dataclass(frozen=True)
class Party:
    """The scopes it is in along identity edges, the names by which it has tracked edges, the scopes that refuse it.

    `barred`: it is in scopes, and all of them refuse it. A consumer is `under` the scopes that it is in along edges
    that are free downwards; identity edges are among them.
    """

    direct: frozenset[str]
    selves: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    barred: bool = False
    under: frozenset[str] = frozenset()

    def beneath(self, shut: Edges) -> frozenset[str]:
        """Those of them whose edges are not shut."""
        return self.under.difference(scope for name, scope in shut if name in self.selves)


@dataclass(frozen=True)
class Trail:
    """The tokens that a version carries; the scopes where it is on its way up, or where it came down to, and the path.

    `refusing` are the scopes on the path that refuse some consumers. `through` ends the path of whoever is below. By
    edges that are `shut` it does not come down: it ascended them.
    """

    carries: frozenset[str]
    direct: frozenset[str] = frozenset()
    below: str | None = None
    path: tuple[str, ...] = ()
    refusing: frozenset[str] = frozenset()
    through: tuple[str, ...] = ()
    shut: Edges = frozenset()


@dataclass(frozen=True, eq=False)
class Chart:
    """The scopes, the parties of consumers with the tokens that they hold, and the trails of events."""

    places: Places
    parties: Sequence[tuple[Party, frozenset[str]]]
    trails: Sequence[Trail]
    _under: dict[str, set[int]] = field(default_factory=dict)
    _rows: dict[int, NDArray[np.uint64]] = field(default_factory=dict)

    @cached_property
    def width(self) -> int:
        """Words of bits for all parties."""
        return (len(self.parties) >> 6) + 1

    def visible(self, trails: NDArray[np.int64]) -> NDArray[np.uint64]:
        """A row of bits for each trail: bit p is set if party p may get what came by it."""
        return np.array([self._row(trail) for trail in trails.tolist()], np.uint64).reshape(len(trails), self.width)

    def paths(self, trails: NDArray[np.int64], parties: NDArray[np.int64]) -> pa.ListArray:
        """For each pair of a trail and a party that sees it, the path."""
        return self._paths.of(trails, parties)

    def path(self, trail: Trail, party: Party) -> tuple[str, ...]:
        """The path by which the party gets it; the empty one for an event that is only its publisher's."""
        under = party.beneath(trail.shut)
        if trail.below is None:
            return self.places.path(trail.direct, under, trail.shut) or ()
        if trail.below in party.selves:
            return trail.path
        return trail.path + self.places.descent(trail.below, under, trail.shut)

    def _reaches(self, trail: Trail, party: Party) -> bool:
        """Whether it comes to the party without the edges that are shut."""
        origins = self.places.origins(party.beneath(trail.shut), trail.shut)
        if trail.below is None:
            return bool(self.places.closure(trail.direct) & origins)
        number = self.places.numbers.get(trail.below)
        return trail.below in party.selves or (number is not None and bool(origins >> number & 1))

    @cached_property
    def _paths(self) -> Paths:
        direct = [None if trail.shut or trail.below is not None else trail.direct for trail in self.trails]
        under = [party.under for party, _ in self.parties]
        return Paths(self.places, direct, under, lambda t, p: self.path(self.trails[t], self.parties[p][0]))

    def _row(self, number: int) -> NDArray[np.uint64]:
        if number not in self._rows:
            trail = self.trails[number]
            holders = [self._holders[token] for token in trail.carries if token in self._holders]
            seen = np.concatenate([*holders, self._sharing(trail.direct)])
            if trail.shut:
                suspects = set(seen.tolist()).intersection(set().union(*(self._beneath(c) for c, _ in trail.shut)))
                wrong = [party for party in suspects if not self._reaches(trail, self.parties[party][0])]
                seen = np.setdiff1d(seen, np.array(wrong, np.int64))
            if trail.refusing:
                seen = np.array([p for p in seen.tolist() if not self.parties[p][0].refused & trail.refusing], np.int64)
            bits = np.zeros(self.width, np.uint64)
            mine = seen.astype(np.uint64)
            np.bitwise_or.at(bits, (mine >> np.uint64(6)).astype(np.int64), np.uint64(1) << (mine & np.uint64(63)))
            self._rows[number] = bits
        return self._rows[number]

    def _beneath(self, child: str) -> set[int]:
        """The parties to which something may come down through a scope, or over an edge of their own."""
        if child not in self._under:
            number = self.places.numbers.get(child)
            mine = {p for p, (party, _) in enumerate(self.parties) if child in party.selves}
            if number is not None:
                origins = (self.places.origins(party.under) >> number for party, _ in self.parties)
                mine |= {p for p, bits in enumerate(origins) if bits & 1}
            self._under[child] = mine
        return self._under[child]

    def _sharing(self, direct: frozenset[str]) -> NDArray[np.int64]:
        """The parties that have a root in common with these scopes."""
        if not direct:
            return np.empty(0, np.int64)
        return np.flatnonzero((self._roots & self._words(self.places.roots(direct))).any(axis=1))

    @cached_property
    def _roots(self) -> NDArray[np.uint64]:
        """A row of bits for each party: the roots from which something may come down to it."""
        rows = np.zeros((len(self.parties), len(self.places.tops) // 64 + 1), np.uint64)
        for number, (party, _) in enumerate(self.parties):
            rows[number] = self._words(self.places.outlook(party.under))
        return rows

    def _words(self, bits: int) -> NDArray[np.uint64]:
        length = 8 * (len(self.places.tops) // 64 + 1)
        return np.frombuffer(bits.to_bytes(length, "little"), np.uint64)

    @cached_property
    def _holders(self) -> dict[str, NDArray[np.int64]]:
        """The parties that hold each token."""
        found: dict[str, list[int]] = {}
        for number, (_, tokens) in enumerate(self.parties):
            for token in tokens:
                found.setdefault(token, []).append(number)
        return {token: np.array(some, np.int64) for token, some in found.items()}

    def with_trails(self, trails: Sequence[list[Any]]) -> Chart:
        """The same scopes and parties, for other trails, packed."""
        other = Chart(self.places, self.parties, [unpacked(trail) for trail in trails], self._under)
        other.__dict__.update(_holders=self._holders, _roots=self._roots)
        return other

    def save(self, path: Path) -> None:
        """Write the chart as JSON."""
        parties = [_lists(p.direct, p.selves, p.refused, p.under, held) for p, held in self.parties]
        places = [{scope: list(some) for scope, some in way.items()} for way in (self.places.parents, self.places.over)]
        path.write_text(json.dumps([*places, parties, [packed(trail) for trail in self.trails]]))

    @classmethod
    def load(cls, path: Path) -> Chart:
        """Read what `save` wrote."""
        parents, over, parties, trails = json.loads(path.read_text())
        known = []
        for party in parties:
            direct, selves, refused, under, held = map(frozenset, party)
            known.append((Party(direct, selves, refused, under=under), held))
        return cls(Places(parents, over), known, [unpacked(trail) for trail in trails])


def packed(trail: Trail) -> list[Any]:
    """The trail as JSON has it."""
    carries, direct, refusing = _lists(trail.carries, trail.direct, trail.refusing)
    shut = [list(edge) for edge in sorted(trail.shut)]
    return [carries, direct, trail.below, list(trail.path), refusing, list(trail.through), shut]


def unpacked(parts: list[Any]) -> Trail:
    """The trail that was packed."""
    carries, direct, below, path, refusing, through, shut = parts
    edges = frozenset((child, parent) for child, parent in shut)
    return Trail(frozenset(carries), frozenset(direct), below, tuple(path), frozenset(refusing), tuple(through), edges)


def _lists(*sets: frozenset[str]) -> list[list[str]]:
    return [sorted(some) for some in sets]
