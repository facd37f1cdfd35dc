"""What should have been delivered, from journal rows: a function from Arrow batches of events to rows of notifications.

Law: what an event brings depends on the ledger's row of its batch only. Where nothing on the way changes, stops or
chooses (`sight`), all events of a chunk are judged together, filter by filter; elsewhere each event by itself, by the
reference. It runs in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import localcontext
from hashlib import md5
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from routing.checker.columns import Chunk
from routing.checker.content import sameness
from routing.checker.crossing import ApplyMapping
from routing.checker.flow import Reference
from routing.checker.graph import ParseMapping
from routing.checker.interest import Interest, understood
from routing.checker.sight import Sight
from routing.checker.system import Event, Notification, System
from routing.checker.tree import Tree, Types
from routing.filters import Limits

EXPECTED = pa.schema(
    [
        ("batch", pa.int64()),
        ("rank", pa.int64()),
        ("publisher", pa.string()),
        ("event_id", pa.string()),
        ("consumer", pa.string()),
        ("version", pa.int32()),
        ("ids", pa.list_(pa.string())),
        ("path", pa.list_(pa.string())),
        ("content", pa.string()),
    ]
)
ATTRIBUTES, EVENT = "attributes", "event"
_PAIRS = 20_000_000  # events times subscriptions that are judged at once
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Batch:
    """What the ledger says of a batch: when, of which source, and which state of subscriptions and scopes it saw."""

    ordinal: int
    source: str
    clock: datetime
    subscriptions: int
    system: int
    schema: int

    @property
    def micros(self) -> int:
        """The clock, in microseconds."""
        return (self.clock - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True)
class Work:
    """All that the expectation depends on, beside the events."""

    batches: Mapping[int, Batch]
    interest: Interest
    systems: Mapping[int, System]
    refused: Mapping[int, NDArray[np.int64]]
    """The places of subscriptions that in a system do not count, because of who wrote them."""
    sights: Mapping[int, Sight]
    schemas: Mapping[int, Types]
    hidden: Mapping[str, frozenset[str]]
    """The columns of each source that are no attributes."""
    zone: tzinfo
    limits: Limits

    def counting(self, batch: Batch) -> NDArray[np.int64]:
        """The places of the subscriptions that count in a batch."""
        return self.interest.counting(batch.subscriptions, batch.micros, self.refused[batch.system])


# — where all see all, or some see some —


def together(work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Events (batch, rank, publisher, attributes: a struct of structs) to what they bring, all at once."""

    def expect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = max(1, _PAIRS // max(len(work.interest), 1))
        for rows in batches:
            for start in range(0, rows.num_rows, step):
                yield from _judged(work, rows.slice(start, step))

    return expect


def _judged(work: Work, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    ordinals = rows["batch"].to_numpy()
    numbers = np.array([work.batches[ordinal].system for ordinal in ordinals.tolist()])
    for number in np.unique(numbers).tolist():
        yield from _Part(work, rows.filter(pa.array(numbers == number)), number).expected()


class _Part:
    """Events of batches that saw the same scopes."""

    def __init__(self, work: Work, rows: pa.RecordBatch, system: int) -> None:
        self.work, self.rows, self.system, self.sight = work, rows, system, work.sights[system]
        sight = self.sight
        pinned = [work.batches[ordinal] for ordinal in rows["batch"].to_pylist()]
        self.versions = np.array([batch.subscriptions for batch in pinned], np.int64)
        self.clocks = np.array([batch.micros for batch in pinned], np.int64)
        struct = rows[ATTRIBUTES]
        names = [one.name for one in struct.type]
        self.chunk = Chunk({name: struct.field(place) for place, name in enumerate(names)}, len(struct))
        self.seen: dict[int, NDArray[np.bool_]] = {}
        if not sight.everybody:
            publishers = rows["publisher"].to_pylist()
            self.own: dict[str, list[int]] = {}
            for place, publisher in enumerate(publishers):
                self.own.setdefault(publisher, []).append(place)
            numbers = {publisher: sight.number(publisher) for publisher in self.own}
            self.sets = np.array([numbers[publisher] for publisher in publishers])
            self.distinct = np.unique(self.sets).tolist()

    def expected(self) -> Iterator[pa.RecordBatch]:
        """A row for each event and each consumer who should have it, with the subscriptions that match."""
        interest = self.work.interest
        possible = (interest.since <= self.versions.max()) & (interest.until > self.versions.min())
        possible &= interest.expires >= self.clocks.min()
        possible[self.work.refused[self.system]] = False
        places = np.flatnonzero(possible)
        texts, names = (column.take(pa.array(places)).to_pylist() for column in (interest.texts, interest.consumers))
        found: list[tuple[int, NDArray[np.int64]]] = []
        for place, text, consumer in zip(places.tolist(), texts, names, strict=True):
            filter = understood(text, self.work.zone, self.work.limits)
            if filter is None:
                continue
            matched = self.chunk.truth(filter).true & self._counts(place)
            if matched.any() and not self.sight.everybody:
                matched = matched & self._sees(consumer)
            events = np.flatnonzero(matched)
            if len(events):
                found.append((place, events))
        if found:
            yield self._rows(found)

    def _counts(self, place: int) -> NDArray[np.bool_]:
        """In which events' batches the subscription counts."""
        interest = self.work.interest
        there = (self.versions >= interest.since[place]) & (self.versions < interest.until[place])
        counts: NDArray[np.bool_] = there & (self.clocks <= interest.expires[place])
        return counts

    def _sees(self, consumer: str) -> NDArray[np.bool_]:
        """Whose events the consumer sees."""
        mine = self.sight.number(consumer)
        if mine not in self.seen:
            self.seen[mine] = np.isin(self.sets, [one for one in self.distinct if self.sight.meet(one, mine)])
        if consumer not in self.own:
            return self.seen[mine]
        seen = self.seen[mine].copy()
        seen[self.own[consumer]] = True
        return seen

    def _rows(self, found: list[tuple[int, NDArray[np.int64]]]) -> pa.RecordBatch:
        """Pairs of a subscription and an event, as one row for each consumer and event."""
        interest = self.work.interest
        places = np.concatenate([np.full(len(events), place) for place, events in found])
        events = np.concatenate([events for _, events in found])
        consumers = interest.consumers.take(pa.array(places)).dictionary_encode()
        ids = interest.ids.take(pa.array(places))
        ranked = pc.rank(ids, tiebreaker="dense").to_numpy()
        order = np.lexsort((ranked, consumers.indices.to_numpy(), events))
        events, owners = events[order], consumers.indices.to_numpy()[order]
        first = np.ones(len(order), np.bool_)
        first[1:] = (events[1:] != events[:-1]) | (owners[1:] != owners[:-1])
        starts = np.flatnonzero(first)
        offsets = pa.array(np.append(starts, len(order)).astype(np.int32))
        rows = self.rows.take(pa.array(events[starts]))
        count = len(starts)
        columns = {
            "batch": rows["batch"],
            "rank": rows["rank"],
            "publisher": pa.nulls(count, pa.string()),
            "event_id": pa.nulls(count, pa.string()),
            "consumer": consumers.dictionary.take(pa.array(owners[starts])),
            "version": pa.array(np.ones(count, np.int32)),
            "ids": pa.ListArray.from_arrays(offsets, ids.take(pa.array(order))),
            "path": pa.nulls(count, EXPECTED.field("path").type),
            "content": pa.nulls(count, pa.string()),
        }
        return pa.RecordBatch.from_arrays([columns[name] for name in EXPECTED.names], schema=EXPECTED)


# — where flows are followed —


def one_by_one(
    work: Work, apply_mapping: ApplyMapping, parse_mapping: ParseMapping, *, stateful: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Events (batch, rank, publisher, event_id, event), sorted, to what they bring, by the reference.

    With policies that remember, all batches come in one partition, and also those without events are gone through:
    what was held back comes in one of them.
    """

    def expect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reference = Reference(apply_mapping, parse_mapping)
        seen = _Systems(work)
        waiting = sorted(work.batches) if stateful else []
        for ordinal, events in groupby(_events(work, batches), key=lambda pair: pair[0]):
            while waiting and waiting[0] < ordinal:
                yield from _followed(reference, seen, work.batches[waiting.pop(0)], [])
            waiting = waiting[1:] if waiting else []
            yield from _followed(reference, seen, work.batches[ordinal], [event for _, event in events])
        for ordinal in waiting:
            yield from _followed(reference, seen, work.batches[ordinal], [])

    return expect


@dataclass
class _Systems:
    """The systems of batches, with the subscriptions that count; the last one is kept."""

    work: Work
    _last: tuple[Any, System] | None = field(default=None)

    def of(self, batch: Batch) -> System:
        places = self.work.counting(batch)
        key = (batch.system, places.tobytes())
        if self._last is None or self._last[0] != key:
            subscriptions = self.work.interest.subscriptions(places)
            self._last = key, replace(self.work.systems[batch.system], subscriptions=subscriptions)
        return self._last[1]


def _events(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Event]]:
    for rows in batches:
        for row in rows.to_pylist():
            batch = work.batches[row["batch"]]
            content = Tree.of(decoded(row[EVENT]), work.schemas[batch.schema], work.hidden[batch.source])
            yield batch.ordinal, Event(row["publisher"], row["event_id"], content)


def _followed(reference: Reference, seen: _Systems, batch: Batch, events: list[Event]) -> Iterator[pa.RecordBatch]:
    outcome = reference.batch(seen.of(batch), events, batch.clock.timestamp(), batch.source)
    if outcome.notifications:
        hidden = seen.work.hidden[batch.source]
        rows = [_row(batch.ordinal, one, hidden) for one in outcome.notifications]
        yield pa.RecordBatch.from_pylist(rows, schema=EXPECTED)


def _row(batch: int, one: Notification, hidden: frozenset[str]) -> dict[str, Any]:
    return {
        "batch": batch,
        "rank": None,
        "publisher": one.publisher,
        "event_id": one.event_id,
        "consumer": one.consumer,
        "version": one.version,
        "ids": sorted(one.subscription_ids),
        "path": one.path,
        "content": image(one.content, hidden),
    }


def decoded(variant: Any) -> Any:
    """The Python value of a VARIANT that came as Arrow."""
    from pyspark.sql.types import VariantVal

    with localcontext(prec=100):  # PySpark rounds to the precision of the context
        return VariantVal(variant["value"], variant["metadata"]).toPython()


def image(content: Mapping[str, object], hidden: frozenset[str]) -> str:
    """The same text for equal contents, the columns that are no attributes left out."""
    same = sameness({name: value for name, value in content.items() if name not in hidden})
    return md5(repr(sorted(map(repr, same))).encode(), usedforsecurity=False).hexdigest()
