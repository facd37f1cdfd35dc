"""What a table is, as a value: its columns with comments, its constraints, how it is laid out.

Law: a table is described here once; the DDL, the writers and the documentation are all derived from the description.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import DataType, StructField, StructType

COMMENT, DEFAULT = "comment", "CURRENT_DEFAULT"


@dataclass(frozen=True)
class Table:
    """One Delta table. `control` tables are written by users, the others by the engine."""

    name: str
    comment: str
    columns: StructType
    control: bool = False
    partitioned_by: tuple[str, ...] = ()
    constraints: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)


def column(
    name: str, type: DataType, comment: str, *, required: bool = False, default: str | None = None
) -> StructField:
    """A column with its comment; `required` is NOT NULL, `default` a SQL expression for rows that omit it."""
    metadata = {COMMENT: comment} | ({DEFAULT: default} if default else {})
    return StructField(name, type, nullable=not required, metadata=metadata)
