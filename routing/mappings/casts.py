r"""CAST on typed columns, where nothing raises: what has no such value is NULL.

Law: the result is `routing.mappings.evaluate.cast`. Spark's own casts read more texts (' 5 ', 't', 'now'); a regular
expression first lets through only the forms that the language has.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.mappings.ast import Name, Type
from routing.mappings.limits import NUMBER_CHARACTERS
from routing.mappings.typed import Typed, bigint, bound

_TYPES: dict[Name, T.DataType] = {
    Name.STRING: T.StringType(),
    Name.BOOLEAN: T.BooleanType(),
    Name.BIGINT: T.LongType(),
    Name.DOUBLE: T.DoubleType(),
    Name.DATE: T.DateType(),
    Name.TIMESTAMP: T.TimestampType(),
}
_NUMBERS = (Name.BIGINT, Name.DOUBLE, Name.DECIMAL)
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_FORMS = {
    Name.BIGINT: r"[+-]?[0-9]+",
    Name.DOUBLE: rf"{_NUMBER}(?:[eE][+-]?[0-9]+)?",
    Name.DECIMAL: _NUMBER,
    Name.DATE: _DAY,
    Name.TIMESTAMP: rf"{_DAY}(?:[ T][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:\.[0-9]{{1,6}})?)?"
    r"(?:Z|[+-][0-9]{2}:[0-5][0-9])?)?",
}
_FIRST, _LAST = -62135596800000000, 253402300799999999  # microseconds of the years 0001 to 9999 in UTC
_2_53, _2_63 = 2.0**53, 2.0**63
_DAY_MICROS = 86_400_000_000


def spark_type(type: Type) -> T.DataType:
    """The type as Spark has it.

    >>> spark_type(Type(Name.DECIMAL, 5, 2))
    DecimalType(5,2)
    """
    return T.DecimalType(type.precision, type.scale) if type.name is Name.DECIMAL else _TYPES[type.name]


def casted(typed: Typed, type: Type) -> Typed | None:
    """The column cast; none if there is no cast between the types."""
    source, target = typed.name, spark_type(type)
    if source is None:
        return None
    if type.name is Name.STRING:
        return _to_text(typed)
    if source is Name.STRING:
        column, size = bound([typed], lambda text: _from_text(text, type.name, target), 20)
        return Typed(column, target, size)
    if source is Name.DOUBLE and type.name in (Name.BIGINT, Name.DECIMAL):
        column, size = bound([typed], lambda double: _from_double(double, type.name, target), 10)
        return Typed(column, target, size)
    if source in _NUMBERS and type.name in _NUMBERS:
        return Typed(typed.column.try_cast(target), target, typed.size + 1)
    return typed if source is type.name else None


def _from_double(double: Column, name: Name, target: T.DataType) -> Column:
    """Spark would make 2⁶³ an integer, and a decimal of the digits that a large double prints."""
    inside = F.when((double >= -_2_63) & (double < _2_63), double)
    if name is Name.BIGINT:
        return inside.try_cast(target)
    large = inside.try_cast(T.LongType()).try_cast(target)
    return F.when(F.abs(double) < _2_53, double.try_cast(target)).otherwise(large)


def _from_text(text: Column, name: Name, target: T.DataType) -> Column:
    if name is Name.BOOLEAN:
        return F.when(F.lower(text) == "true", F.lit(True)).when(F.lower(text) == "false", F.lit(False))
    formed = F.when(
        (F.char_length(text) <= NUMBER_CHARACTERS) & F.rlike(text, F.lit(rf"\A(?:{_FORMS[name]})\z")), text
    ).try_cast(target)
    if name is Name.DOUBLE:
        return F.when(F.abs(formed) < float("inf"), formed)
    if name is Name.TIMESTAMP:
        micros = F.unix_micros(formed)
        return F.when((micros >= bigint(_FIRST)) & (micros <= bigint(_LAST)), formed)
    return formed


def _to_text(typed: Typed) -> Typed:
    text = T.StringType()
    if typed.name is Name.TIMESTAMP:
        column, size = bound([typed], _instant_text, 30)
        return Typed(column, text, size)
    column = typed.column.cast(text)
    if isinstance(typed.type, T.DecimalType) and typed.type.scale:
        column = F.rtrim(F.rtrim(column, F.lit("0")), F.lit("."))
    return Typed(column, text, typed.size + 3)


def _instant_text(instant: Column) -> Column:
    """ISO 8601 in UTC, whatever the session's zone."""
    micros = F.unix_micros(instant)
    of_day = F.pmod(micros, bigint(_DAY_MICROS))
    day = ((micros - of_day) / _DAY_MICROS).cast(T.IntegerType())  # exact: a multiple of 2¹³ below 2⁶³
    seconds = F.floor(of_day / 1_000_000)
    parts = [F.floor(seconds / 3600), F.floor(seconds / 60) % 60, seconds % 60, of_day % 1_000_000]
    made = F.format_string("%sT%02d:%02d:%02d.%06dZ", F.date_from_unix_date(day).cast(T.StringType()), *parts)
    return F.when(instant.isNotNull(), made)
