"""Views: what a consumer reads. Any session in any process knows them after running `register.sql`.

Law: a name that comes from data is used only if it is plain (letters, digits, a few marks), and then quoted; any other
column is left out of the view and stays reachable in `event`. So no text from an event becomes SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from routing.model import EFFECTIVE_ID_SQL
from routing.tables import Tables, quoted, text
from routing.variant_path import variant_path
from schemas.delivery import (
    BATCH,
    CONSUMER,
    DELIVERED_AT,
    EVENT,
    EVENT_ID,
    PATH,
    PUBLISHED_AT,
    PUBLISHER,
    SEQUENCE,
    SUBSCRIPTION_IDS,
)

_PLAIN = re.compile(r"[\w .:/$@-]{1,128}")
_FIRST, _LAST = (CONSUMER,), (EVENT_ID, PUBLISHER, PUBLISHED_AT, SUBSCRIPTION_IDS, PATH, BATCH, SEQUENCE, DELIVERED_AT)


def statements(tables: Tables, sources: Mapping[str, StructType]) -> list[str]:
    """The SQL of all views: active_subscriptions, and notifications_<source> for each source."""
    return [
        _active_subscriptions(tables),
        *(_notifications(tables, name, schema) for name, schema in sorted(sources.items())),
    ]


def _active_subscriptions(tables: Tables) -> str:
    return f"""CREATE OR REPLACE VIEW {tables.name("active_subscriptions")} AS
  WITH known AS ( SELECT consumer, {EFFECTIVE_ID_SQL} AS id, filter, expires_at, created_at, created_by, row_number()
  OVER (PARTITION BY consumer, {EFFECTIVE_ID_SQL} ORDER BY _metadata.row_commit_version DESC, _metadata.row_id DESC)
  AS age FROM {tables.name("subscriptions")} ), wrong AS ( SELECT owner, id, max(severity = 'error') AS skipped,
  array_join(collect_list(reason), '; ') AS problem FROM {tables.name("rejections")} WHERE table_name =
  'subscriptions' GROUP BY owner, id ) SELECT known.consumer, known.id, known.filter, known.expires_at,
  known.created_at, known.created_by, NOT coalesce(wrong.skipped, false) AND (known.expires_at IS NULL OR
  known.expires_at >= current_timestamp()) AS active, wrong.problem FROM known LEFT JOIN wrong ON wrong.owner =
  known.consumer AND wrong.id = known.id
WHERE known.age = 1"""


def _notifications(tables: Tables, source: str, schema: StructType) -> str:
    """A source's notifications with its own columns, typed; a column named like one of ours gets the prefix event_."""
    taken = {name.lower() for name in (*_FIRST, *_LAST, EVENT)}
    columns = []
    for field in schema:
        if not _PLAIN.fullmatch(field.name):
            continue
        name = field.name
        while name.lower() in taken:
            name = f"event_{name}"
        taken.add(name.lower())
        path, type = text(variant_path([field.name]) or "$"), _type(field.dataType)
        columns.append(f"try_variant_get({EVENT}, {path}, '{type}') AS {quoted(name)}")
    shown = ", ".join([*_FIRST, *columns, *_LAST, EVENT])
    name = tables.name(f"notifications_{source}")
    return f"CREATE OR REPLACE VIEW {name} AS\nSELECT {shown}\nFROM {rows_of(tables)}\nWHERE source = {text(source)}"


def rows_of(tables: Tables) -> str:
    """The notifications, with the event from the journal where the payload is kept by reference."""
    if tables.config.notifications.payload == "embed":
        return tables.name("notifications")
    kept = ", ".join(f"n.{name}" for name in ("source", *_FIRST, *_LAST))
    return (
        f"(SELECT {kept}, coalesce(n.event, e.event) AS event"
        f" FROM {tables.name('notifications')} n LEFT JOIN {tables.name('events')} e"
        " ON e.batch = n.batch AND e.publisher = n.publisher AND e.event_id = n.event_id)"
    )


def _type(type: DataType) -> str:
    """The SQL type of a simple column; VARIANT for anything that may hold names from data or that views refuse."""
    if isinstance(type, StringType | CharType | VarcharType):
        return "string"
    simple = isinstance(type, NumericType | BooleanType | DateType | TimestampType | TimestampNTZType | BinaryType)
    return type.simpleString() if simple else "variant"


def attribute_names(schemas: Iterable[StructType], prefix: str = "") -> set[str]:
    """The dotted names of all columns of some schemas."""
    names: set[str] = set()
    for schema in schemas:
        for field in schema:
            names.add(prefix + field.name)
            if isinstance(field.dataType, StructType):
                names |= attribute_names([field.dataType], f"{prefix}{field.name}.")
    return names
