r"""The text that equal values have in common, and no others: the key of a version is made of such texts.

Law: as `routing.checker.content` compares. All numeric types are one domain, in which a double stands for the number it
prints as (`routing.filters.exact`): 100, 100.0 and 1E2 are the text `100`. Kinds are told apart: a date is no text that
looks like it. Objects and arrays are JSON, with their numbers written in this way.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.matching.attributes import variant_attribute

# JSON has no dates; an object with such a key is none that anybody sends.
_DATE, _TIMESTAMP, _NUMBER = "\0date", "\0timestamp", "\0number"
_TOKENS = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][0-9.eE+-]*+|[^"0-9-]++'
_2_63, _2_64 = 2.0**63, 2.0**64


def text(column: Column, type: T.DataType) -> Column | None:
    """The text of a value of a plain type; none for other types, whose text is that of a VARIANT."""
    match type:
        case T.BooleanType() | T.IntegralType():
            return column.cast(T.StringType())
        case T.DecimalType():
            return _digits(column.cast(T.StringType())) if type.scale else column.cast(T.StringType())
        case T.FractionalType():
            return bind(column.cast(T.DoubleType()), _double)
        case T.StringType():
            return F.to_json(column.cast(T.VariantType()))
        case T.DateType() | T.TimestampType() | T.TimestampNTZType():
            return F.to_json(marked(column, type))
        case _:
            return None


def marked(column: Column, type: T.DataType) -> Column:
    """A plain value as a VARIANT whose JSON tells what it is."""
    match type:
        case T.DateType():
            return _object(_DATE, column, column.cast(T.StringType()))
        case T.TimestampType() | T.TimestampNTZType():
            return _object(_TIMESTAMP, column, F.unix_micros(column.cast(T.TimestampType())))
        case T.FloatType() | T.DoubleType():
            return bind(column.cast(T.DoubleType()), _marked_double)
        case T.VariantType():
            return bind(column, _marked_variant)
        case _:
            return column.cast(T.VariantType())


def variant_text(variant: Column) -> Column:
    """The text of a VARIANT: its JSON, the numbers in it as texts of numbers."""
    tokens = F.regexp_extract_all(F.to_json(variant), F.lit(_TOKENS), F.lit(0))
    return F.array_join(F.transform(tokens, _token), "")


def bind(value: Column, body: Callable[[Column], Column]) -> Column:
    """The body of a value that is computed once, however often the body uses it."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def _object(key: str, column: Column, content: Column) -> Column:
    return F.when(column.isNotNull(), F.to_variant_object(F.struct(content.alias(key))))


def _marked_double(double: Column) -> Column:
    strange = F.isnan(double) | (F.abs(double) == float("inf"))
    return F.when(strange, _object(_NUMBER, double, double.cast(T.StringType()))).otherwise(
        double.cast(T.VariantType())
    )


def _marked_variant(variant: Column) -> Column:
    value = variant_attribute("", variant, "$").column
    types = {"date": T.DateType(), "timestamp": T.TimestampType(), "double": T.DoubleType()}
    return F.coalesce(
        *(marked(value[child], type) for child, type in types.items()), F.when(~F.is_variant_null(variant), variant)
    )


def _token(token: Column) -> Column:
    return (
        F.when(~token.rlike("^-?[0-9]"), token)
        .when(token.contains("E"), bind(token.try_cast(T.DoubleType()), _double))
        .when(token.contains("."), _digits(token))
        .otherwise(token)
    )


def _digits(decimal: Column) -> Column:
    """The text of a decimal, without zeros at its end."""
    short = F.rtrim(F.rtrim(decimal, F.lit("0")), F.lit("."))
    return F.when(short == "-0", "0").otherwise(short)


def _double(double: Column) -> Column:
    """Its exact value if it is integral, else the digits that it prints.

    Beyond what a decimal can hold it equals doubles only, and any spelling of its own will do.
    """
    size, printed = F.abs(double), double.cast(T.StringType())
    tiny = double.try_cast(T.DecimalType(38, 38))
    broken = F.when(size >= 1, double.try_cast(T.DecimalType(38, 18)).cast(T.StringType())).when(
        tiny.cast(T.DoubleType()) == double, tiny.cast(T.StringType())
    )
    return (
        F.when(F.isnan(double) | (size == float("inf")), F.to_json(_object(_NUMBER, double, printed)))
        .when((size < _2_63) & (F.rint(double) == double), double.try_cast(T.LongType()).cast(T.StringType()))
        .when(size < 1e38, F.coalesce(F.when(size >= _2_63, _large(double)), _digits(broken), printed))
        .otherwise(printed)
    )


def _large(double: Column) -> Column:
    """A double from 2⁶³ to 10³⁸, digit by digit: Spark's own cast takes the digits that it prints."""
    size = F.abs(double)
    high = F.floor(F.when(size < 1e38, size) / _2_64)
    low = (size - high.cast(T.DoubleType()) * _2_64) / 2  # exact: such a double is even
    whole = F.try_add(
        F.try_multiply(high.cast(T.DecimalType(19, 0)), F.lit(str(1 << 64)).cast(T.DecimalType(20, 0))),
        F.try_multiply(low.try_cast(T.LongType()).cast(T.DecimalType(19, 0)), F.lit(2).cast(T.DecimalType(1, 0))),
    )
    return F.concat(F.when(double < 0, "-").otherwise(""), whole.cast(T.StringType()))
