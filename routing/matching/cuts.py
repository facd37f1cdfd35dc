"""One constant as a cut point of a column's own numbers, exactly.

Law: for every value x that a slot can hold, and every number v, x read as a number of SPEC §2 is at least v iff
x >= least(slot, v), and is more than v iff x >= above(slot, v). Nothing is rounded: an integer column asked `x < 2.5`
compares with 3, a double column with the first double that prints as 2.5 or more. A cut point among integers may lie
outside what the slot can hold; `bounds` tells.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

from routing.filters.ast import Kind, Literal
from routing.filters.exact import exact
from udfs.columns import Domain, Slot

Number: TypeAlias = int | Decimal | Fraction

KIND = {
    Domain.INTEGER: Kind.NUMBER,
    Domain.UNSIGNED: Kind.NUMBER,
    Domain.DOUBLE: Kind.NUMBER,
    Domain.DECIMAL: Kind.NUMBER,
    Domain.BOOLEAN: Kind.BOOLEAN,
    Domain.DATE: Kind.DATE,
    Domain.TIMESTAMP: Kind.TIMESTAMP,
    Domain.TEXT: Kind.STRING,
}
"""The kind of literal that meets the values of a domain."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def number_of(literal: Literal) -> Number:
    """Numbers as they are, booleans 0 and 1, dates as days and timestamps as seconds since 1970.

    >>> number_of(Literal(Kind.DATE, date(1970, 1, 2)))
    1
    """
    value = literal.value
    if isinstance(value, datetime):
        return Fraction((value - _EPOCH) // timedelta(microseconds=1), 10**6)
    if isinstance(value, date):
        return value.toordinal() - _EPOCH.toordinal()
    if isinstance(value, bool):
        return int(value)
    assert not isinstance(value, str)
    return exact(value)


def least(slot: Slot, number: Number) -> int | float:
    """The first of the slot's numbers that is at least this one.

    >>> least(Slot(0, "", Domain.INTEGER), Decimal("2.5")), least(Slot(0, "", Domain.DECIMAL, 2), Decimal("2.5"))
    (3, 250)
    """
    if slot.domain is Domain.DOUBLE:
        return _first_double(number, strictly=False)
    return math.ceil(_scaled(slot, number))


def above(slot: Slot, number: Number) -> int | float:
    """The first of the slot's numbers that is more than this one.

    >>> above(Slot(0, "", Domain.DOUBLE), Decimal("0.3"))
    0.30000000000000004
    """
    if slot.domain is Domain.DOUBLE:
        return _first_double(number, strictly=True)
    return math.floor(_scaled(slot, number)) + 1


def bounds(slot: Slot) -> tuple[int, int]:
    """The least and the greatest number that a slot of integers can hold.

    >>> bounds(Slot(0, "", Domain.UNSIGNED)) == (0, 2**64 - 1)
    True
    """
    if slot.domain is Domain.UNSIGNED:
        return 0, (1 << 64) - 1
    half: int = 1 << 64 * slot.words - 1
    return -half, half - 1


def nearest_double(number: Number) -> float:
    """The double next to the number; an infinity beyond the largest."""
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _scaled(slot: Slot, number: Number) -> int | Fraction:
    """The number in the slot's unit, exactly."""
    if isinstance(number, int) and slot.scale >= 0:
        return number * int(10**slot.scale)
    unit = Fraction(10**slot.scale) if slot.scale >= 0 else Fraction(1, 10**-slot.scale)
    return Fraction(number) * unit


def _first_double(number: Number, *, strictly: bool) -> float:
    """The first double that prints as the number or more (strictly: as more). Rounding is off by a step at most."""

    def beyond(double: float) -> bool:
        printed = exact(double)
        return printed > number if strictly else printed >= number

    double = nearest_double(number)
    while double > -math.inf and beyond(double):
        double = math.nextafter(double, -math.inf)
    while double < math.inf and not beyond(double):
        double = math.nextafter(double, math.inf)
    return double
