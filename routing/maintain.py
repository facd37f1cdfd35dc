"""Bounded growth: what is older than the retention goes, small files become large ones, files of old versions go.

Law: safe while streams run. Every commit holds its table's lock; nothing is taken that a retry, a duplicate within the
horizon, or an unfinished batch may still need: the ledger keeps the last batch of each source and all that have not
finished. It may be stopped at any moment and run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F

from routing.ledger import Ledger
from routing.tables import Tables
from schemas.delivery import ADMITTED_AT, BATCH, DELIVERED_AT, REFUSED_AT
from schemas.engine import CLOCK, OPENED, ORDINAL, STATE


@dataclass(frozen=True)
class Done:
    """What was done to a table: rows that went, and files before and after."""

    table: str
    expired: int
    files: int
    compacted: int

    def __str__(self) -> str:
        return f"table={self.table} expired={self.expired} files={self.files} after={self.compacted}"


def maintain(tables: Tables, ledger: Ledger, now: datetime) -> Iterator[Done]:
    """Expire, compact and vacuum all tables that were ever written, one after the other."""
    old = _old(tables, ledger, now)
    used = [table for table in tables.described if tables.version(table)]  # version 0 is nothing but the creation
    for table in used:
        expired = _expire(tables, table, old[table]) if table in old else 0
        before = _files(tables, table)
        with tables.lock(table):
            tables.delta(table).optimize().executeCompaction()
        after = _files(tables, table)
        with tables.lock(table):
            tables.delta(table).vacuum()
        yield Done(table, expired, before, after)


def _old(tables: Tables, ledger: Ledger, now: datetime) -> dict[str, Column]:
    """The rows of each table that have had their time: whole batches, so that what is left is whole too."""
    retention, horizon = tables.config.retention, tables.config.duplicates.horizon
    ledger.refresh()
    opened = tables.read("batches").where(F.col(STATE) == OPENED)
    newest = [row[ORDINAL] for row in opened.groupBy("source").agg(F.max(ORDINAL).alias(ORDINAL)).collect()]
    needed = {*newest, *ledger.unfinished}

    def older(clock: str, than: timedelta, batch: str = BATCH) -> Column:
        return (F.col(clock) < F.lit(now - than)) & ~F.col(batch).isin(*needed)

    return {
        "notifications": older(DELIVERED_AT, retention),
        "dead_letters": older(REFUSED_AT, retention),
        "events": older(ADMITTED_AT, max(retention, horizon)),
        "batches": older(CLOCK, retention, ORDINAL),
    }


def _expire(tables: Tables, table: str, old: Column) -> int:
    """Delete the rows; how many there were."""
    count = tables.read(table).where(old).count()
    if count:
        tables.expire(table, old)
    return count


def _files(tables: Tables, table: str) -> int:
    found = tables.delta(table).detail().select("numFiles").first()
    return int(found["numFiles"]) if found else 0
