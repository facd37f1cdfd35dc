"""Mapping to text.

Law: `parse_mapping(to_sql(m)) == m` for every mapping that the parser makes, under limits that its text fits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

from routing.filters import ast as filters
from routing.filters import printer
from routing.filters.tokens import keyword
from routing.filters.tokens import tokenize as filter_tokens
from routing.mappings.ast import (
    Assign,
    Attribute,
    Binary,
    Call,
    Case,
    Cast,
    Drop,
    Expression,
    Literal,
    Mapping,
    Name,
    Negative,
    Null,
    Operator,
)
from routing.mappings.tokens import RESERVED

_Loose: TypeAlias = tuple[Operator, ...]
_SUM: _Loose = (Operator.ADD, Operator.SUBTRACT)


def to_sql(mapping: Mapping) -> str:
    """The mapping as text.

    >>> from routing.mappings.parse import parse_mapping
    >>> to_sql(parse_mapping("a = (x+1.50)*-2, label = upper(name) || '!', drop `b c`"))
    "a = (x + 1.50) * -2, label = CONCAT(UPPER(name), '!'), DROP `b c`"
    """
    return ", ".join(_assignment(assignment) for assignment in mapping.assignments)


def _assignment(assignment: Assign | Drop) -> str:
    match assignment:
        case Assign(attribute, expression):
            return f"{_name(attribute)} = {expression_sql(expression)}"
        case Drop(attribute):
            return f"DROP {_name(attribute)}"


def expression_sql(expression: Expression) -> str:
    """The expression as text, parentheses only where precedence needs them."""
    match expression:
        case Null():
            return "NULL"
        case Literal():
            return _literal(expression)
        case Attribute(name):
            return _name(name)
        case Negative(part):
            return f"-({expression_sql(part)})"
        case Binary():
            return _binary(expression)
        case Call(function, arguments):
            return f"{function}({', '.join(map(expression_sql, arguments))})"
        case Cast(part, type):
            return f"CAST({expression_sql(part)} AS {type})"
        case Case(branches, otherwise):
            whens = "".join(f" WHEN {_condition(when)} THEN {expression_sql(then)}" for when, then in branches)
            return f"CASE{whens}{'' if otherwise == Null() else f' ELSE {expression_sql(otherwise)}'} END"


def _binary(binary: Binary) -> str:
    product = binary.operator not in _SUM
    left = _inside(binary.left, loose=_SUM if product else ())
    right = _inside(binary.right, loose=tuple(Operator) if product else _SUM)
    return f"{left} {binary.operator.value} {right}"


def _inside(part: Expression, loose: _Loose) -> str:
    text = expression_sql(part)
    return f"({text})" if isinstance(part, Binary) and part.operator in loose else text


def _literal(literal: Literal) -> str:
    value = literal.value
    if literal.type.name is Name.DOUBLE:
        text = repr(value)
        return text if "e" in text else f"{text}e0"
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text if "." in text else f"{text}."
    if literal.type.name is Name.BIGINT:
        return str(value)
    kind = filters.Kind(literal.type.name.value)
    return printer.literal_sql(filters.Literal(kind, value))


def _name(attribute: str) -> str:
    return f"`{attribute}`" if keyword(attribute) in RESERVED else printer.name_sql(attribute)


def _condition(filter: filters.Filter) -> str:
    """The filter as text; the word that ends a condition stands in backticks where it is a name."""
    text = printer.to_sql(filter)
    for token in reversed(filter_tokens(text)):
        if token.word == "THEN":
            at = token.column - 1
            text = f"{text[:at]}`{token.text}`{text[at + len(token.text) :]}"
    return text
