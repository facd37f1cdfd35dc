"""Stage two: one vectorized UDF over the referenced attributes, and a row for each consumer with a match.

Law: the UDF sees each event once and only the attributes that active subscriptions mention; the payload stays in the
JVM.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from routing.matching.attributes import Attribute, attributes, variant_attribute, variant_columns
from routing.variant_path import variant_path


def referenced(names: Iterable[str], schema: StructType, struct: str, *, without: frozenset[str]) -> list[Attribute]:
    """The attributes that filters name and the events, in a struct column, have; in order of their names."""
    return _referenced(frozenset(names), schema, struct, without)


@lru_cache(maxsize=64)  # batch after batch wants the same, and making columns takes time
def _referenced(names: frozenset[str], schema: StructType, struct: str, without: frozenset[str]) -> list[Attribute]:
    columns = F.col(struct)
    typed, variants = attributes(schema, columns, without=without), variant_columns(schema, columns)
    found = []
    for name in sorted(names):
        if name in typed:
            found.append(typed[name])
        elif (parent := _parent(name, variants)) is not None:
            path = variant_path(name[len(parent) + 1 :].split("."))
            if path is not None:
                found.append(variant_attribute(name, variants[parent], path))
    return found


def arrow_schema(found: Sequence[Attribute]) -> pa.Schema:
    """The schema that the kernel is compiled for."""
    return pa.schema([attribute.field for attribute in found])


def packed(found: Sequence[Attribute]) -> Column:
    """The attributes as one struct column, the UDF's argument; a struct needs at least one field."""
    return (
        F.struct(*(attribute.column.alias(attribute.name) for attribute in found))
        if found
        else F.struct(F.lit(True).alias(""))
    )


def _parent(name: str, variants: dict[str, Column]) -> str | None:
    """The longest VARIANT column that the name is a path into."""
    return max((one for one in variants if name.startswith(f"{one}.")), key=len, default=None)
