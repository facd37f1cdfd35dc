"""Subscriptions through time, one after the other: each with its filter and the versions and times at which it counts.

Law: of several rows with one key the newest commit counts while it is there, also if it has expired or does not parse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import tzinfo
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from routing.checker.past import FOREVER, Past
from routing.checker.security import may_act
from routing.checker.system import Subscription, System
from routing.errors import RoutingError
from routing.filters import Filter, Limits, parse

Span = tuple[int, int]
_NONE: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Interest:
    """Subscription n counts at versions from `since[n]` on and before `until[n]`, in batches not after `expires[n]`."""

    consumers: pa.StringArray
    ids: pa.StringArray
    texts: pa.StringArray
    writers: pa.StringArray
    expires: NDArray[np.int64]
    since: NDArray[np.int64]
    until: NDArray[np.int64]

    @classmethod
    def of(cls, past: Past) -> Interest:
        """From rows (consumer, id, filter, writer, expires); `expires` is in microseconds, NULL for never."""
        rows = past.rows.combine_chunks()
        spans = list(_counting(rows["consumer"].to_pylist(), rows["id"].to_pylist(), past))
        places = np.array([place for place, _ in spans], np.int64)
        kept = rows.take(pa.array(places)).combine_chunks()
        consumers, ids, texts, writers = (_flat(kept[name]) for name in ("consumer", "id", "filter", "writer"))
        expires = pc.fill_null(kept["expires"], FOREVER).to_numpy()
        bounds = np.array([span for _, span in spans], np.int64).reshape(-1, 2)
        return cls(consumers, ids, texts, writers, expires, bounds[:, 0], bounds[:, 1])

    def __len__(self) -> int:
        return len(self.ids)

    def counting(self, version: int, clock: int, refused: NDArray[np.int64] = _NONE) -> NDArray[np.int64]:
        """The places of those that count in a batch, if these are refused."""
        there = (self.since <= version) & (version < self.until) & (clock <= self.expires)
        there[refused] = False
        return np.flatnonzero(there)

    def refused(self, system: System) -> NDArray[np.int64]:
        """The places of those whose writer may not act for their consumer."""
        guarded = {grant.object for grant in system.grants if grant.action == "act_for"}
        if not guarded:
            return _NONE
        mine = np.flatnonzero(pc.is_in(self.consumers, pa.array(sorted(guarded), pa.string())).to_numpy(False))
        pairs = zip(
            mine.tolist(), self.consumers.take(mine).to_pylist(), self.writers.take(mine).to_pylist(), strict=True
        )
        return np.array([place for place, consumer, writer in pairs if not may_act(system, writer, consumer)], np.int64)

    def subscriptions(self, places: NDArray[np.int64]) -> tuple[Subscription, ...]:
        """These, as the reference takes them."""
        some = (column.take(pa.array(places)).to_pylist() for column in (self.consumers, self.ids, self.texts))
        return tuple(Subscription(*row) for row in zip(*some, strict=True))


def understood(text: str, zone: tzinfo, limits: Limits) -> Filter | None:
    """The filter that the text says; none if it does not parse, and so matches nothing."""
    return _parsed(text, zone, limits)


@lru_cache(maxsize=1 << 16)
def _parsed(text: str, zone: tzinfo, limits: Limits) -> Filter | None:
    try:
        return parse(text, zone=zone, limits=limits)
    except RoutingError:
        return None


def _counting(consumers: list[str], ids: list[str], past: Past) -> Iterator[tuple[int, Span]]:
    """The spans in which each row counts: while it is there and no newer one of its key is."""
    by_key: dict[tuple[str, str], list[int]] = {}
    for place, key in enumerate(zip(consumers, ids, strict=True)):
        by_key.setdefault(key, []).append(place)
    for places in by_key.values():
        newer: list[Span] = []
        for place in reversed(places):
            span = (int(past.since[place]), int(past.until[place]))
            yield from ((place, left) for left in _without(span, newer))
            newer.append(span)


def _without(span: Span, others: list[Span]) -> list[Span]:
    """What is left of a span.

    >>> _without((0, 9), [(2, 3), (5, 20)])
    [(0, 2), (3, 5)]
    """
    left = [span]
    for start, end in others:
        cut = [((low, min(high, start)), (max(low, end), high)) for low, high in left]
        left = [(low, high) for pieces in cut for low, high in pieces if low < high]
    return left


def _flat(column: pa.ChunkedArray) -> pa.StringArray:
    return column.cast(pa.string()).combine_chunks() if column.num_chunks != 1 else column.chunk(0).cast(pa.string())
