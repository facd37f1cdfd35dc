"""The filter as a value: a small typed tree, immutable, hashable and comparable.

Law: two texts that differ only in spelling (case of keywords, spacing, `!=`, `BETWEEN`, LIKE's pure forms, redundant
parentheses) give equal trees. `And` never holds an `And`, `Or` never holds an `Or`; both hold at least two parts.
Use `conjunction` and `disjunction` to build trees that keep this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from typing import TypeAlias

Value: TypeAlias = str | bool | int | float | Decimal | date | datetime


class _Word(Enum):
    """Members are one object each, so identity hashes them, much faster than Enum's hash of the name."""

    __hash__ = object.__hash__


class Kind(_Word):
    """The type of a literal or a value. All numbers are one kind, compared exactly (SPEC §2)."""

    STRING = "string"
    BOOLEAN = "boolean"
    NUMBER = "number"
    DATE = "date"
    TIMESTAMP = "timestamp"


class Operator(_Word):
    """The six comparisons."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Text(_Word):
    """What a text test looks for, and where."""

    PREFIX = "STARTSWITH"
    SUFFIX = "ENDSWITH"
    SUBSTRING = "CONTAINS"
    LIKE = "LIKE"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant with its kind, so that 1, TRUE and '1' stay three different things.

    A NUMBER holds the int or Decimal that it stands for, so equal numbers are equal literals; the parser makes a
    literal with an exponent exact too (`routing.filters.exact`). A TIMESTAMP holds an aware datetime in UTC.
    """

    kind: Kind
    value: Value


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE or FALSE standing alone."""

    value: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """`attribute operator literal`; a bare attribute is a comparison with TRUE."""

    attribute: str
    operator: Operator
    literal: Literal


@dataclass(frozen=True, slots=True)
class In:
    """`attribute IN (…)`: the OR of its equalities, whose types may differ. At least one literal, none twice."""

    attribute: str
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class TextTest:
    """STARTSWITH, ENDSWITH, CONTAINS, or a LIKE that is none of these and no equality.

    `text` is plain for the first three; for LIKE it is the pattern as written, with runs of `%` made one. The empty
    prefix stands for all three empty forms and for `LIKE '%'`: "any string".
    """

    attribute: str
    test: Text
    text: str


@dataclass(frozen=True, slots=True)
class IsNull:
    """`attribute IS NULL`; `IS NOT NULL` and `ANY` are its negation."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of one part."""

    part: Filter


@dataclass(frozen=True, slots=True)
class And:
    """All parts, in the order written."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part, in the order written."""

    parts: tuple[Filter, ...]


Leaf: TypeAlias = Constant | Comparison | In | TextTest | IsNull
Filter: TypeAlias = Leaf | Not | And | Or


def conjunction(parts: Iterable[Filter]) -> Filter:
    """The parts joined by AND, flattened; one part stands for itself."""
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, And) else (part,)))
    return flat[0] if len(flat) == 1 else And(flat)


def disjunction(parts: Iterable[Filter]) -> Filter:
    """The parts joined by OR, flattened; one part stands for itself."""
    flat = tuple(inner for part in parts for inner in (part.parts if isinstance(part, Or) else (part,)))
    return flat[0] if len(flat) == 1 else Or(flat)


def attributes(filter: Filter) -> frozenset[str]:
    """The names of all attributes that the filter mentions.

    >>> sorted(attributes(And((IsNull("a"), Not(IsNull("b.c"))))))
    ['a', 'b.c']
    """
    found: set[str] = set()
    waiting: list[Filter] = [filter]
    while waiting:
        node = waiting.pop()
        if isinstance(node, And | Or):
            waiting.extend(node.parts)
        elif isinstance(node, Not):
            waiting.append(node.part)
        elif not isinstance(node, Constant):
            found.add(node.attribute)
    return frozenset(found)
