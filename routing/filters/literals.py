"""Literals read from their text: numbers, dates and timestamps, strictly.

Law: equal numbers give equal literals, however they are written. A number is therefore kept as an int or a Decimal;
one with an exponent is read as a double and kept as the number that this double stands for (SPEC §2). Kept as a float,
`1e-1` would differ from `0.1`, and 2⁻³⁰ would equal a decimal from which it differs.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal

from routing.errors import FilterError
from routing.filters.ast import Kind, Literal
from routing.filters.exact import canonical

DIGITS = 38  # Spark's widest decimal

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIMESTAMP = re.compile(
    r"(?P<date>[0-9-]{10})"
    r"(?:[ T](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:\.(?P<fraction>[0-9]{1,6}))?)?"
    r"(?P<offset>Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_LARGEST_OFFSET = timedelta(hours=18)  # Java's


def number(text: str, column: int) -> Literal:
    """The literal of a number's text.

    >>> number("-7", 1).value, number("1.50", 1).value, number("1e-1", 1).value
    (-7, Decimal('1.5'), Decimal('0.1'))
    """
    mantissa, exponent, _ = text.lower().partition("e")
    digits = mantissa.lstrip("+-").replace(".", "").lstrip("0")
    if exponent:
        double = float(text)
        if not math.isfinite(double) or (digits and not double):
            raise FilterError(
                f"{text[:40]} is out of range", column=column, hint="a number with an exponent is a double"
            )
        return Literal(Kind.NUMBER, canonical(double))
    if len(digits) > DIGITS:
        raise FilterError(f"{text[:40]} is out of range", column=column, hint=f"at most {DIGITS} significant digits")
    return Literal(Kind.NUMBER, canonical(Decimal(text)))


def day(text: str, column: int) -> Literal:
    """The literal of `DATE 'text'`.

    >>> day("2026-01-31", 1).value
    datetime.date(2026, 1, 31)
    """
    return Literal(Kind.DATE, _day(text, column))


def instant(text: str, column: int, zone: tzinfo) -> Literal:
    """The literal of `TIMESTAMP 'text'`, in UTC; a text without a zone is read in `zone`.

    >>> str(instant("2026-01-31T10:00+02:00", 1, UTC).value)
    '2026-01-31 08:00:00+00:00'
    """
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        hint = "TIMESTAMP 'YYYY-MM-DD HH:MM:SS.ffffffZ', the zone Z or ±HH:MM"
        raise FilterError(f"{text[:40]!r} is not a timestamp", column=column, hint=hint)
    midnight = datetime.combine(_day(found["date"], column), datetime.min.time())
    try:
        local = midnight.replace(
            hour=int(found["hour"] or 0),
            minute=int(found["minute"] or 0),
            second=int(found["second"] or 0),
            microsecond=int((found["fraction"] or "0").ljust(6, "0")),
            tzinfo=_offset(found["offset"]) if found["offset"] else zone,
        )
        return Literal(Kind.TIMESTAMP, local.astimezone(UTC))
    except (ValueError, OverflowError) as error:
        hint = "the years are 0001 to 9999 in UTC, the zones -18:00 to +18:00"
        raise FilterError(f"{text!r} is not a timestamp", column=column, hint=hint) from error


def _day(text: str, column: int) -> date:
    found = _DATE.fullmatch(text)
    try:
        if found:
            return date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError as error:
        raise FilterError(f"{text!r} is not a date: {error}", column=column) from error
    raise FilterError(f"{text[:40]!r} is not a date", column=column, hint="DATE 'YYYY-MM-DD'")


def _offset(text: str) -> tzinfo:
    if text == "Z":
        return UTC
    size = timedelta(hours=int(text[1:3]), minutes=int(text[4:6]))
    if int(text[4:6]) > 59 or size > _LARGEST_OFFSET:
        raise ValueError(f"no zone is {text}")
    return timezone(-size if text[0] == "-" else size)
