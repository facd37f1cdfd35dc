"""Arithmetic on typed columns, where nothing raises: what has no result is NULL.

Law: integers are 64 bit and stay integers; anything with a double, and every quotient, is a double; the rest is
decimal. A decimal is taken, and a result kept, rounded half up to 18 digits after the point, with at most 19 before: so
results depend on the values alone, not on the digits that a column declares. A narrower type serves where it is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.mappings.ast import Name, Operator
from routing.mappings.limits import PRECISION, SCALE
from routing.mappings.typed import WIDE, Columns, Typed, bound, united

_LONG, _DOUBLE, _INTEGER_DECIMAL = T.LongType(), T.DoubleType(), T.DecimalType(19, 0)
_2_63 = 2.0**63

_TRY: dict[Operator, Callable[[Column, Column], Column]] = {
    Operator.ADD: F.try_add,
    Operator.SUBTRACT: F.try_subtract,
    Operator.MULTIPLY: F.try_multiply,
    Operator.DIVIDE: F.try_divide,
    Operator.REMAINDER: F.try_mod,
}


def arithmetic(operator: Operator, left: Columns, right: Columns) -> list[Typed]:
    """The results for each pair of types."""
    return [_of_types(operator, a, b) for a, b in product(numbers(left), numbers(right))]


def numbers(columns: Columns) -> list[Typed]:
    """The numeric alternatives, at most one of each kind, decimals as arithmetic takes them."""
    decimals = [computable(typed) for typed in columns.of(Name.DECIMAL)]
    if len(decimals) > 1:
        decimals = list(united(_cast(typed, WIDE) for typed in decimals))
    return [*columns.of(Name.BIGINT, Name.DOUBLE), *decimals]


def computable(typed: Typed) -> Typed:
    """The decimal with at most 18 digits after the point and 19 before; NULL if it has more."""
    assert isinstance(typed.type, T.DecimalType)
    digits = typed.type.precision - typed.type.scale
    fits = typed.type.scale <= SCALE and digits <= PRECISION - SCALE
    return typed if fits else Typed(typed.column.try_cast(WIDE), WIDE, typed.size + 1)


def _of_types(operator: Operator, left: Typed, right: Typed) -> Typed:
    if operator is Operator.DIVIDE or Name.DOUBLE in (left.name, right.name):
        left, right = _cast(left, _DOUBLE), _cast(right, _DOUBLE)
        return Typed(_TRY[operator](left.column, right.column), _DOUBLE, left.size + right.size + 1)
    if left.name is Name.BIGINT and right.name is Name.BIGINT:
        return Typed(_TRY[operator](left.column, right.column), _LONG, left.size + right.size + 1)
    return _decimals(operator, _as_decimal(left), _as_decimal(right))


def _cast(typed: Typed, type: T.DataType) -> Typed:
    return typed if typed.type == type else Typed(typed.column.cast(type), type, typed.size + 1)


def _as_decimal(typed: Typed) -> Typed:
    return typed if typed.name is Name.DECIMAL else _cast(typed, _INTEGER_DECIMAL)


def _decimals(operator: Operator, left: Typed, right: Typed) -> Typed:
    a, b = left.type, right.type
    assert isinstance(a, T.DecimalType) and isinstance(b, T.DecimalType)
    whole, scale = max(a.precision - a.scale, b.precision - b.scale), max(a.scale, b.scale)
    if operator is Operator.MULTIPLY:
        if a.precision + b.precision + 1 > 38:
            column, size = bound([_cast(left, WIDE), _cast(right, WIDE)], _long_product, 60)
            return Typed(column, WIDE, size)
        whole, scale = a.precision - a.scale + b.precision - b.scale + 1, a.scale + b.scale
    elif operator is not Operator.REMAINDER:
        whole += 1
    result = _TRY[operator](left.column, right.column).try_cast(T.DecimalType(whole + scale, scale))
    return computable(Typed(result, T.DecimalType(whole + scale, scale), left.size + right.size + 2))


def _long_product(left: Column, right: Column) -> Column:
    """The product of two wide decimals, rounded once; Spark alone would keep six digits after the point.

    Each is a whole part and a fraction, both cut towards zero. Three of the four products are exact, all have one sign,
    and rounding the fourth, the smallest, rounds their sum.
    """
    (a, x), (b, y) = _split(left), _split(right)
    parts = [
        F.try_multiply(a, b).try_cast(WIDE),
        F.try_multiply(a, y).try_cast(WIDE),
        F.try_multiply(x, b).try_cast(WIDE),
        F.try_multiply(x, y).try_cast(WIDE),
    ]
    total = parts[0]
    for part in parts[1:]:
        total = F.try_add(total, part).try_cast(WIDE)
    return total


def _split(number: Column) -> tuple[Column, Column]:
    fraction = F.try_mod(number, F.lit(1).cast(T.DecimalType(1, 0)))
    whole = F.try_subtract(number, fraction).try_cast(_INTEGER_DECIMAL)
    return whole, fraction.try_cast(T.DecimalType(SCALE, SCALE))


def negative(typed: Typed) -> Typed:
    """`-(number)`; the least integer has none."""
    column = F.negative(typed.column) if typed.name is Name.DOUBLE else _from_zero(typed.column, typed.type)
    return Typed(column, typed.type, typed.size + 3)


def absolute(typed: Typed) -> Typed:
    """ABS."""
    if typed.name is Name.DOUBLE:
        return Typed(F.abs(typed.column), typed.type, typed.size + 1)
    column, size = bound([typed], lambda x: F.when(x >= 0, x).otherwise(_from_zero(x, typed.type)), 5)
    return Typed(column, typed.type, size)


def _from_zero(number: Column, type: T.DataType) -> Column:
    """0 - number: Spark's own minus raises for the least integer, and rounds a decimal to 34 digits."""
    return F.try_subtract(F.lit(0).cast(type), number).try_cast(type)


def rounded(typed: Typed, digits: int) -> Typed:
    """ROUND, half up; a double by the digits that it prints."""
    if typed.name is Name.BIGINT:
        return typed
    column = F.round(typed.column, digits)
    if not isinstance(typed.type, T.DecimalType):
        return Typed(column, _DOUBLE, typed.size + 1)
    scale = min(digits, typed.type.scale)
    type = T.DecimalType(typed.type.precision - typed.type.scale + 1 + scale, scale)
    return computable(Typed(column.try_cast(type), type, typed.size + 2))


def whole(typed: Typed, rounding: Callable[[Column], Column]) -> Typed:
    """FLOOR or CEIL: an integer, or NULL beyond 64 bit."""
    if typed.name is Name.BIGINT:
        return typed
    if typed.name is Name.DECIMAL:
        return Typed(rounding(typed.column).try_cast(_LONG), _LONG, typed.size + 2)
    column, size = bound([typed], lambda x: rounding(F.when((x >= -_2_63) & (x < _2_63), x)), 6)
    return Typed(column, _LONG, size)
