"""Attributes inside attributes: fields of structs and of VARIANT objects, by the steps of their dotted names.

Law: what is inside a struct or a VARIANT is read and written step by step; in a plain value there is nothing inside. An
object has no fields that are NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.matching.attributes import any_children
from routing.scopes.same import bind
from routing.variant_path import variant_path

Steps: TypeAlias = tuple[str, ...]
Change: TypeAlias = tuple[Steps, Callable[[Column], Column]]  # where, and what becomes of the VARIANT there

ANY_TYPES: tuple[T.DataType, ...] = (
    T.LongType(),
    T.DoubleType(),
    T.DecimalType(38, 18),
    T.DecimalType(38, 38),
    T.DecimalType(38, 0),
    T.StringType(),
    T.BooleanType(),
    T.DateType(),
    T.TimestampType(),
    T.VariantType(),
)
_FIELDS = T.MapType(T.StringType(), T.VariantType())


def steps(schema: T.StructType, name: str) -> Steps:
    """The way to an attribute: a column, and fields inside it. A name below a plain column is one step, a new column.

    >>> schema = T.StructType().add("a", T.StructType().add("x", "long")).add("v", "variant").add("i", "long")
    >>> steps(schema, "a.x"), steps(schema, "a.y.z"), steps(schema, "v.x"), steps(schema, "i.x"), steps(schema, "n.x")
    (('a', 'x'), ('a', 'y', 'z'), ('v', 'x'), ('i.x',), ('n', 'x'))
    """
    return _steps(schema, name) or (name,)


def _steps(type: T.DataType, name: str) -> Steps:
    if isinstance(type, T.VariantType):
        return tuple(name.split("."))
    if not isinstance(type, T.StructType):
        return ()
    known = [field for field in type if f"{name}.".startswith(f"{field.name}.")]
    if not known:
        return tuple(name.split("."))
    field = max(known, key=lambda field: len(field.name))
    if field.name == name:
        return (name,)
    rest = _steps(field.dataType, name[len(field.name) + 1 :])
    return (field.name, *rest) if rest else ()


def reached(column: Column, type: T.DataType, way: Steps) -> tuple[Column, T.DataType] | None:
    """The field at the end of the way, with its type; none if there cannot be one."""
    if not way:
        return column, type
    if isinstance(type, T.VariantType):
        path = variant_path(way)
        return None if path is None else (F.try_variant_get(column, path, "variant"), type)
    if isinstance(type, T.StructType) and way[0] in type.names:
        return reached(column[way[0]], type[way[0]].dataType, way[1:])
    return None


def any_typed(variant: Column) -> list[Column]:
    """The value of a VARIANT as a column for each of ANY_TYPES, at most one of them not NULL.

    A decimal is in the first of its types that keeps all its digits; one that none keeps is rounded.
    """
    child = any_children(variant)
    decimal = child["decimal"]
    tiny, huge = decimal.rlike(r"^-?0\.[0-9]{19}"), decimal.rlike(r"^-?[0-9]{21}")
    columns = [
        child["integer"],
        child["double"],
        F.when(~tiny & ~huge, decimal),
        F.when(tiny, decimal),
        F.when(huge, decimal),
        *(child[name] for name in ("string", "boolean", "date", "timestamp")),
        F.when(child["other"], variant),
    ]
    decimals = [isinstance(type, T.DecimalType) for type in ANY_TYPES]
    return [c.cast(type) if is_text else c for c, type, is_text in zip(columns, ANY_TYPES, decimals, strict=True)]


def as_variant(column: Column, type: T.DataType) -> Column:
    """The value as a VARIANT, NULL if it is not there; the null of JSON is NULL."""
    match type:
        case T.StructType():
            fields = {field.name: as_variant(column[field.name], field.dataType) for field in type}
            return F.when(column.isNotNull(), as_object(fields))
        case T.ArrayType() | T.MapType():
            return F.to_variant_object(column)
        case T.VariantType():
            return F.when(~F.is_variant_null(column), column)
        case _:
            return column.cast(T.VariantType())


def as_object(fields: Mapping[str, Column]) -> Column:
    """A VARIANT object of those VARIANTs that are not NULL."""
    return F.to_variant_object(_present(fields))


def _present(fields: Mapping[str, Column]) -> Column:
    if not fields:
        return F.create_map().cast(_FIELDS)
    entries = F.array(*(F.struct(F.lit(name).alias("key"), value.alias("value")) for name, value in fields.items()))
    return F.map_from_entries(F.filter(entries, lambda entry: entry["value"].isNotNull()))


def placed(variant: Column, changes: Sequence[Change]) -> Column:
    """The VARIANT after changes inside it. A plain value inside which something is set becomes an object."""
    if not changes:
        return variant
    inner: dict[str, list[Change]] = {}
    for way, change in changes:
        inner.setdefault(way[0], []).append((way[1:], change))

    def changed(before: Column, fields: Column) -> Column:
        new = {step: _changed(F.try_element_at(fields, F.lit(step)), deeper) for step, deeper in inner.items()}
        kept = F.coalesce(F.map_filter(fields, lambda step, _: ~step.isin(*new)), _present({}))
        made = bind(
            _present(new), lambda some: F.when(fields.isNotNull() | (F.size(some) > 0), F.map_concat(kept, some))
        )
        return F.coalesce(F.to_variant_object(made), before)

    def opened(before: Column) -> Column:
        return bind(F.try_variant_get(before, "$", "map<string,variant>"), lambda fields: changed(before, fields))

    return bind(variant, opened)


def _changed(value: Column, changes: Sequence[Change]) -> Column:
    """The change of the value itself comes first, then those inside it."""
    for way, change in changes:
        value = value if way else change(value)
    return placed(value, [(way, change) for way, change in changes if way])
