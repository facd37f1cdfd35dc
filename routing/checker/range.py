"""The batches that are looked at, and their rows in the tables.

Law: a batch has finished if the ledger says so, or if its notifications are there though its closing was lost with its
process. Of one that has not finished nothing is expected: its retry will come.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

if TYPE_CHECKING:
    from routing.config import Config
    from routing.tables import Tables

CLOSING = "closing"
_FEW = 200


@dataclass(frozen=True)
class Options:
    """Which batches, and how many pairs of an event and a subscription are looked at before it is a sample."""

    first: int = 1
    last: int | None = None
    pairs: int = 100_000_000
    seed: int = 0


@dataclass(frozen=True)
class Range:
    """The tables of an engine, its configuration, and which part of them is looked at."""

    tables: Tables
    config: Config
    options: Options

    @cached_property
    def ledger(self) -> dict[int, dict[str, Any]]:
        """The openings by ordinal, each with its closing's counts if there is one."""
        rows = self._within(self.tables.read("batches"), "ordinal")
        found = rows.drop("offsets", "code", "seconds").toArrow().to_pylist()
        openings = {row["ordinal"]: row for row in found if row["state"] == "opened"}
        for row in found:
            if row["state"] == "closed" and row["ordinal"] in openings:
                openings[row["ordinal"]][CLOSING] = dict(row["counts"] or ())
        return dict(sorted(openings.items()))

    @cached_property
    def finished(self) -> list[int]:
        """The batches that have finished."""
        unclosed = [ordinal for ordinal, row in self.ledger.items() if CLOSING not in row]
        seen = among(self.notifications, unclosed).select("batch").distinct().collect() if unclosed else []
        delivered = {row["batch"] for row in seen}
        return [ordinal for ordinal, row in self.ledger.items() if CLOSING in row or ordinal in delivered]

    @cached_property
    def notifications(self) -> DataFrame:
        """All notifications, whatever the ledger says of their batches."""
        return self._within(self.tables.read("notifications"), "batch")

    @cached_property
    def events(self) -> DataFrame:
        """The journal of the batches that have finished."""
        return among(self._within(self.tables.read("events"), "batch"), self.finished)

    @property
    def key(self) -> list[str]:
        """The columns that tell one event from another."""
        return ["event_id"] if self.config.duplicates.key == "id" else ["publisher", "event_id"]

    def _within(self, rows: DataFrame, ordinal: str) -> DataFrame:
        rows = rows.where(F.col(ordinal) >= self.options.first)
        return rows if self.options.last is None else rows.where(F.col(ordinal) <= self.options.last)


def among(rows: DataFrame, batches: list[int]) -> DataFrame:
    """The rows of these batches."""
    if len(batches) <= _FEW:
        return rows.where(F.col("batch").isin(*batches)) if batches else rows.where(F.lit(False))
    return rows.join(F.broadcast(_listed(rows, batches)), "batch", "left_semi")


def outside(rows: DataFrame, batches: list[int]) -> DataFrame:
    """The rows of all other batches."""
    return rows.join(F.broadcast(_listed(rows, batches)), "batch", "left_anti") if batches else rows


def per_batch(rows: DataFrame) -> dict[int, int]:
    """How many rows each batch has."""
    return {row["batch"]: row["count"] for row in rows.groupBy("batch").count().collect()}


def _listed(rows: DataFrame, batches: list[int]) -> DataFrame:
    schema = StructType([StructField("batch", LongType())])
    return rows.sparkSession.createDataFrame([(ordinal,) for ordinal in batches], schema)
