"""How the values of two typed columns compare.

Law: as a filter compares (SPEC §2): numbers of all types are one order, compared exactly; NaN and values of different
kinds compare with nothing, which is NULL. Decimals are taken as arithmetic takes them, with 18 digits after the point.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, ge, gt, le, lt

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.filters.ast import Operator
from routing.mappings.arithmetic import computable
from routing.mappings.ast import Name
from routing.mappings.typed import WIDE, Columns, Typed, bound

_COMPARE: dict[Operator, Callable[[Column, Column], Column]] = {
    Operator.EQ: eq,
    Operator.LT: lt,
    Operator.LE: le,
    Operator.GT: gt,
    Operator.GE: ge,
}
_TURNED = {Operator.LT: Operator.GT, Operator.LE: Operator.GE, Operator.GT: Operator.LT, Operator.GE: Operator.LE}
_NUMBERS = (Name.BIGINT, Name.DOUBLE, Name.DECIMAL)
_2_53, _2_63 = 2.0**53, 2.0**63


def compares(left: Columns, operator: Operator, right: Columns) -> tuple[Column, int]:
    """TRUE where both have a value and they compare so, else FALSE; and its size."""
    found = [_compared(a, operator, b) for a in left.alternatives for b in right.alternatives]
    answers = [answer for answer in found if answer]
    columns = [column for column, _ in answers]
    return F.coalesce(*columns, F.lit(False)), 2 + sum(size for _, size in answers)


def _compared(left: Typed, operator: Operator, right: Typed) -> tuple[Column, int] | None:
    if left.name in _NUMBERS and right.name in _NUMBERS:
        return _numbers(_taken(left), operator, _taken(right))
    if left.name is None or left.name is not right.name:
        return None
    return _COMPARE[operator](left.column, right.column), 1 + left.size + right.size


def _taken(typed: Typed) -> Typed:
    return computable(typed) if typed.name is Name.DECIMAL else typed


def _numbers(left: Typed, operator: Operator, right: Typed) -> tuple[Column, int]:
    if left.name is Name.DOUBLE and right.name is Name.DOUBLE:
        return bound([left, right], lambda a, b: F.when(~F.isnan(a) & ~F.isnan(b), _COMPARE[operator](a, b)), 6)
    if right.name is Name.DOUBLE:
        return _numbers(right, _TURNED.get(operator, operator), left)
    if left.name is Name.DOUBLE:
        sign = _sign_against_integer if right.name is Name.BIGINT else _sign_against_decimal
        return bound([left, right], lambda a, b: _COMPARE[operator](sign(a, b), F.lit(0)), 30)
    left, right = (_as_decimal(left), _as_decimal(right)) if left.name is not right.name else (left, right)
    return _COMPARE[operator](left.column, right.column), 1 + left.size + right.size


def _as_decimal(typed: Typed) -> Typed:
    if typed.name is Name.DECIMAL:
        return typed
    type = T.DecimalType(19, 0)
    return Typed(typed.column.cast(type), type, typed.size + 1)


def _sign_against_integer(double: Column, integer: Column) -> Column:
    """1, 0 or -1: the double against the integer, by the integer below it."""
    below = F.floor(F.when((double >= -_2_63) & (double < _2_63), double))
    return (
        F.when(F.isnan(double) | integer.isNull(), F.lit(None).cast(T.IntegerType()))
        .when(double >= _2_63, 1)
        .when(double < -_2_63, -1)
        .when(below > integer, 1)
        .when(below < integer, -1)
        .when(double > below.cast(T.DoubleType()), 1)
        .when(double.isNotNull(), 0)
    )


def _sign_against_decimal(double: Column, decimal: Column) -> Column:
    """1, 0 or -1. Unless the decimal rounds to the very double, that double decides.

    If it does, the double prints with no more digits after the point than the decimal has, so its decimal is exact.
    """
    near = decimal.cast(T.DoubleType())
    halved = (double / 2).try_cast(T.LongType()).cast(T.DecimalType(19, 0))  # from 2⁵³ on doubles are even
    printed = F.when(F.abs(double) < _2_53, double.try_cast(WIDE)).otherwise(
        F.try_multiply(halved, F.lit(2).cast(T.DecimalType(1, 0))).try_cast(T.DecimalType(20, 0))
    )
    return (
        F.when(F.isnan(double) | decimal.isNull(), F.lit(None).cast(T.IntegerType()))
        .when(double > near, 1)
        .when(double < near, -1)
        .when(printed > decimal, 1)
        .when(printed < decimal, -1)
        .when(double.isNotNull(), 0)
    )
