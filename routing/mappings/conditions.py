"""A filter as one column of TRUE, FALSE and NULL, for the conditions of CASE.

Law: the column is `routing.filters.evaluate` of the row: a comparison with an absent attribute, a value of another type
or NaN is NULL. Numbers are compared in the column's own type with the cut points of `routing.matching.cuts`, so nothing
is rounded. LIKE takes time proportional to text × pattern: each piece is found at its first place and not sought again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.filters.ast import (
    And,
    Comparison,
    Constant,
    Filter,
    In,
    IsNull,
    Kind,
    Literal,
    Not,
    Operator,
    Or,
    Text,
    Value,
)
from routing.filters.like import Piece, Wildcard, compile_like
from routing.mappings.ast import Name
from routing.mappings.typed import Attributes, Typed, attribute, bigint
from routing.matching.cuts import above, bounds, least, number_of
from udfs.columns import Domain, Slot

_KINDS = {
    Name.STRING: Kind.STRING,
    Name.BOOLEAN: Kind.BOOLEAN,
    Name.BIGINT: Kind.NUMBER,
    Name.DOUBLE: Kind.NUMBER,
    Name.DECIMAL: Kind.NUMBER,
    Name.DATE: Kind.DATE,
    Name.TIMESTAMP: Kind.TIMESTAMP,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def condition(filter: Filter, attributes: Attributes) -> Column:
    """The filter over typed columns; an attribute that is not there is absent."""
    match filter:
        case Constant(truth):
            return F.lit(truth)
        case And(parts):
            return balanced(and_, [condition(part, attributes) for part in parts])
        case Or(parts):
            return balanced(or_, [condition(part, attributes) for part in parts])
        case Not(part):
            return ~condition(part, attributes)
        case IsNull(name):
            return ~attribute(name, attributes).present
        case Comparison(name, operator, literal):
            return _any([_compared(typed, operator, literal) for typed in _alternatives(name, attributes)])
        case In(name, literals):
            found = _alternatives(name, attributes)
            return _any(
                [balanced(or_, [_compared(typed, Operator.EQ, literal) for literal in literals]) for typed in found]
            )
        case _:
            texts = [typed for typed in _alternatives(filter.attribute, attributes) if typed.name is Name.STRING]
            return _any([_looked(typed.column, filter.test, filter.text) for typed in texts])


def balanced(join: Callable[[Column, Column], Column], parts: Sequence[Column]) -> Column:
    """The parts joined as a tree of little depth: Spark's stack is finite."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return join(balanced(join, parts[:middle]), balanced(join, parts[middle:]))


def _alternatives(name: str, attributes: Attributes) -> tuple[Typed, ...]:
    return attribute(name, attributes).alternatives


def _any(found: Sequence[Column]) -> Column:
    """At most one alternative has a value, and only that one gives an answer."""
    return F.coalesce(*found) if found else _unknown()


def _unknown() -> Column:
    return F.lit(None).cast(T.BooleanType())


def _compared(typed: Typed, operator: Operator, literal: Literal) -> Column:
    if typed.name is None or _KINDS[typed.name] is not literal.kind:
        return _unknown()
    if literal.kind is Kind.NUMBER:
        return _number_compared(typed, operator, literal)
    return _PLAIN[operator](typed.column, constant(literal.value))


_PLAIN: dict[Operator, Callable[[Column, Column], Column]] = {
    Operator.EQ: lambda a, b: a == b,
    Operator.NE: lambda a, b: a != b,
    Operator.LT: lambda a, b: a < b,
    Operator.LE: lambda a, b: a <= b,
    Operator.GT: lambda a, b: a > b,
    Operator.GE: lambda a, b: a >= b,
}


def constant(value: Value) -> Column:
    """The constant as a column. Days and microseconds, not Python's dates: those pass through Java's old calendar."""
    if isinstance(value, datetime):
        return F.timestamp_micros(bigint((value - _EPOCH) // timedelta(microseconds=1)))
    if isinstance(value, date):
        return F.date_from_unix_date(F.lit(value.toordinal() - _EPOCH.toordinal()))
    return F.lit(value)


def _number_compared(typed: Typed, operator: Operator, literal: Literal) -> Column:
    number = number_of(literal)
    slot, answer = _slot(typed), F.lit(True)
    at_least = _reaches(typed, least(slot, number))
    more = _reaches(typed, above(slot, number))
    match operator:
        case Operator.GE:
            answer = at_least
        case Operator.GT:
            answer = more
        case Operator.LT:
            answer = ~at_least
        case Operator.LE:
            answer = ~more
        case Operator.EQ:
            answer = at_least & ~more
        case Operator.NE:
            answer = ~(at_least & ~more)
    known = typed.column.isNotNull()
    if typed.name is Name.DOUBLE:
        known = known & ~F.isnan(typed.column)
    return F.when(known, answer)


def _slot(typed: Typed) -> Slot:
    if isinstance(typed.type, T.DecimalType):
        return Slot(0, "", Domain.DECIMAL, typed.type.scale)
    return Slot(0, "", Domain.DOUBLE if typed.name is Name.DOUBLE else Domain.INTEGER)


def _reaches(typed: Typed, cut: int | float) -> Column:
    """Whether a value is at least the cut, which may lie beyond what the type can hold."""
    if isinstance(cut, float):
        return typed.column >= F.lit(cut)
    if isinstance(typed.type, T.DecimalType):
        greatest = 10**typed.type.precision - 1
        if -greatest <= cut <= greatest:
            text = f"{Decimal(cut).scaleb(-typed.type.scale):f}"
            return typed.column >= F.lit(text).cast(typed.type)
        return F.lit(cut < 0)
    lowest, highest = bounds(_slot(typed))
    return typed.column >= bigint(cut) if lowest <= cut <= highest else F.lit(cut < 0)


def _looked(column: Column, test: Text, text: str) -> Column:
    match test:
        case Text.PREFIX:
            return column.startswith(F.lit(text))
        case Text.SUFFIX:
            return column.endswith(F.lit(text))
        case Text.SUBSTRING:
            return column.contains(F.lit(text))
        case Text.LIKE:
            return F.rlike(column, F.lit(like_regex(text)))


def like_regex(pattern: str) -> str:
    r"""The Java regular expression that finds a LIKE pattern without going back.

    A run between two `%` is taken at its first place, in a group that keeps what it took: what an earlier place leaves
    over, a later one leaves less of. The last run stands at the end.

    >>> like_regex("a%_b%c")
    '(?s)\\Aa(?>.*?.b).*c\\z'
    """
    runs: list[list[Piece]] = [[]]
    for piece in compile_like(pattern):
        if piece is Wildcard.MANY:
            runs.append([])
        else:
            runs[-1].append(piece)
    first, *others = ["".join(map(_regex, run)) for run in runs]
    middle = "".join(f"(?>.*?{run})" for run in others[:-1])
    last = f".*{others[-1]}" if others else ""
    return rf"(?s)\A{first}{middle}{last}\z"


def _regex(piece: Piece) -> str:
    if piece is Wildcard.ONE:
        return "."
    assert isinstance(piece, str)
    return "".join(c if c.isascii() and c.isalnum() else f"\\x{{{ord(c):x}}}" for c in piece)
