"""What a mapping makes of one event: the slow, obvious reference that the compiled columns are tested against.

Law: every right-hand side sees the event before the mapping, and NULL is absence. An operation with a NULL operand is
NULL, whatever its other operands; otherwise one that has no result fails, and so does the mapping. What is not taken
(a branch of CASE, an argument of COALESCE behind the first value) does not fail.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Content
from datetime import UTC, date, datetime, tzinfo
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from routing.errors import FilterError, MappingFailed
from routing.filters import ast as filters
from routing.filters import evaluate, literals
from routing.filters.exact import exact
from routing.mappings.ast import (
    Assign,
    Attribute,
    Binary,
    Call,
    Case,
    Cast,
    Expression,
    Literal,
    Mapping,
    Name,
    Negative,
    Null,
    Operator,
    Type,
)
from routing.mappings.limits import FAR, LONGEST, NUMBER_CHARACTERS, PRECISION, SCALE

_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_INTEGERS = range(-(1 << 63), 1 << 63)


def apply(
    mapping: Mapping, event: Content[str, object], *, zone: tzinfo = UTC, longest: int = LONGEST
) -> dict[str, object]:
    """The event after the mapping, without NULLs; datetimes without a zone are read in `zone`.

    >>> from routing.mappings.parse import parse_mapping
    >>> apply(parse_mapping("a = b, b = a + 1, DROP c"), {"a": 1, "b": 2, "c": 3})
    {'a': 2, 'b': 2}
    >>> apply(parse_mapping("a = 1 / b"), {"b": 0})
    Traceback (most recent call last):
    routing.errors.MappingFailed: a: division by zero
    """
    found = {name: value for name, value in event.items() if value is not None}
    for assignment in mapping.assignments:
        found.pop(assignment.attribute, None)
    reference = _Evaluator(event, zone, longest)
    for assignment in mapping.assignments:
        if isinstance(assignment, Assign):
            value = reference.value(assignment.expression)
            if isinstance(value, _Failure):
                raise MappingFailed(f"{assignment.attribute}: {value.reason}")
            if value is not None:
                found[assignment.attribute] = value
    return found


class _Failure(Exception):
    """Why an expression has no result; handed up as a value, because NULL or an untaken branch may discard it."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class _Evaluator:
    """The value of an expression: None is NULL, a `_Failure` is itself a value."""

    def __init__(self, event: Content[str, object], zone: tzinfo, longest: int) -> None:
        self.event, self.zone, self.longest = event, zone, longest

    def value(self, expression: Expression) -> Any:
        match expression:
            case Null():
                return None
            case Literal(_, value):
                return value
            case Attribute(name):
                return self.event.get(name)
            case Negative(part):
                return self.strict(_negative, part)
            case Binary(operator, left, right):
                return self.strict(lambda a, b: _arithmetic(operator, a, b), left, right)
            case Cast(part, type):
                return self.strict(lambda value: cast(value, type, self.zone), part)
            case Case(branches, otherwise):
                taken = (then for when, then in branches if evaluate(when, self.event, zone=self.zone) is True)
                return self.value(next(taken, otherwise))
            case Call("COALESCE", arguments):
                return next((value for value in map(self.value, arguments) if value is not None), None)
            case Call("NULLIF", (first, second)):
                return self.null_if(self.value(first), self.value(second))
            case Call("GREATEST" | "LEAST" as function, arguments):
                return self.extreme(function, [self.value(argument) for argument in arguments])
            case Call(function, arguments):
                return self.strict(lambda *values: self.call(function, values), *arguments)

    def strict(self, operation: Callable[..., Any], *operands: Expression) -> Any:
        """NULL if an operand is; else the failure of one; else the result of the operation, or its failure."""
        values = [self.value(operand) for operand in operands]
        if None in [value if value is None else 0 for value in values]:
            return None
        failed = next((value for value in values if isinstance(value, _Failure)), None)
        if failed:
            return failed
        try:
            return operation(*values)
        except _Failure as failure:
            return failure

    def null_if(self, first: Any, second: Any) -> Any:
        if first is None or second is None or isinstance(first, _Failure):
            return first
        if isinstance(second, _Failure):
            return second
        return None if self.compare(first, filters.Operator.EQ, second) else first

    def extreme(self, function: str, values: list[Any]) -> Any:
        """The first value that is before none of the others."""
        present = [value for value in values if value is not None]
        failed = next((value for value in present if isinstance(value, _Failure)), None)
        if failed or not present:
            return failed
        operator = filters.Operator.GE if function == "GREATEST" else filters.Operator.LE
        for place, value in enumerate(present):
            others = present[:place] + present[place + 1 :]
            if all(self.compare(value, operator, other) for other in others):
                return value
        return _Failure(f"{function} of values that do not compare")

    def compare(self, left: Any, operator: filters.Operator, right: Any) -> bool | None:
        """As a filter compares; decimals as arithmetic takes them, and one that it does not take with nothing."""
        try:
            left, right = (computable(v) if isinstance(v, Decimal) else v for v in (left, right))
        except _Failure:
            return None
        literal = filters.Literal(filters.Kind.NUMBER, right)  # the value decides, not the kind
        return evaluate(filters.Comparison("value", operator, literal), {"value": left}, zone=self.zone)

    def call(self, function: str, values: tuple[Any, ...]) -> Any:
        if function in ("ABS", "ROUND", "FLOOR", "CEIL"):
            return _NUMERIC[function](*_numbers(values))
        texts = values[:1] if function == "SUBSTRING" else values
        if not all(isinstance(value, str) for value in texts):
            raise _Failure(f"wrong type: {function} takes text")
        if function == "LENGTH":
            return len(values[0])
        if function == "SUBSTRING":
            return _substring(*values)
        return self.limited(function, values)

    def limited(self, function: str, values: tuple[str, ...]) -> str:
        if any(len(value) > self.longest for value in values):
            raise _Failure("text too long")
        found = _TEXT[function](*values)
        if len(found) > self.longest:
            raise _Failure("text too long")
        return found


