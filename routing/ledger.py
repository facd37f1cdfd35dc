"""The ledger: what a batch depends on is written down before the batch is computed.

Law: results are a function of the opening row. A retry reads it back, so it computes the same rows, and finds by its
tag which of its commits already happened. Ordinals are the ledger's own and only grow. How a batch went is written
together with the next opening: one commit a batch. A batch that was opened and never made its notifications visible is
unfinished: until its retry comes, what it admitted does not count as delivered. One that did, but whose closing was
lost with its process, is closed by the next opening, before its table forgets the commit. Clocks never go back: if the
machine's does, a batch has the clock of the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version as installed
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from routing.errors import TableRestored
from routing.model import Opening, Report
from routing.tables import Tables
from schemas import BATCHES, CONTROL
from schemas.delivery import BATCH
from schemas.engine import CLOCK, CLOSED, KEY, OPENED, ORDINAL, STATE

TAG = "sluice ledger"
_COLUMNS = to_arrow_schema(BATCHES.columns, timezone="UTC")
_LOOKED_BACK = 20  # commits of the ledger: one that was set back before these has gone on since
OUTPUTS = ("notifications", "events", "dead_letters", "policy_state")


class Ledger:
    """Opens and closes batches; the caller sees to it that one batch at a time is under way."""

    def __init__(
        self,
        tables: Tables,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        accept_restored: bool = False,
    ) -> None:
        self._tables, self.now, self._code = tables, clock, installed("sluice-spark")
        self._version, self.last, self._closings = -1, 0, list[tuple[object, ...]]()
        self._lost: list[tuple[object, ...]] = []
        """The closings of batches that delivered and whose process did not live to write one."""
        self.schemas: dict[str, str] = {}
        self.unfinished: frozenset[int] = frozenset()
        self._clock = datetime.min.replace(tzinfo=UTC)
        self._accept, self._vouched, self._floor = accept_restored, False, 0

    def find(self, key: str) -> Opening | None:
        """The opening of a batch that was opened before, as a retry; None for a new key."""
        self.refresh()
        self._vouch()
        if self.last == 0:
            return None
        mine = self._tables.read("batches").where((F.col(STATE) == OPENED) & (F.col(KEY) == key))
        rows = mine.toArrow().to_pylist()
        return _opening(rows[0]) if rows else None

    def open(self, key: str, source: str, schema: str, offsets: str | None = None) -> Opening:
        """Pin the versions of all tables, the clock and what is unfinished under a new ordinal; `write` it."""
        self.refresh()
        self._vouch()
        control = {table.name: self._tables.version(table.name) for table in CONTROL}
        outputs = {name: self._tables.version(name) for name in OUTPUTS}
        ordinal = self.last + 1
        clock = max(self.now(), self._clock)
        opening = Opening(ordinal, key, source, clock, control, outputs, schema, offsets, self.unfinished)
        self.schemas[source] = schema
        return opening

    def write(self, opening: Opening) -> None:
        """Write the opening; nothing of its batch may be written before."""
        noted = {row[0] for row in self._closings}
        self._closings += [row for row in self._lost if row[0] not in noted]
        self._write([_row(opening, OPENED, self._code)])
        self._lost = []
        self.last, self._clock = opening.ordinal, opening.clock
        self.unfinished |= {opening.ordinal}

    def close(self, opening: Opening, report: Report) -> None:
        """Note how a batch went; it is written with the next opening, or by `flush`."""
        self._closings.append(_row(opening, CLOSED, self._code, report))
        self.unfinished -= {opening.ordinal}

    def flush(self) -> None:
        """Write what is noted."""
        if self._closings:
            self._write([])

    def refresh(self) -> None:
        """Read the last ordinal, each source's last schema and what is unfinished, if another process has written."""
        version = self._tables.version("batches")
        # Version 0 is nothing but the table's creation. What is unfinished may be delivered without a word here.
        if version == 0 or (version == self._version and not self.unfinished):
            self._version = version
            return
        batches = self._tables.read("batches", version)
        newest = batches.where(F.col(STATE) == OPENED).groupBy("source")
        latest = (F.max(ORDINAL).alias(ORDINAL), F.max_by("schema", ORDINAL).alias("schema"), F.max(CLOCK).alias(CLOCK))
        found = newest.agg(*latest).toArrow().to_pylist()
        self.last = max((row[ORDINAL] for row in found), default=0)
        self.last = max(self.last, self._floor)
        self._clock = max((row[CLOCK].astimezone(UTC) for row in found), default=self._clock)
        self.schemas.update({row["source"]: row["schema"] for row in found})
        closed = batches.where(F.col(STATE) == CLOSED).select(ORDINAL)
        unclosed = batches.join(closed, ORDINAL, "left_anti").toArrow().to_pylist()  # at most a few crashes' worth
        noted = {row[0] for row in self._closings}
        openings = [_opening(row) for row in unclosed if row[ORDINAL] not in noted]
        delivered = [(opening, self._delivered(opening)) for opening in openings]
        self.unfinished = frozenset(opening.ordinal for opening, rows in delivered if rows is None)
        self._lost = [
            _row(opening, CLOSED, self._code, Report(opening.ordinal, opening.source, {"notifications": rows}))
            for opening, rows in delivered
            if rows is not None
        ]
        self._version = version

    def _vouch(self) -> None:
        """Refuse to go on from tables that somebody has set back, unless told to; looked at once a process.

        Ordinals then go on behind all that are in use: a ledger that was set back would give them out again.
        """
        if self._vouched or not self._version:
            return
        restored = self._restored()
        if restored and not self._accept:
            raise TableRestored(
                f"{', '.join(restored)}: set back to an older version after the last batch. What was delivered since "
                "may be gone, and does not come again by itself; `sluice check` shows what is missing. Set the table "
                "forward again (RESTORE TABLE … TO VERSION AS OF …) or leave it so, and start once with "
                "--accept-restored"
            )
        if restored:
            tables = [self._tables.read(name) for name in ("notifications", "events")]
            tops = [rows.agg(F.max(BATCH)).first() for rows in tables]
            self._floor = max((top[0] for top in tops if top and top[0] is not None), default=0)
            self.last = max(self.last, self._floor)
        self._vouched = True

    def _restored(self) -> list[str]:
        """The engine's own tables that were set back since the last opening."""
        batches = self._tables.read("batches").where(F.col(STATE) == OPENED)
        last = batches.orderBy(F.desc(ORDINAL)).select("output_versions").first()
        pinned = dict(last["output_versions"]) if last else {}
        own = self._tables.version("batches")
        found = [n for n, version in pinned.items() if self._tables.restored(n, version, self._tables.version(n))]
        if self._tables.restored("batches", max(0, own - _LOOKED_BACK), own):
            since = self._tables.newest("batches", tag=TAG)
            found += ["batches"] if self._tables.restored("batches", since, own) else []
        return found

    def _delivered(self, opening: Opening) -> int | None:
        """How many notifications a batch has made visible; None if it has not come so far."""
        return self._tables.appended("notifications", tag=opening.tag, since=opening.outputs["notifications"])

    def _write(self, opened: Sequence[tuple[object, ...]]) -> None:
        # By way of Arrow the rows are part of the plan: Spark starts no task to make them.
        columns = zip(*self._closings, *opened, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _COLUMNS, strict=True)]
        rows = self._tables.spark.createDataFrame(pa.Table.from_arrays(arrays, schema=_COLUMNS), BATCHES.columns)
        self._tables.append("batches", rows.coalesce(1), tag=TAG)
        self._closings = []
        self._version = self._tables.version("batches")


def _row(opening: Opening, state: str, code: str, report: Report | None = None) -> tuple[object, ...]:
    """A row of `batches`: an opening says what is pinned, a closing how it went."""
    versions = dict(opening.control), dict(opening.outputs), opening.schema
    pins = (*versions, opening.offsets, sorted(opening.unfinished))
    went = (dict(report.counts), report.seconds) if report else (None, None)
    return (
        opening.ordinal, state, opening.key, opening.source, opening.clock,
        *((None,) * len(pins) if report else pins), code, *went,
    )  # fmt: skip


def _opening(row: dict[str, Any]) -> Opening:
    return Opening(
        ordinal=row[ORDINAL],
        key=row[KEY],
        source=row["source"],
        clock=row[CLOCK].astimezone(UTC),
        control=dict(row["control_versions"]),
        outputs=dict(row["output_versions"]),
        schema=row["schema"],
        offsets=row["offsets"],
        unfinished=frozenset(row["unfinished"] or ()),
        retry=True,
    )
