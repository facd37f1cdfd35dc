"""Subscribing by call: what SQL users do by inserting a row, with the checks made at once.

Law: a call that returns has committed; a call that raises has written nothing. The tables are the only state.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from routing.errors import SubscriptionError, nearest
from routing.filters import parse
from routing.model import EFFECTIVE_ID_SQL, UNUSABLE_NAMES, effective_id
from routing.tables import Tables
from schemas import SUBSCRIPTIONS
from schemas.control import CONSUMER, EXPIRES_AT, FILTER, ID


def subscribe(tables: Tables, consumer: str, filter: str, id: str | None, expires_at: datetime | None) -> str:
    """Insert one subscription; returns its effective id."""
    if consumer in UNUSABLE_NAMES:
        raise SubscriptionError(f"'{consumer}' cannot be a consumer's name: as a partition it would read back as NULL")
    if id == "":
        raise SubscriptionError("an empty id; give one, or omit it and a hash of consumer and filter is used")
    parse(filter, limits=tables.config.filters.limits(), zone=tables.zone)
    row = {CONSUMER: consumer, FILTER: filter, ID: id, EXPIRES_AT: expires_at}
    tables.insert("subscriptions", tables.spark.createDataFrame([tuple(row.values())], _columns(row)))
    return effective_id(consumer, filter, id)


def subscribe_many(tables: Tables, rows: DataFrame) -> None:
    """Insert many subscriptions in one commit. Filters are checked by the next batch, which reports to `rejections`."""
    for name in rows.columns:
        if name not in SUBSCRIPTIONS.columns.names:
            close = nearest(name, SUBSCRIPTIONS.columns.names)
            raise SubscriptionError(
                f"subscriptions have no column '{name}'." + (f" Did you mean '{close}'?" if close else "")
            )
    for name in (CONSUMER, FILTER):
        if name not in rows.columns:
            raise SubscriptionError(f"subscriptions need a column '{name}'; these have {', '.join(rows.columns)}")
    tables.insert("subscriptions", rows)


def unsubscribe(tables: Tables, consumer: str, id: str) -> int:
    """Delete the subscription with this effective id; returns how many there were: 1 or, if it was unknown, 0."""
    mine = (F.col(CONSUMER) == consumer) & (F.expr(EFFECTIVE_ID_SQL) == id)
    if tables.read("subscriptions").where(mine).isEmpty():
        return 0
    tables.delete("subscriptions", mine)
    return 1


def _columns(names: Mapping[str, Any]) -> StructType:
    return StructType([SUBSCRIPTIONS.columns[name] for name in names])
