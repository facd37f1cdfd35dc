"""The ledger: what a batch depends on is written down before the batch is computed.

Law: results are a function of the opening row. A retry reads it back, so it computes the same rows, and finds by its
tag which of its commits already happened. Ordinals are the ledger's own and only grow. How a batch went is written
together with the next opening: one commit a batch. A batch that was opened and never made its notifications visible is
unfinished: until its retry comes, what it admitted does not count as delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version as installed
from typing import Any

from pyspark.sql import functions as F

from routing.model import Opening, Report
from routing.tables import Tables
from schemas import BATCHES, CONTROL
from schemas.engine import CLOCK, CLOSED, KEY, OPENED, ORDINAL, STATE

OUTPUTS = ("notifications", "events", "dead_letters", "policy_state")


class Ledger:
    """Opens and closes batches; the caller sees to it that one batch at a time is under way."""

    def __init__(self, tables: Tables, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._tables, self._now, self._code = tables, clock, installed("sluice-spark")
        self._version, self._last, self._closings = -1, 0, list[tuple[object, ...]]()
        self.schemas: dict[str, str] = {}
        self.unfinished: frozenset[int] = frozenset()

    def find(self, key: str) -> Opening | None:
        """The opening of a batch that was opened before, as a retry; None for a new key."""
        self.refresh()
        if self._last == 0:
            return None
        mine = self._tables.read("batches").where((F.col(STATE) == OPENED) & (F.col(KEY) == key))
        rows = mine.toArrow().to_pylist()
        return _opening(rows[0]) if rows else None

    def open(self, key: str, source: str, schema: str) -> Opening:
        """Pin the versions of all tables and the clock under a new ordinal."""
        self.refresh()
        control = {table.name: self._tables.version(table.name) for table in CONTROL}
        outputs = {name: self._tables.version(name) for name in OUTPUTS}
        opening = Opening(self._last + 1, key, source, self._now(), control, outputs, schema)
        self._write([_row(opening, OPENED, self._code)])
        self._last, self.schemas[source] = opening.ordinal, schema
        self.unfinished |= {opening.ordinal}
        return opening

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
        found = newest.agg(F.max(ORDINAL).alias(ORDINAL), F.max_by("schema", ORDINAL).alias("schema")).collect()
        self._last = max((row[ORDINAL] for row in found), default=0)
        self.schemas.update({row["source"]: row["schema"] for row in found})
        closed = batches.where(F.col(STATE) == CLOSED).select(ORDINAL)
        unclosed = batches.join(closed, ORDINAL, "left_anti").toArrow().to_pylist()  # at most a few crashes' worth
        self.unfinished = frozenset(row[ORDINAL] for row in unclosed if not self._delivered(_opening(row)))
        self._version = version

    def _delivered(self, opening: Opening) -> bool:
        since = opening.outputs["notifications"]
        noted = any(row[0] == opening.ordinal for row in self._closings)
        return noted or self._tables.appended("notifications", tag=opening.tag, since=since) is not None

    def _write(self, opened: Sequence[tuple[object, ...]]) -> None:
        rows = self._tables.spark.createDataFrame([*self._closings, *opened], BATCHES.columns)
        self._tables.append("batches", rows.coalesce(1), tag="sluice ledger")
        self._closings = []
        self._version = self._tables.version("batches")


def _row(opening: Opening, state: str, code: str, report: Report | None = None) -> tuple[object, ...]:
    """A row of `batches`: an opening says what is pinned, a closing how it went."""
    pins = (None, None, None) if report else (dict(opening.control), dict(opening.outputs), opening.schema)
    went = (dict(report.counts), report.seconds) if report else (None, None)
    return (opening.ordinal, state, opening.key, opening.source, opening.clock, *pins, code, *went)


def _opening(row: dict[str, Any]) -> Opening:
    return Opening(
        ordinal=row[ORDINAL],
        key=row[KEY],
        source=row["source"],
        clock=row[CLOCK].astimezone(UTC),
        control=dict(row["control_versions"]),
        outputs=dict(row["output_versions"]),
        schema=row["schema"],
        retry=True,
    )
