"""The memory of admitted events: which keys came within the horizon, so that none of them is delivered again.

Law: the memory follows from the journal alone, and may be lost: it is then made from the journal once more. It knows
what the journal holds at the version that it has followed, whoever wrote it. It is brought up to date and tidied up
under the engine's turn, so no batch is under way while files come and go; only the merging of large runs goes on beside
the batches, and what comes of it counts if the runs are still there.

    _seen/state.json     the version that was followed, and the runs that hold the keys
    _seen/clocks         ordinal and clock of each batch, sorted
    _seen/<run>/         see udfs/runs.py
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from routing.tables import Tables
from schemas.delivery import ADMITTED_AT, BATCH, CONTENT_HASH, KEY_HASH
from udfs.runs import FAN, Recall, Run, merge, words, write

JOURNAL = "events"
SMALL, LARGE = 1 << 16, 1 << 25
"""Up to so many entries a run grows with every batch; and so many a merged run has at most."""
_AT_ONCE = 1 << 20  # entries: merging more is done beside the batches
_FROM_JOURNAL = 1 << 22  # entries of a run that is made from the journal
_ENTRY = 32  # bytes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_CLOCKS = np.empty((0, 2), np.int64)


@dataclass(frozen=True)
class Kept:
    """A run on disk: its name, how many entries it has, and the last batch that has one."""

    name: str
    entries: int
    last: int


class Seen:
    """Follows the journal from version to version."""

    def __init__(self, tables: Tables, directory: Path) -> None:
        self._tables, self._place = tables, directory / "_seen"
        self._stamp, self._version, self._runs, self._clocks = "", -1, list[Kept](), _NO_CLOCKS
        self._merging: _Merging | None = None

    def recall(self, clock: datetime, horizon: timedelta, without: frozenset[int]) -> Recall | None:
        """What tells the content that came under a key within the horizon before the clock.

        None if nothing came. What the batches left out have written does not count.
        """
        since = clock - horizon
        self._load()
        before = (self._version, *self._runs)
        self._follow(self._tables.version(JOURNAL), since)
        first = self._first(since)
        self._runs = [run for run in self._runs if run.last >= first and run.entries]
        self._merge(first)
        if before != (self._version, *self._runs):
            self._clocks = self._clocks[self._clocks[:, 0] >= first]
            self._save()
        paths = tuple(str(self._place / run.name) for run in self._runs)
        return Recall(paths, first, tuple(sorted(without))) if paths else None

    def _first(self, since: datetime) -> int:
        """The first batch whose clock is not before a moment. Clocks grow with ordinals."""
        at = int(np.searchsorted(self._clocks[:, 1], (since - _EPOCH) // timedelta(microseconds=1)))
        ordinals = self._clocks[:, 0]
        return int(ordinals[at]) if at < len(ordinals) else int(ordinals[-1]) + 1 if at else 0

    # — what the journal has —

    def _follow(self, version: int, since: datetime) -> None:
        """Come to the version: by the files that appends have brought since, or by reading the journal."""
        if version == self._version:
            return
        self._place.mkdir(parents=True, exist_ok=True)
        if version == 0:  # nothing but the table's creation
            self._runs, self._clocks = [], _NO_CLOCKS
        elif self._version < 0 or self._version > version or not self._add_since(version):
            self._read_all(version, since)
        self._version = version

    def _add_since(self, version: int) -> bool:
        """Add what was appended since, a bounded number of entries at a time; false if that cannot be told."""
        files = self._tables.appended_files(JOURNAL, self._version, version)
        try:
            for entries in _entries(files or ()):
                self._add(entries)
        except (OSError, KeyError, pa.ArrowException):  # not as the journal writes them
            return False
        return files is not None

    def _add(self, entries: pa.Table) -> None:
        """Make a run of new entries, together with the last one if that is small."""
        last = self._runs[-1:]
        self._runs.append(_written(self._place, entries))
        if last and last[0].entries + self._runs[-1].entries <= SMALL:
            self._runs[-2:] = [self._merged(self._runs[-2:], 0)]
        batches = entries.group_by(BATCH).aggregate([(ADMITTED_AT, "min")])
        moments = batches[f"{ADMITTED_AT}_min"].cast(pa.int64()).to_numpy()
        clocks = np.column_stack([batches[BATCH].to_numpy(), moments])
        both = np.concatenate([self._clocks, clocks[~np.isin(clocks[:, 0], self._clocks[:, 0])]])
        self._clocks = both[np.argsort(both[:, 0])]

    def _read_all(self, version: int, since: datetime) -> None:
        """Make everything from the journal, by Spark: each task writes runs of what it reads."""
        journal = self._tables.read(JOURNAL, version).where(F.col(ADMITTED_AT) >= F.lit(since))
        rows = journal.select(KEY_HASH, CONTENT_HASH, BATCH)
        written = rows.mapInArrow(_writer(str(self._place)), "name string, entries bigint, last bigint")
        self._runs = [Kept(**row.asDict()) for row in written.collect()]
        clock = F.unix_micros(F.min(ADMITTED_AT)).alias(ADMITTED_AT)
        clocks = journal.groupBy(BATCH).agg(clock).orderBy(BATCH).toArrow()
        self._clocks = np.column_stack([clocks[BATCH].to_numpy(), clocks[ADMITTED_AT].to_numpy()]).astype(np.int64)

    # — fewer and larger runs —

    def _merge(self, first: int) -> None:
        """Merge runs of about one size: small ones now, large ones beside the batches that come."""
        if self._merging:
            if self._merging.under_way:
                return
            done, self._merging = self._merging.take(), None
            if done and set(done[0]) <= set(self._runs):
                at = self._runs.index(done[0][0])
                self._runs = [run for run in self._runs if run not in done[0]]
                self._runs.insert(at, done[1])
        while group := _group(self._runs):
            if sum(run.entries for run in group) > _AT_ONCE:
                self._merging = _Merging(group, lambda: self._merged(group, first))
                return
            at = self._runs.index(group[0])
            self._runs = [run for run in self._runs if run not in group]
            self._runs.insert(at, self._merged(group, first))

    def _merged(self, group: list[Kept], first: int) -> Kept:
        name = uuid4().hex
        many = merge(self._place / name, [Run.load(self._place / run.name) for run in group], first)
        return Kept(name, many, max(run.last for run in group))

    # — what lies on disk —

    def _load(self) -> None:
        """What another process may have done since; nothing is known if it is not whole."""
        try:
            state = json.loads((self._place / "state.json").read_text())
            if state["stamp"] == self._stamp:
                return
            runs = [Kept(**run) for run in state["runs"]]
            clocks = np.fromfile(self._place / "clocks", np.int64).reshape(-1, 2)
            sizes = [(self._place / run.name / "entries.npy").stat().st_size for run in runs]
            if any(size < run.entries * _ENTRY for size, run in zip(sizes, runs, strict=True)):
                raise ValueError("a run was cut short")
            self._stamp, self._version, self._runs, self._clocks = state["stamp"], state["version"], runs, clocks
        except (OSError, ValueError, TypeError, KeyError):
            self._stamp, self._version, self._runs, self._clocks = "", -1, [], _NO_CLOCKS

    def _save(self) -> None:
        """Let others know, then remove what nobody needs."""
        self._stamp = uuid4().hex
        state = {"stamp": self._stamp, "version": self._version, "runs": [asdict(run) for run in self._runs]}
        for name, content in (("clocks", self._clocks.tobytes()), ("state.json", json.dumps(state).encode())):
            draft = self._place / f"{name}.part"
            draft.write_bytes(content)
            draft.replace(self._place / name)
        needed = {run.name for run in self._runs} | {"state.json", "clocks"}
        for one in self._place.iterdir() if not self._merging else ():  # a run in the making has no name here yet
            if one.name not in needed:
                shutil.rmtree(one, ignore_errors=True)


class _Merging:
    """A merge under way in a thread; it gives up if another process takes its files away."""

    def __init__(self, group: list[Kept], work: Callable[[], Kept]) -> None:
        self._group, self._work, self._made = group, work, list[Kept]()
        self._thread = Thread(target=self._run, daemon=True, name="sluice-merge")
        self._thread.start()

    def _run(self) -> None:
        try:
            self._made = [self._work()]
        except OSError:
            self._made = []

    @property
    def under_way(self) -> bool:
        return self._thread.is_alive()

    def take(self) -> tuple[list[Kept], Kept] | None:
        """The runs that were merged, and what came of it."""
        return (self._group, self._made[0]) if self._made else None


def _group(runs: list[Kept]) -> list[Kept] | None:
    """The first FAN runs of one size, that is within a factor of FAN, if there are so many."""
    sizes: dict[int, list[Kept]] = {}
    for run in runs:
        some = sizes.setdefault(max(run.entries // SMALL, 1).bit_length() // (FAN.bit_length() - 1), [])
        some.append(run)
        if len(some) == FAN and sum(one.entries for one in some) <= LARGE:
            return some
    return None


def _entries(files: Iterable[Path]) -> Iterator[pa.Table]:
    """What the memory needs of files of the journal."""
    waiting: list[pa.Table] = []
    for file in files:
        read = pq.ParquetFile(file, coerce_int96_timestamp_unit="us").read(_TYPES.names)
        waiting.append(read.select(_TYPES.names).cast(_TYPES))
        if sum(map(len, waiting)) >= _FROM_JOURNAL:
            yield pa.concat_tables(waiting)
            waiting = []
    if any(map(len, waiting)):
        yield pa.concat_tables(waiting)


def _written(place: Path, entries: pa.Table) -> Kept:
    keys, ordinals = words(entries[KEY_HASH].combine_chunks()), entries[BATCH].to_numpy()
    name = uuid4().hex
    return Kept(name, write(place / name, keys, entries[CONTENT_HASH].to_numpy(), ordinals), int(ordinals.max()))


def _writer(place: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Runs of the entries that a task reads, a bounded number at a time."""

    def run(waiting: list[pa.RecordBatch]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([asdict(_written(Path(place), pa.Table.from_batches(waiting)))])

    def write_runs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: list[pa.RecordBatch] = []
        for batch in batches:
            waiting += [batch] if batch.num_rows else []
            if sum(one.num_rows for one in waiting) >= _FROM_JOURNAL:
                yield run(waiting)
                waiting = []
        if waiting:
            yield run(waiting)

    return write_runs


_TYPES = pa.schema(
    {KEY_HASH: pa.binary(), CONTENT_HASH: pa.int64(), BATCH: pa.int64(), ADMITTED_AT: pa.timestamp("us", "UTC")}
)
