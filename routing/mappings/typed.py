"""A typed column, and an expression as columns: one for each type that its value may have.

Law: in every row at most one alternative of an expression is not NULL. `present` says whether the expression has a
value or fails; so it fails in a row iff it is present there and every alternative is NULL. NULL passes upwards through
every strict operation, so it is enough to look at the top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.mappings.ast import Name
from routing.mappings.limits import PRECISION, SCALE

Attributes: TypeAlias = Mapping[str, Sequence[tuple[Column, T.DataType]]]

WIDE = T.DecimalType(PRECISION, SCALE)

_NAMES: dict[type[T.DataType], Name] = {
    T.StringType: Name.STRING,
    T.BooleanType: Name.BOOLEAN,
    T.LongType: Name.BIGINT,
    T.DoubleType: Name.DOUBLE,
    T.DecimalType: Name.DECIMAL,
    T.DateType: Name.DATE,
    T.TimestampType: Name.TIMESTAMP,
}
_WIDER: dict[type[T.DataType], T.DataType] = {
    T.ByteType: T.LongType(),
    T.ShortType: T.LongType(),
    T.IntegerType: T.LongType(),
    T.FloatType: T.DoubleType(),
    T.TimestampNTZType: T.TimestampType(),
    T.CharType: T.StringType(),
    T.VarcharType: T.StringType(),
}


@dataclass(frozen=True)
class Typed:
    """A column, its type, and about how many nodes Spark will see in it."""

    column: Column
    type: T.DataType
    size: int = 1

    @property
    def name(self) -> Name | None:
        """The type as the language knows it; none for arrays, structs and the like, which can only be passed on."""
        return _NAMES.get(type(self.type))


@dataclass(frozen=True)
class Columns:
    """An expression: its alternatives, of different types, and where it is present."""

    alternatives: tuple[Typed, ...]
    present: Column
    present_size: int = 1

    @property
    def size(self) -> int:
        """About how many nodes it has in all."""
        return self.present_size + sum(typed.size for typed in self.alternatives)

    def of(self, *names: Name) -> list[Typed]:
        """The alternatives of these types."""
        return [typed for typed in self.alternatives if typed.name in names]

    def without_value(self) -> Column:
        """Whether every alternative is NULL."""
        return reduce(lambda a, b: a & b, (t.column.isNull() for t in self.alternatives), F.lit(True))


def attribute(name: str, attributes: Attributes) -> Columns:
    """The columns of an attribute; none if the source does not have it."""
    found = [widened(column, type) for column, type in attributes.get(name, ())]
    present = reduce(or_, (typed.column.isNotNull() for typed in found), F.lit(False))
    return Columns(united(found), present, 1 + 2 * len(found))


def widened(column: Column, type: T.DataType) -> Typed:
    """The column in the type that the language computes with."""
    wider = _WIDER.get(type.__class__)
    if isinstance(type, T.StringType) and type != T.StringType():
        return Typed(F.collate(column, "UTF8_BINARY"), T.StringType())
    return Typed(column.cast(wider), wider) if wider else Typed(column, type)


def united(found: Iterable[Typed]) -> tuple[Typed, ...]:
    """One alternative for each type: of columns of one type at most one is not NULL in a row."""
    by_type: dict[T.DataType, list[Typed]] = {}
    for typed in found:
        by_type.setdefault(typed.type, []).append(typed)
    return tuple(
        same[0] if len(same) == 1 else Typed(F.coalesce(*(t.column for t in same)), type, 1 + sum(t.size for t in same))
        for type, same in by_type.items()
    )


def bound(operands: Sequence[Typed], body: Callable[..., Column], size: int) -> tuple[Column, int]:
    """The body of the operands' columns, and its size.

    A body uses its operands several times. Operands that are more than a name are computed once, as the only element
    of an array that is transformed: nesting then costs a sum, not a product.
    """
    columns = [typed.column for typed in operands]
    inner = sum(typed.size for typed in operands)
    if inner <= 2 * len(operands):
        return body(*columns), inner * size
    fields = [f"f{place}" for place in range(len(operands))]
    one = F.array(F.struct(*(column.alias(field) for column, field in zip(columns, fields, strict=True))))
    return F.get(F.transform(one, lambda row: body(*(row[field] for field in fields))), F.lit(0)), inner + size + 5


def bigint(value: int) -> Column:
    """The integer as a column."""
    return F.lit(value).cast(T.LongType())
