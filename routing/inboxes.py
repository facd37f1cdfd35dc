"""Views of one consumer each: what may be granted to a party that must not see the whole table.

Law: a consumer's name is never SQL text; in the view it is hex digits. Which views there are lies in a file beside the
tables, where the tables lie on a local file system; elsewhere the catalog itself keeps views.
"""

from __future__ import annotations

import json
import re
import uuid

from routing.errors import ConfigError
from routing.tables import Tables
from routing.views import rows_of

FILE = "_inboxes.json"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")


def add(tables: Tables, consumer: str, name: str | None) -> str:
    """Note a view for the consumer; returns its name. The caller holds the lock `_create`."""
    chosen = name or f"inbox_{consumer}"
    taken = chosen.lower() in (*tables.described, "active_subscriptions") or chosen.lower().startswith("notifications")
    if taken or not _NAME.fullmatch(chosen):
        raise ConfigError(f"'{chosen}' cannot be the name of a view. Give one of letters, digits and _, not yet taken")
    if tables.directory is not None:
        replace(tables, FILE, json.dumps({**known(tables), chosen: consumer}, sort_keys=True))
    return chosen


def known(tables: Tables) -> dict[str, str]:
    """The consumers of whom there are views, by the name of the view."""
    file = tables.directory / FILE if tables.directory else None
    return dict(json.loads(file.read_text())) if file and file.is_file() else {}


def statement(tables: Tables, name: str, consumer: str) -> str:
    """The SQL of a view of one consumer's notifications."""
    text = f"decode(X'{consumer.encode().hex()}', 'UTF-8')"
    mine, config = f"consumer = {text}", tables.config.notifications
    if config.layout == "bucket" and config.payload == "embed":
        mine += f" AND bucket = pmod(xxhash64({text}), {config.buckets})"
    return f"CREATE OR REPLACE VIEW {tables.name(name)} AS\nSELECT * FROM {rows_of(tables)}\nWHERE {mine}"


def replace(tables: Tables, name: str, text: str) -> None:
    """Write a file beside the tables: others see it whole, the old one or the new one."""
    assert tables.directory is not None
    draft = tables.directory / f".{name}.{uuid.uuid4().hex}"
    draft.write_text(text)
    draft.replace(tables.directory / name)
