"""The mapping as a value: a small typed tree, immutable, hashable and comparable.

Law: two texts that differ only in spelling (case of keywords, spacing, `||` or CONCAT, an ELSE NULL, redundant
parentheses) give equal trees. No attribute is set or dropped twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from routing.filters.ast import Filter, Value


class Name(Enum):
    """The types of attributes (SPEC §2)."""

    STRING = "string"
    BOOLEAN = "boolean"
    BIGINT = "bigint"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True, slots=True)
class Type:
    """A type; a decimal has at most `precision` digits, `scale` of them after the point."""

    name: Name
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})" if self.name is Name.DECIMAL else self.name.value


class Operator(Enum):
    """Arithmetic."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"


@dataclass(frozen=True, slots=True)
class Null:
    """NULL: no value."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant with its type, so that 1, 1.0, 1e0, TRUE and '1' stay five different things."""

    type: Type
    value: Value


@dataclass(frozen=True, slots=True)
class Attribute:
    """The value that the event has before the mapping."""

    name: str


@dataclass(frozen=True, slots=True)
class Negative:
    """`-(part)`; the minus of a number belongs to the literal."""

    part: Expression


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`."""

    operator: Operator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the language by its name in capitals; `a || b` is CONCAT."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """The first branch whose filter is TRUE of the event before the mapping; else `otherwise`."""

    branches: tuple[tuple[Filter, Expression], ...]
    otherwise: Expression = field(default_factory=Null)


@dataclass(frozen=True, slots=True)
class Cast:
    """`CAST(part AS type)`."""

    part: Expression
    type: Type


Expression: TypeAlias = Null | Literal | Attribute | Negative | Binary | Call | Case | Cast


@dataclass(frozen=True, slots=True)
class Assign:
    """`attribute = expression`."""

    attribute: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Drop:
    """`DROP attribute`."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Mapping:
    """What is set and what is dropped, in the order written; every expression sees the event before the mapping."""

    assignments: tuple[Assign | Drop, ...]


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The expressions that one is made of.

    >>> parts(Negative(Attribute("x")))
    (Attribute(name='x'),)
    """
    match expression:
        case Negative(part) | Cast(part, _):
            return (part,)
        case Binary(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case Case(branches, otherwise):
            return (*(value for _, value in branches), otherwise)
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of."""
    waiting: list[Expression] = [expression]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(parts(node))
