"""The ledger: what a batch depends on is written down before the batch is computed.

Law: results are a function of the opening row. A retry reads it back, so it computes the same rows, and finds by its
tag which of its commits already happened. Ordinals are the ledger's own and only grow. How a batch went is written
together with the next opening: one commit a batch.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import functions as F

from routing.model import Opening, Report
from routing.tables import Tables
from schemas import BATCHES, CONTROL
from schemas.engine import CLOCK, CLOSED, KEY, OPENED, ORDINAL, STATE

CODE = "0.1.0"
OUTPUTS = ("notifications", "events", "dead_letters")


class Ledger:
    """Opens and closes batches; the caller sees to it that one batch at a time is under way."""

    def __init__(self, tables: Tables, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._tables, self._now = tables, clock
        self._version, self._last, self._unwritten = -1, 0, list[tuple[object, ...]]()
        self.schemas: dict[str, str] = {}

    def find(self, key: str) -> Opening | None:
        """The opening of a batch that was opened before, as a retry; None for a new key."""
        self.refresh()
        if self._last == 0:
            return None
        rows = self._tables.read("batches").where((F.col(STATE) == OPENED) & (F.col(KEY) == key)).toArrow().to_pylist()
        return _opening(rows[0]) if rows else None

    def open(self, key: str, source: str, schema: str) -> Opening:
        """Pin the versions of all tables and the clock under a new ordinal."""
        self.refresh()
        opening = Opening(
            ordinal=self._last + 1,
            key=key,
            source=source,
            clock=self._now(),
            control={table.name: self._tables.version(table.name) for table in CONTROL},
            outputs={name: self._tables.version(name) for name in OUTPUTS},
            schema=schema,
        )
        self._unwritten.append(
            (
                opening.ordinal,
                OPENED,
                key,
                source,
                opening.clock,
                dict(opening.control),
                dict(opening.outputs),
                schema,
                CODE,
                None,
                None,
            )
        )
        self.flush()
        self._last, self.schemas[source] = opening.ordinal, schema
        return opening

    def close(self, opening: Opening, report: Report) -> None:
        """Note how a batch went; it is written with the next opening, or by `flush`."""
        self._unwritten.append(
            (
                opening.ordinal,
                CLOSED,
                opening.key,
                opening.source,
                opening.clock,
                None,
                None,
                None,
                CODE,
                dict(report.counts),
                report.seconds,
            )
        )

    def flush(self) -> None:
        """Write what is noted."""
        if self._unwritten:
            rows = self._tables.spark.createDataFrame(self._unwritten, BATCHES.columns)
            self._tables.append("batches", rows.coalesce(1), tag="sluice ledger")
            self._unwritten = []
            self._version = self._tables.version("batches")

    def refresh(self) -> None:
        """Read the last ordinal and each source's last schema, if another process has written since."""
        version = self._tables.version("batches")
        if version == self._version:
            return
        if version == 0:  # nothing but the table's creation
            self._version = 0
            return
        newest = F.max_by("schema", ORDINAL).alias("schema")
        rows = (
            self._tables.read("batches", version)
            .where(F.col(STATE) == OPENED)
            .groupBy("source")
            .agg(F.max(ORDINAL).alias(ORDINAL), newest)
        )
        found = rows.collect()  # one row per source
        self._last = max((row[ORDINAL] for row in found), default=0)
        self.schemas.update({row["source"]: row["schema"] for row in found})
        self._version = version


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
