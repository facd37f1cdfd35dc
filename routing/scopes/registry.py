"""Scopes by call: what SQL users do by inserting and deleting rows, with the checks made at once.

Law: a call that returns has committed; a call that raises has written nothing. The tables are the only state, and the
next batch sees them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from routing.errors import ScopeError
from routing.model import UNUSABLE_NAMES, Problem
from routing.scopes.control import TABLES, graph_of, rows
from routing.tables import Tables
from schemas.control import CREATED_BY, SCOPE_EDGES, SCOPES
from schemas.table import Table


def create_scope(tables: Tables, scope: str, settings: Mapping[str, str | None]) -> None:
    """Write a scope's row; of several rows the newest counts, so this also changes a scope that is there."""
    _named(scope)
    row = {"scope": scope, **_given(settings)}
    _raise(problem for problem in graph_of(tables, [row], [], [], [])[1])
    _insert(tables, SCOPES, row)


def drop_scope(tables: Tables, scope: str) -> int:
    """Delete a scope and its edges; returns how many scopes were dropped: 1 or, if it was unknown, 0."""
    _delete(tables, "scope_edges", (F.col("parent") == scope) | (F.col("child") == scope))
    return _delete(tables, "scopes", F.col("scope") == scope)


def join(tables: Tables, child: str, parent: str, gates: Mapping[str, str | None]) -> None:
    """Put a component or a scope into a scope; of several rows for one edge the newest counts."""
    _named(child)
    row = {"child": child, "parent": parent, **_given(gates)}
    scopes, edges, components, granted = (rows(tables, table) for table in TABLES)
    others = [edge for edge in edges if (edge["child"], edge["parent"]) != (child, parent)]
    me = tables.spark.range(1).select(F.session_user()).first()
    last = max((edge["created_at"] for edge in others if edge["created_at"]), default=datetime.now(UTC))
    youngest = {**row, CREATED_BY: me[0] if me else "", "created_at": last + timedelta(microseconds=1)}
    problems = graph_of(tables, scopes, [*others, youngest], components, granted)[1]
    _raise(p for p in problems if p.table == "scope_edges" and (p.owner, p.id) == (child, parent))
    _insert(tables, SCOPE_EDGES, row)


def leave(tables: Tables, child: str, parent: str) -> int:
    """Take a component or a scope out of a scope; returns how many edges ended: 1 or, if there was none, 0."""
    return _delete(tables, "scope_edges", (F.col("child") == child) & (F.col("parent") == parent))


def _named(name: str) -> None:
    if name in UNUSABLE_NAMES:
        raise ScopeError(f"'{name}' cannot be a name: as a partition it would read back as NULL")


def _given(texts: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in texts.items() if text is not None}


def _raise(problems: Iterable[Problem]) -> None:
    for problem in problems:
        raise ScopeError(problem.reason.removeprefix("closed: "))


def _insert(tables: Tables, table: Table, row: Mapping[str, str]) -> None:
    columns = StructType([table.columns[name] for name in row])
    tables.insert(table.name, tables.spark.createDataFrame([tuple(row.values())], columns))


def _delete(tables: Tables, table: str, condition: Column) -> int:
    if tables.read(table).where(condition).isEmpty():
        return 0
    tables.delete(table, condition)
    return 1
