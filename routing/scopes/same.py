r"""The text that equal values have in common, and no others: the key of a version is made of such texts.

Law: as `routing.checker.content` compares. All numeric types are one domain, in which a double stands for the number it
prints as (`routing.filters.exact`): 100, 100.00 and 1E2 are the text `100`. A text is JSON and then the kind of the
value, of an object the kinds of its fields: a date is no string that looks like it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

_TOKENS = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?[0-9][0-9.eE+-]*+|[^"0-9-]++'
_NUMERIC = r"BIGINT|DOUBLE|FLOAT|DECIMAL\([0-9]+,[0-9]+\)"
_2_63, _2_64 = 2.0**63, 2.0**64


def texts(variants: Iterable[Column]) -> Column:
    """An array of the texts of VARIANTs; the text of NULL is NULL."""
    return F.transform(F.array(*variants), lambda variant: bind(_unified(variant), _text))


def bind(value: Column, body: Callable[[Column], Column]) -> Column:
    """The body of a value that is computed once, however often the body uses it."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def _unified(variant: Column) -> Column:
    """Floats are doubles, and timestamps without a zone are in the session's."""
    kind, cases = F.schema_of_variant(variant), {"FLOAT": "double", "TIMESTAMP_NTZ": "timestamp"}
    casts = [F.when(kind == k, F.try_variant_get(variant, "$", t).cast("variant")) for k, t in cases.items()]
    return F.coalesce(*casts, variant)


def _text(variant: Column) -> Column:
    tokens = F.regexp_extract_all(F.to_json(variant), F.lit(_TOKENS), F.lit(0))
    kinds = F.regexp_replace(F.schema_of_variant(variant), _NUMERIC, "NUMBER")
    return F.concat(F.array_join(F.transform(tokens, _token), ""), kinds)


def _token(token: Column) -> Column:
    return (
        F.when(~token.rlike("^-?[0-9]"), token)
        .when(token.contains("E"), bind(token.try_cast(T.DoubleType()), _double))
        .when(token.contains("."), _digits(token))
        .otherwise(token)
    )


def _digits(decimal: Column) -> Column:
    """The text of a decimal, without zeros at its end."""
    return F.regexp_replace(F.regexp_replace(decimal, r"(\.[0-9]*?)0+$", "$1"), r"\.$|^-(?=0\.?$)", "")


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
        F.when((size < _2_63) & (F.rint(double) == double), double.try_cast(T.LongType()).cast(T.StringType()))
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
