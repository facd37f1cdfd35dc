"""Trees to clauses, one filter after the other: for filters that come as trees, and for texts of any form.

Law: the filter is in positive form (`push_negations`), so every leaf is two-valued: true, or not true, and a
disjunction of conjunctions of leaves is true exactly where the filter is. That form may explode; beyond a bound the
filter stays a tree, which costs every event a look.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import numpy as np

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
    TextTest,
)
from routing.matching.clauses import KINDS, Clauses, Op, Texts, Tree
from routing.matching.cuts import Number, number_of
from routing.matching.numbers import table

MOST_CONJUNCTIONS = 64
MOST_LEAVES = 1024

_ORDER = {Operator.LT: Op.LESS, Operator.GE: Op.AT_LEAST, Operator.LE: Op.AT_MOST, Operator.GT: Op.MORE}
_TEXT = {Text.PREFIX: Op.PREFIX, Text.SUFFIX: Op.SUFFIX, Text.SUBSTRING: Op.SUBSTRING, Text.LIKE: Op.LIKE}


def disjunction(filter: Filter) -> list[list[Filter]] | None:
    """The leaves of each conjunction, or None if there would be too many.

    >>> x, y, z = IsNull("x"), IsNull("y"), IsNull("z")
    >>> disjunction(And((x, Or((y, z))))) == [[x, y], [x, z]]
    True
    """
    match filter:
        case Constant(truth):
            return [[]] if truth else []
        case Or(parts):
            found: list[list[Filter]] = []
            for part in parts:
                some = disjunction(part)
                if some is None or len(found) + len(some) > MOST_CONJUNCTIONS:
                    return None
                found += some
            return found
        case And(parts):
            found = [[]]
            for part in parts:
                some = disjunction(part)
                if some is None or len(found) * len(some) > MOST_CONJUNCTIONS:
                    return None
                found = [[*left, *right] for left in found for right in some]
            return found if sum(map(len, found)) <= MOST_LEAVES else None
        case _:
            return [[filter]]


class Lowering:
    """Collects the clauses of filters, each added under the number of its subscription.

    >>> lowering = Lowering()
    >>> lowering.add(0, Comparison("x", Operator.LE, Literal(Kind.NUMBER, 2)))
    >>> lowering.clauses().ops.tolist() == [Op.AT_MOST]
    True
    """

    def __init__(self) -> None:
        self._owners, self._conjunctions, self._attributes = array("i"), array("i"), array("i")
        self._ops, self._starts = array("b"), array("q", [0])
        self._kinds, self._values = array("b"), array("i")
        self._names: dict[str, int] = {}
        self._numbers: dict[Number, int] = {}
        self._texts: dict[bytes, int] = {}
        self._trees: list[tuple[int, Tree]] = []

    def add(self, subscription: int, filter: Filter) -> None:
        """One filter, in positive form."""
        found = disjunction(filter)
        if found is None:
            self._trees.append((subscription, self._tree(filter)))
        else:
            for leaves in found:
                self._conjunction(subscription, leaves)

    def clauses(self) -> Clauses:
        """All that was added."""
        data = b"".join(self._texts)
        return Clauses(
            np.array(self._owners, np.int32),
            np.array(self._conjunctions, np.int32),
            np.array(self._attributes, np.int32),
            np.array(self._ops, np.int8),
            np.array(self._starts, np.int64),
            np.array(self._kinds, np.int8),
            np.array(self._values, np.int32),
            tuple(self._names),
            table(list(self._numbers)),
            Texts(np.frombuffer(data, np.uint8), np.cumsum([0, *map(len, self._texts)], dtype=np.int64)),
            tuple(self._trees),
        )

    def _tree(self, filter: Filter) -> Tree:
        match filter:
            case And(parts) | Or(parts):
                return isinstance(filter, And), tuple(map(self._tree, parts))
            case _:
                return self._conjunction(-1, [filter])

    def _conjunction(self, owner: int, leaves: Iterable[Filter]) -> int:
        """All leaves; the `<>` of one attribute together, as NOT IN gives many."""
        number = len(self._owners)
        self._owners.append(owner)
        excluded: dict[tuple[str, Kind], list[Literal]] = {}
        for leaf in leaves:
            if isinstance(leaf, Comparison) and leaf.operator is Operator.NE:
                excluded.setdefault((leaf.attribute, leaf.literal.kind), []).append(leaf.literal)
            else:
                self._leaf(number, leaf)
        for (attribute, _), literals in excluded.items():
            self._row(number, attribute, Op.NOT_IN, map(self._member, literals))
        return number

    def _leaf(self, number: int, leaf: Filter) -> None:
        match leaf:
            case IsNull(attribute):
                self._row(number, attribute, Op.NULL)
            case Not(IsNull(attribute)):
                self._row(number, attribute, Op.NOT_NULL)
            case TextTest():
                self._text(number, leaf, negated=False)
            case Not(TextTest() as test):
                self._text(number, test, negated=True)
            case In(attribute, literals):
                self._row(number, attribute, Op.IN, map(self._member, literals))
            case Comparison(attribute, Operator.EQ, literal):
                self._row(number, attribute, Op.IN, [self._member(literal)])
            case Comparison(attribute, operator, literal):
                self._row(number, attribute, _ORDER[operator], [self._member(literal)])
            case _:
                raise ValueError(f"not in positive form: {leaf}")

    def _text(self, number: int, test: TextTest, *, negated: bool) -> None:
        text = test.text.encode()
        members = [text]
        op = _TEXT[test.test]
        if op is Op.PREFIX and not text:
            op = Op.NOT_IN if negated else Op.TEXT  # NOT_IN of nothing: no string is no "any string"
            members = [] if negated else members
        elif op is Op.PREFIX:
            members.append(text[:-1] + bytes([text[-1] + 1]))  # no byte of UTF-8 is 255
        self._row(number, test.attribute, Op(op + negated) if members else op, [(0, self._string(m)) for m in members])

    def _row(self, number: int, attribute: str, op: Op, members: Iterable[tuple[int, int]] = ()) -> None:
        self._conjunctions.append(number)
        self._attributes.append(self._names.setdefault(attribute, len(self._names)))
        self._ops.append(op)
        for kind, value in members:
            self._kinds.append(kind)
            self._values.append(value)
        self._starts.append(len(self._kinds))

    def _member(self, literal: Literal) -> tuple[int, int]:
        if isinstance(literal.value, str):
            return KINDS.index(literal.kind), self._string(literal.value.encode())
        number = number_of(literal)
        return KINDS.index(literal.kind), self._numbers.setdefault(number, len(self._numbers))

    def _string(self, text: bytes) -> int:
        return self._texts.setdefault(text, len(self._texts))
