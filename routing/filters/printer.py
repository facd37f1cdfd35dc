"""Filter to text: the shortest readable spelling, the same for equal filters.

Law: `parse(to_sql(f)) == f` for every filter that keeps the law of the tree, under limits that its text fits.
Parentheses stand only where precedence needs them, backticks only around names that are no plain words.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

from routing.filters.ast import (
    And,
    Comparison,
    Constant,
    Filter,
    In,
    IsNull,
    Kind,
    Leaf,
    Literal,
    Not,
    Operator,
    Or,
    Text,
    TextTest,
)
from routing.filters.exact import canonical
from routing.filters.like import escaped
from routing.filters.tokens import RESERVED, keyword


def to_sql(filter: Filter) -> str:
    """The filter as text.

    >>> from routing.filters.parse import parse
    >>> to_sql(parse("not (X between 1 and 2.50) and (s like 'a%' or not b is null)"))
    "NOT (X >= 1 AND X <= 2.5) AND (s LIKE 'a%' OR b IS NOT NULL)"
    """
    match filter:
        case Or(parts):
            return " OR ".join(_inside(part, Or) for part in parts)
        case And(parts):
            return " AND ".join(_inside(part, And, Or) for part in parts)
        case Not(part):
            return _negation(part)
        case _:
            return _leaf(filter)


def _inside(part: Filter, *loose: type[Filter]) -> str:
    return f"({to_sql(part)})" if isinstance(part, loose) else to_sql(part)


def _negation(part: Filter) -> str:
    match part:
        case IsNull(attribute):
            return f"{name_sql(attribute)} IS NOT NULL"
        case In():
            return _leaf(part, "NOT ")
        case TextTest() if _as_like(part):
            return _leaf(part, "NOT ")
        case _:
            return f"NOT {_inside(part, And, Or)}"


def _leaf(leaf: Leaf, negated: str = "") -> str:
    match leaf:
        case Constant(value):
            return "TRUE" if value else "FALSE"
        case Comparison(attribute, Operator.EQ, Literal(Kind.BOOLEAN, True)):
            return name_sql(attribute)
        case Comparison(attribute, operator, literal):
            return f"{name_sql(attribute)} {operator.value} {literal_sql(literal)}"
        case In(attribute, literals):
            return f"{name_sql(attribute)} {negated}IN ({', '.join(map(literal_sql, literals))})"
        case TextTest(attribute, test, text):
            pattern = _as_like(leaf)
            if pattern:
                return f"{name_sql(attribute)} {negated}LIKE {_quoted(pattern)}"
            return f"{test.value}({name_sql(attribute)}, {_quoted(text)})"
        case IsNull(attribute):
            return f"{name_sql(attribute)} IS NULL"


def _as_like(leaf: TextTest) -> str:
    """The LIKE pattern of a text test; none if its text would need escapes, which a function reads better without."""
    if leaf.test is Text.LIKE:
        return leaf.text
    if escaped(leaf.text) != leaf.text:
        return ""
    before, after = leaf.test is not Text.PREFIX, leaf.test is not Text.SUFFIX
    return "%" * before + leaf.text + "%" * after


def name_sql(attribute: str) -> str:
    """The name of an attribute, with backticks around the parts that are no plain words.

    >>> print(name_sql("order.line no.in"))
    order.`line no`.`in`
    """
    parts = attribute.split(".")
    return ".".join(map(_part, parts)) if all(parts) else _backticked(attribute)


def _part(part: str) -> str:
    return part if part.isidentifier() and keyword(part) not in RESERVED else _backticked(part)


def _backticked(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def literal_sql(literal: Literal) -> str:
    """The literal as text.

    >>> literal_sql(Literal(Kind.NUMBER, 1e300)), literal_sql(Literal(Kind.DATE, date(2026, 1, 31)))
    ('1e300', "DATE '2026-01-31'")
    """
    match literal.value:
        case bool(truth):
            return "TRUE" if truth else "FALSE"
        case str(text):
            return _quoted(text)
        case datetime() as instant:
            return f"TIMESTAMP '{instant.astimezone(UTC).replace(tzinfo=None).isoformat(sep=' ')}Z'"
        case date() as day:
            return f"DATE '{day.isoformat()}'"
        case number:
            return _number(canonical(number))


def _quoted(text: str) -> str:
    return f"'{text.replace(chr(39), chr(39) * 2)}'"


def _number(number: int | Decimal) -> str:
    """Plain, or with an exponent if the double that this means is this very number, and shorter."""
    plain = f"{number:f}" if isinstance(number, Decimal) else str(number)
    double = float(number)
    short = repr(double).replace("e+", "e").replace("e-0", "e-")
    return short if "e" in short and len(short) < len(plain) and canonical(double) == number else plain