def _numbers(values: Iterable[Any]) -> list[Any]:
    """The numbers, decimals as arithmetic takes them."""
    found = list(values)
    if any(isinstance(value, bool) or not isinstance(value, int | float | Decimal) for value in found):
        raise _Failure("wrong type: not a number")
    return [computable(value) if isinstance(value, Decimal) else value for value in found]


def computable(value: Decimal) -> Decimal:
    """The decimal rounded half up to 18 digits after the point; it has at most 19 before.

    >>> computable(Decimal("0.1234567890123456785"))
    Decimal('0.123456789012345679')
    """
    found = value.quantize(Decimal(1).scaleb(-SCALE), context=_EXACT)
    if found.copy_abs() >= Decimal(10) ** (PRECISION - SCALE):  # abs() would round to 28 digits
        raise _Failure("overflow: a decimal has at most 19 digits before the point")
    return found


def _integer(value: int) -> int:
    if value not in _INTEGERS:
        raise _Failure("overflow: an integer has 64 bits")
    return value


def _negative(value: Any) -> Any:
    (number,) = _numbers([value])
    if isinstance(number, Decimal):
        return _EXACT.subtract(Decimal(0), number)
    return _integer(-number) if isinstance(number, int) else -number


def _arithmetic(operator: Operator, left: Any, right: Any) -> Any:
    left, right = _numbers([left, right])
    if operator in (Operator.DIVIDE, Operator.REMAINDER) and right == 0:
        raise _Failure("division by zero")
    if operator is Operator.DIVIDE or isinstance(left, float) or isinstance(right, float):
        return _doubles(operator, float(left), float(right))
    if isinstance(left, int) and isinstance(right, int):
        return _integer(_integers(operator, left, right))
    return computable(_decimals(operator, Decimal(left), Decimal(right)))


def _doubles(operator: Operator, left: float, right: float) -> float:
    """IEEE 754, where nothing fails but dividing by zero."""
    match operator:
        case Operator.ADD:
            return left + right
        case Operator.SUBTRACT:
            return left - right
        case Operator.MULTIPLY:
            return left * right
        case Operator.DIVIDE:
            return left / right
        case Operator.REMAINDER:
            return math.nan if math.isinf(left) else math.fmod(left, right)


def _integers(operator: Operator, left: int, right: int) -> int:
    match operator:
        case Operator.ADD:
            return left + right
        case Operator.SUBTRACT:
            return left - right
        case Operator.MULTIPLY:
            return left * right
        case _:
            size = abs(left) % abs(right)
            return -size if left < 0 else size


def _decimals(operator: Operator, left: Decimal, right: Decimal) -> Decimal:
    match operator:
        case Operator.ADD:
            return _EXACT.add(left, right)
        case Operator.SUBTRACT:
            return _EXACT.subtract(left, right)
        case Operator.MULTIPLY:
            return _EXACT.multiply(left, right)
        case _:
            return _EXACT.remainder(left, right)


def _abs(value: Any) -> Any:
    if isinstance(value, Decimal):
        return value.copy_abs()
    return _integer(abs(value)) if isinstance(value, int) else abs(value)


def _round(value: Any, digits: int = 0) -> Any:
    if isinstance(value, int) or (isinstance(value, float) and not math.isfinite(value)):
        return value
    rounded = _EXACT.quantize(Decimal(exact(value)), Decimal(1).scaleb(-digits)) if abs(value) < 1e40 else value
    return float(rounded) + 0.0 if isinstance(value, float) else computable(Decimal(rounded))


def _whole(rounding: Callable[[Any], int]) -> Callable[[Any], int]:
    def whole(value: Any) -> int:
        if isinstance(value, float) and not math.isfinite(value):
            raise _Failure("overflow: not a finite number")
        return _integer(rounding(value))

    return whole


