"""The attributes of an event: every column but the id, the publisher and the time, nested fields by dotted names.

Law: an attribute has one type, which the kernel compares in; a field of a VARIANT column has whatever type its value
has, one struct with a child per type. Nothing is cast: a value of another type than the filter's constant does not
match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

_MOMENT = pa.timestamp("us", "UTC")
ANY = pa.struct(
    [
        ("integer", pa.int64()),
        ("double", pa.float64()),
        ("decimal", pa.string()),
        ("string", pa.string()),
        ("boolean", pa.bool_()),
        ("date", pa.date32()),
        ("timestamp", _MOMENT),
        ("other", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Attribute:
    """A name, the Arrow field that the kernel sees, and the Spark column that gives it."""

    name: str
    field: pa.Field
    column: Column


def attributes(schema: StructType, columns: Column, *, without: frozenset[str] = frozenset()) -> dict[str, Attribute]:
    """All attributes with a type of their own, by name, of a struct column with this schema."""
    return {one.name: one for one in _flatten(schema, columns, "") if one.name not in without}


def variant_columns(schema: StructType, columns: Column, prefix: str = "") -> dict[str, Column]:
    """The VARIANT columns by dotted name: any path into one may be an attribute."""
    found: dict[str, Column] = {}
    for field in schema:
        if isinstance(field.dataType, VariantType):
            found[prefix + field.name] = columns[field.name]
        elif isinstance(field.dataType, StructType):
            found |= variant_columns(field.dataType, columns[field.name], f"{prefix}{field.name}.")
    return found


def variant_attribute(name: str, variant: Column, path: str) -> Attribute:
    """The attribute at a path of a VARIANT column, any-typed."""
    children = any_children(F.try_variant_get(variant, path, "variant"))
    return any_attribute(name, F.struct(*(column.alias(child) for child, column in children.items())))


def any_children(variant: Column) -> dict[str, Column]:
    """The value of a VARIANT in the child for its type, NULL in the others."""
    kind = F.schema_of_variant(variant)

    def when(condition: Column, type: str) -> Column:
        return F.when(condition, F.try_variant_get(variant, "$", type))

    decimal, moment = kind.startswith("DECIMAL"), kind.isin("TIMESTAMP", "TIMESTAMP_NTZ")
    present = kind.isNotNull() & (kind != "VOID")
    known = kind.isin("BIGINT", "DOUBLE", "FLOAT", "STRING", "BOOLEAN", "DATE") | decimal | moment
    return {
        "integer": when(kind == "BIGINT", "bigint"),
        "double": when(kind.isin("DOUBLE", "FLOAT"), "double"),
        "decimal": when(decimal, "string"),
        "string": when(kind == "STRING", "string"),
        "boolean": when(kind == "BOOLEAN", "boolean"),
        "date": when(kind == "DATE", "date"),
        "timestamp": when(moment, "timestamp"),
        "other": F.when(present & ~known, F.lit(True)),
    }


def any_attribute(name: str, column: Column) -> Attribute:
    """An any-typed attribute: a struct with the children of ANY, at most one of them not NULL."""
    return Attribute(name, pa.field(name, ANY, metadata={b"sluice": b"any"}), column)


def typed_attribute(name: str, column: Column, type: DataType) -> Attribute:
    """An attribute of one type."""
    if isinstance(type, TimestampNTZType | TimestampType):
        return Attribute(name, pa.field(name, _MOMENT), column.cast("timestamp"))
    if isinstance(type, StringType):
        return Attribute(name, pa.field(name, pa.string()), column.cast("string"))
    if isinstance(type, BooleanType | DateType | NumericType):
        return Attribute(name, pa.field(name, to_arrow_type(type)), column)
    return _presence(name, column)


def _flatten(schema: StructType, columns: Column, prefix: str) -> Iterator[Attribute]:
    for field in schema:
        name, column = prefix + field.name, columns[field.name]
        if isinstance(field.dataType, StructType):
            yield _presence(name, column)
            yield from _flatten(field.dataType, column, f"{name}.")
        elif isinstance(field.dataType, VariantType):
            yield variant_attribute(name, column, "$")
        else:
            yield typed_attribute(name, column, field.dataType)


def _presence(name: str, column: Column) -> Attribute:
    """An attribute whose values cannot be compared with anything: it is there, or it is not."""
    return Attribute(name, pa.field(name, pa.binary()), F.when(column.isNotNull(), F.lit(b"")))
