"""The subscriptions that count in a batch, as columns: a million of them are a few arrays, not a million objects.

Law: what is active is a function of the table's version and the clock. The bulk is an *edition*, made once and kept; a
small change to the table is read as a change and kept beside it, and folded into the next edition in the background
when it has grown. Positions are those of the order by consumer and id, so equal sets give equal results, however they
came about. A row that does not parse matches nothing and is a problem to report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import count
from threading import Thread
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as F

from routing.acting import NOBODY, Refused
from routing.errors import FilterError
from routing.matching.clauses import Clauses
from routing.matching.texts import lower_texts, owners_of
from routing.model import EFFECTIVE_ID_SQL, UNUSABLE_NAMES, Problem
from routing.tables import Tables
from schemas.control import CONSUMER, EXPIRES_AT, FILTER, ID

TABLE = "subscriptions"
NEVER = np.iinfo(np.int64).max
FOLD, SHARE = 1_000, 50
"""A change is folded in when it has more than FOLD rows, and more than one in SHARE of the edition's."""

Key: TypeAlias = tuple[str, str]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_editions = count()


@dataclass(frozen=True, slots=True)
class Row:
    """What a subscription says beside its key."""

    text: str
    expires: int


@dataclass(frozen=True, eq=False)
class Edition:
    """Subscriptions sorted by consumer and id, and what their filters come to."""

    number: int
    consumers: pa.StringArray
    ids: pa.StringArray
    texts: pa.LargeStringArray
    expires: NDArray[np.int64]
    clauses: Clauses
    problems: tuple[Problem, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def place(self, key: Key) -> int:
        """How many come before the key."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if (self.consumers[middle].as_py(), self.ids[middle].as_py()) < key:
                low = middle + 1
            else:
                high = middle
        return low

    def has_consumer(self, name: str) -> bool:
        """Whether the consumer has a subscription here."""
        at = self.place((name, ""))
        return at < len(self) and self.consumers[at].as_py() == name

    def pairs(self) -> Iterator[Key]:
        """Consumer and id of each."""
        return zip(self.consumers.to_pylist(), self.ids.to_pylist(), strict=True)

    def find(self, key: Key) -> int | None:
        """The position of the key, if it is there."""
        at = self.place(key)
        there = at < len(self) and (self.consumers[at].as_py(), self.ids[at].as_py()) == key
        return at if there else None

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """The first position of each consumer."""
        change = np.ones(len(self), np.bool_)
        if len(self):
            change[1:] = pc.not_equal(self.consumers[1:], self.consumers[:-1]).to_numpy(zero_copy_only=False)
        return np.flatnonzero(change)

    @property
    def names(self) -> pa.StringArray:
        """The consumers, each once."""
        return self.consumers.take(pa.array(self.firsts))

    @property
    def numbers(self) -> NDArray[np.int32]:
        """The consumer of each position, as a place in `names`."""
        sizes = np.diff(np.append(self.firsts, len(self)))
        return np.repeat(np.arange(len(self.firsts), dtype=np.int32), sizes)

    def expired(self, clock: datetime) -> NDArray[np.int64]:
        """The positions whose time is over."""
        return np.flatnonzero(self.expires < _microseconds(clock))


@dataclass(frozen=True, eq=False)
class Active:
    """The subscriptions that count: an edition, what has come since, and the positions of the edition that are out."""

    key: tuple[int, ...]
    edition: Edition
    since: Edition | None
    dead: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.edition) - len(self.dead) + (len(self.since) if self.since else 0)

    @property
    def names(self) -> set[str]:
        """The attributes that some filter names."""
        return set(self.edition.clauses.names) | set(self.since.clauses.names if self.since else ())

    def has_consumer(self, name: str) -> bool:
        """Whether somebody of this name subscribes, or did until lately."""
        return any(edition.has_consumer(name) for edition in (self.edition, self.since) if edition)

    def naming(self, name: str) -> Iterator[tuple[str, str, str]]:
        """Consumer, id and text of the subscriptions whose filter names the attribute."""
        out = set(self.dead.tolist())
        for edition in (self.edition, self.since) if self.since else (self.edition,):
            for at in owners_of(edition.clauses, name).tolist():
                if edition is self.since or at not in out:
                    yield edition.consumers[at].as_py(), edition.ids[at].as_py(), edition.texts[at].as_py()

    @property
    def problems(self) -> list[Problem]:
        """What is wrong with rows that are not out."""
        out = set(self.dead.tolist())
        old = [one for one in self.edition.problems if self.edition.find((one.owner, one.id)) not in out]
        return [*old, *(self.since.problems if self.since else ())]


class Control:
    """Follows the table from version to version."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._version: int | None = None
        self._edition = self._bound(_EMPTY)
        self._changed: dict[Key, Row | None] = {}
        self._repeated: set[Key] = set()
        """Keys with several rows, of which the newest counts: taking one away needs a look at the others."""
        self._next: _Folding | None = None
        self._active: Active | None = None

    def active(self, versions: Mapping[str, int], clock: datetime, refused: Refused = NOBODY) -> Active:
        """The subscriptions active at the clock, but for those refused.

        The set changes with the table's version and when an expiry passes.
        """
        if versions[TABLE] != self._version:
            self._follow(versions[TABLE])
        self._turn_page()
        gone = self._edition.expired(clock)
        now = _microseconds(clock)
        alive = {key: row for key, row in self._changed.items() if row is not None and row.expires >= now}
        alive = {key: row for key, row in alive.items() if key not in refused.keys}
        key = (self._version or 0, self._edition.number, len(gone), len(alive), refused.number)
        if self._active is None or self._active.key != key:
            out = {*self._changed, *refused.keys}
            replaced = [at for one in out if (at := self._edition.find(one)) is not None]
            since = self._bound(_table(alive)) if alive else None
            self._active = Active(key, self._edition, since, np.union1d(gone, np.array(replaced, np.int64)))
        return self._active

    def _follow(self, version: int) -> None:
        """Come to the version, by what has changed since the last one if that can be told, else by reading all."""
        changes = self._changes(version)
        if changes is None:
            rows, self._repeated = _newest(self._read(version))
            self._edition, self._changed, self._next = self._bound(rows), {}, None
        else:
            self._changed |= changes
            if self._next:
                self._next.later |= changes
        self._version = version

    def _changes(self, version: int) -> dict[Key, Row | None] | None:
        """The keys that have changed and their rows now; None if only a look at all rows could tell."""
        if self._version is None or version < self._version:
            return None
        most = max(FOLD, len(self._edition) // 10)
        try:
            rows = self._tables.changes(TABLE, self._version, version)
            if rows is None:
                return None
            picked = rows.select(*_columns(), "_change_type", "_commit_version").limit(most + 1)
            found = picked.toArrow().to_pylist()
        except (PySparkException, Py4JError):  # the feed was not on, or its files are gone
            return None
        return None if len(found) > most else self._told(found)

    def _told(self, rows: list[dict[str, object]]) -> dict[Key, Row | None] | None:
        changes: dict[Key, Row | None] = {}
        per_commit: dict[tuple[object, Key], list[dict[str, object]]] = {}
        for row in sorted(rows, key=lambda row: int(str(row["_commit_version"]))):
            key = (str(row[CONSUMER]), str(row[ID]))
            per_commit.setdefault((row["_commit_version"], key), []).append(row)
        for (_, key), some in per_commit.items():
            added = [row for row in some if row["_change_type"] in ("insert", "update_postimage")]
            taken = len(some) - len(added)
            if (key in self._repeated and taken) or len(added) > 1 or taken > 1:
                return None
            there = changes[key] is not None if key in changes else self._knows(key)
            if added:
                changes[key] = Row(str(added[0][FILTER]), _expiry(added[0][EXPIRES_AT]))
                if there and not taken:
                    self._repeated.add(key)
            else:
                changes[key] = None
        return changes

    def _knows(self, key: Key) -> bool:
        if key in self._changed:
            return self._changed[key] is not None
        return self._edition.find(key) is not None

    def _turn_page(self) -> None:
        """Begin a new edition in the background when the change has grown; take it when it is finished."""
        if self._next is not None:
            if self._next.edition is not None:
                self._edition, self._changed = self._next.edition, self._next.later
            if not self._next.working():  # finished, or failed: then it is tried again
                self._next = None
        elif len(self._changed) > max(FOLD, len(self._edition) // SHARE):
            self._next = _Folding(self, self._edition, dict(self._changed))

    def folded(self, edition: Edition, changed: Mapping[Key, Row | None]) -> Edition:
        """The edition with the changes in it."""
        keep = np.ones(len(edition), np.bool_)
        keep[[at for key in changed if (at := edition.find(key)) is not None]] = False
        columns = (edition.consumers, edition.ids, edition.texts, pa.array(edition.expires))
        old = pa.Table.from_arrays([column.filter(pa.array(keep)) for column in columns], names=_NAMES)
        new = _table({key: row for key, row in changed.items() if row is not None})
        return self._bound(pa.concat_tables([old, new]))

    def _read(self, version: int) -> pa.Table:
        order = ("_metadata.row_commit_version", "_metadata.row_id")
        return self._tables.read(TABLE, version).select(*_columns(), *order).toArrow()

    def _bound(self, rows: pa.Table) -> Edition:
        """The rows as an edition."""
        rows = rows.sort_by([(CONSUMER, "ascending"), (ID, "ascending")]).combine_chunks()
        consumers, ids, texts, expires = (_whole(rows[name]) for name in _NAMES)
        clauses, errors = lower_texts(
            texts, limits=self._tables.config.filters.limits(), zone=self._tables.zone, skip=_unusable(consumers)
        )
        wrong = [_problem(consumers[at].as_py(), ids[at].as_py(), texts[at].as_py(), error) for at, error in errors]
        return Edition(next(_editions), consumers, ids, texts, expires.to_numpy(), clauses, tuple(wrong))


class _Folding:
    """An edition in the making; what changes meanwhile comes on top of it."""

    def __init__(self, control: Control, edition: Edition, changed: Mapping[Key, Row | None]) -> None:
        self.later: dict[Key, Row | None] = {}
        self.edition: Edition | None = None
        self._thread = Thread(target=self._work, args=(control, edition, changed), daemon=True, name="sluice-fold")
        self._thread.start()

    def _work(self, control: Control, edition: Edition, changed: Mapping[Key, Row | None]) -> None:
        self.edition = control.folded(edition, changed)

    def working(self) -> bool:
        return self._thread.is_alive() and self.edition is None

    def join(self) -> None:
        self._thread.join()


def _columns() -> list[Column]:
    return [F.col(CONSUMER), F.expr(EFFECTIVE_ID_SQL).alias(ID), F.col(FILTER), F.col(EXPIRES_AT)]


def nobody() -> Edition:
    """No subscriptions."""
    clauses, _ = lower_texts(pa.array([], pa.large_string()))
    none = pa.array([], pa.string())
    return Edition(-1, none, none, none.cast(pa.large_string()), np.empty(0, np.int64), clauses, ())


def _newest(rows: pa.Table) -> tuple[pa.Table, set[Key]]:
    """Of the rows with one key the newest, and the keys that have several."""
    order = [CONSUMER, ID, "row_commit_version", "row_id"]
    rows = rows.sort_by([(name, "ascending") for name in order]).combine_chunks()
    last = np.ones(len(rows), np.bool_)
    if len(rows) > 1:
        same = [pc.equal(rows[name][1:], rows[name][:-1]) for name in (CONSUMER, ID)]
        last[:-1] = ~pc.and_(*same).to_numpy()
    old = rows.filter(pa.array(~last))
    repeated = set(zip(old[CONSUMER].to_pylist(), old[ID].to_pylist(), strict=True))
    kept = rows.filter(pa.array(last))
    return pa.table([kept[CONSUMER], kept[ID], kept[FILTER].cast(pa.large_string()), _expiries(kept)], _NAMES), repeated


def _expiries(rows: pa.Table) -> pa.ChunkedArray:
    moments = rows[EXPIRES_AT].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return pc.fill_null(moments, NEVER)


def _table(rows: Mapping[Key, Row]) -> pa.Table:
    consumers, ids = [key[0] for key in rows], [key[1] for key in rows]
    texts, expires = [row.text for row in rows.values()], [row.expires for row in rows.values()]
    types = (pa.string(), pa.string(), pa.large_string(), pa.int64())
    columns = zip((consumers, ids, texts, expires), types, strict=True)
    return pa.table([pa.array(values, type) for values, type in columns], _NAMES)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _unusable(consumers: pa.StringArray) -> dict[int, FilterError]:
    """Consumers whose name cannot be a partition."""
    found = np.flatnonzero(pc.is_in(consumers, pa.array(UNUSABLE_NAMES)).to_numpy(zero_copy_only=False))
    return {int(at): FilterError(f"'{consumers[int(at)]}' cannot be a consumer's name", column=1) for at in found}


def _problem(consumer: str, id: str, text: str, error: FilterError) -> Problem:
    if consumer in UNUSABLE_NAMES:
        return Problem("error", TABLE, consumer, id, text, error.message)
    return Problem("error", TABLE, consumer, id, text, str(error), error.column)


def _expiry(moment: object) -> int:
    return _microseconds(moment.astimezone(UTC)) if isinstance(moment, datetime) else NEVER


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


_NAMES = [CONSUMER, ID, FILTER, EXPIRES_AT]
_EMPTY = _table({})