_NUMERIC: dict[str, Callable[..., Any]] = {
    "ABS": _abs,
    "ROUND": _round,
    "FLOOR": _whole(math.floor),
    "CEIL": _whole(math.ceil),
}

_TEXT: dict[str, Callable[..., str]] = {
    "UPPER": str.upper,
    "LOWER": str.lower,
    "TRIM": lambda text: text.strip(" "),
    "LTRIM": lambda text: text.lstrip(" "),
    "RTRIM": lambda text: text.rstrip(" "),
    "CONCAT": lambda *texts: "".join(texts),
    "REPLACE": lambda text, old, new: text.replace(old, new) if old else text,
}


def _substring(text: str, start: Any, length: Any = FAR) -> str:
    """From the character at `start`, counted from 1, or from the end if it is negative; 0 is as 1."""
    if any(isinstance(place, bool) or not isinstance(place, int) for place in (start, length)):
        raise _Failure("wrong type: SUBSTRING takes text and integers")
    start, length = (max(-FAR, min(place, FAR)) for place in (start, length))
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


# CAST.

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_DOUBLE = re.compile(_NUMBER.pattern + r"(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def cast(value: Any, type: Type, zone: tzinfo = UTC) -> Any:
    """The value as one of the type, or a failure.

    >>> cast("12.345", Type(Name.DECIMAL, 4, 2)), cast(True, Type(Name.STRING)), cast(1e7, Type(Name.STRING))
    (Decimal('12.35'), 'true', '1.0E7')
    """
    match type.name, value:
        case Name.STRING, _:
            return _text(value, zone)
        case Name.BOOLEAN, bool() | str():
            return _truth(value)
        case Name.DATE, datetime():
            pass
        case (Name.DATE, date()) | (Name.TIMESTAMP, datetime()):
            return value
        case Name.DATE | Name.TIMESTAMP, str():
            return _moment(value, type, zone)
        case Name.BIGINT | Name.DOUBLE | Name.DECIMAL, bool():
            pass
        case Name.BIGINT | Name.DOUBLE | Name.DECIMAL, int() | float() | Decimal() | str():
            return _number(value, type)
    raise _Failure(f"bad cast to {type}")


def _number(value: Any, type: Type) -> Any:
    if isinstance(value, str):
        form = {Name.BIGINT: _WHOLE, Name.DOUBLE: _DOUBLE, Name.DECIMAL: _NUMBER}[type.name]
        if len(value) > NUMBER_CHARACTERS or not form.fullmatch(value):
            raise _Failure(f"bad cast to {type}")
        value = float(value) if type.name is Name.DOUBLE else Decimal(value)
        if type.name is Name.DOUBLE and math.isinf(value):
            raise _Failure("overflow: no double is so large")
    if type.name is Name.DOUBLE:
        return float(value)
    if isinstance(value, float) and (not math.isfinite(value) or not -(2.0**63) <= value < 2.0**63):
        raise _Failure(f"bad cast to {type}")
    number = Decimal(exact(value))
    if type.name is Name.BIGINT:
        return _integer(int(number.to_integral_value(ROUND_DOWN)))
    rounded = number.quantize(Decimal(1).scaleb(-type.scale), context=_EXACT)
    if rounded.copy_abs() >= Decimal(10) ** (type.precision - type.scale):
        raise _Failure(f"overflow: {type}")
    return rounded


def _truth(value: bool | str) -> bool:
    if isinstance(value, bool):
        return value
    if value.lower() not in ("true", "false"):
        raise _Failure("bad cast to boolean")
    return value.lower() == "true"


def _moment(text: str, type: Type, zone: tzinfo) -> Any:
    """A date or a timestamp in the forms that a literal may have."""
    try:
        return literals.day(text, 1).value if type.name is Name.DATE else literals.instant(text, 1, zone).value
    except FilterError:
        raise _Failure(f"bad cast to {type}") from None


def _text(value: Any, zone: tzinfo) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case Decimal():
            plain = f"{value:f}"
            plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
            return "0" if plain == "-0" else plain
        case float():
            return _double_text(value)
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=zone)
            moment = datetime(1970, 1, 1) + (aware.astimezone(UTC) - _EPOCH)
            return f"{moment.isoformat(timespec='microseconds')}Z"
        case date():
            return value.isoformat()
    raise _Failure("bad cast to string")


def _double_text(value: float) -> str:
    """As Java prints it: at least one digit after the point, an E below 0.001 and from ten million."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    shortest = f"{value:.1e}" if float(f"{value:.1e}") == value else repr(value)
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits)).rstrip("0") or "0"
    point = len(digits) + exponent - 1 if value else 0  # the power of ten of the first digit
    if value and not -3 <= point < 7:
        body = f"{written[0]}.{written[1:] or '0'}E{point}"
    else:
        plain = f"{Decimal(written).scaleb(point - len(written) + 1, context=_EXACT):f}"
        body = plain if "." in plain else f"{plain}.0"
    return f"-{body}" if sign else body
