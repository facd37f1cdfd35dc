"""What a filter means for many events at once: each attribute a column, each answer two masks.

Law: TRUE and FALSE are masks, and what is in neither is UNKNOWN (SPEC §3). A value lies in the column for its own type
and compares with literals of its kind only; numbers compare exactly, whatever type they have. A test that has no shape
of its own here is put to `evaluate`, once for each distinct value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from routing.filters import Filter, evaluate
from routing.filters.ast import And, Comparison, Constant, In, IsNull, Kind, Literal, Not, Operator, Or, Text, TextTest
from routing.filters.exact import exact

Mask: TypeAlias = NDArray[np.bool_]
Leaf: TypeAlias = Comparison | In | IsNull | TextTest

KINDS = {
    "integer": Kind.NUMBER,
    "double": Kind.NUMBER,
    "decimal": Kind.NUMBER,
    "string": Kind.STRING,
    "boolean": Kind.BOOLEAN,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
}
"""The columns that an attribute has, and the kind of the values in each; `other` holds what compares with nothing."""

_KEPT = 4_096  # answers of leaves; filters of one feed share many
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMPY: dict[Operator, Callable[[Any, Any], Mask]] = {
    Operator.EQ: eq, Operator.NE: ne, Operator.LT: lt, Operator.LE: le, Operator.GT: gt, Operator.GE: ge,
}  # fmt: skip
_ARROW = {
    Operator.EQ: pc.equal, Operator.NE: pc.not_equal, Operator.LT: pc.less, Operator.LE: pc.less_equal,
    Operator.GT: pc.greater, Operator.GE: pc.greater_equal,
}  # fmt: skip


class Truth(NamedTuple):
    """Of which events a filter is TRUE, and of which FALSE."""

    true: Mask
    false: Mask


class Chunk:
    """Some events: for each attribute a struct with a child for each type, at most one of them not NULL.

    >>> from routing.filters import parse
    >>> children = [pa.array([90, None, 120]), pa.array([None, "x", None])]
    >>> price = pa.StructArray.from_arrays(children, ["integer", "string"])
    >>> Chunk({"price": price}, 3).truth(parse("NOT price > 100")).true.tolist()
    [True, False, False]
    """

    def __init__(self, attributes: Mapping[str, pa.StructArray], size: int) -> None:
        self._columns = {name: _Column(name, struct) for name, struct in attributes.items()}
        self._size = size
        self._nowhere = np.zeros(size, np.bool_)
        self._known: dict[Leaf, Truth] = {}

    def truth(self, filter: Filter) -> Truth:
        """Of which events the filter is TRUE and FALSE. The masks are not to be changed."""
        match filter:
            case Constant(value):
                everywhere = ~self._nowhere
                return Truth(everywhere, self._nowhere) if value else Truth(self._nowhere, everywhere)
            case And(parts):
                truths = [self.truth(part) for part in parts]
                return Truth(_all([t.true for t in truths]), _any([t.false for t in truths]))
            case Or(parts):
                truths = [self.truth(part) for part in parts]
                return Truth(_any([t.true for t in truths]), _all([t.false for t in truths]))
            case Not(part):
                true, false = self.truth(part)
                return Truth(false, true)
            case _:
                return self._leaf(filter)

    def _leaf(self, leaf: Leaf) -> Truth:
        known = self._known.get(leaf)
        if known is None:
            column = self._columns.get(leaf.attribute)
            if column:
                known = column.truth(leaf)
            else:
                known = Truth(self._nowhere, self._nowhere)
                if isinstance(leaf, IsNull):
                    known = Truth(~self._nowhere, self._nowhere)
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[leaf] = known
        return known


class _Column:
    """One attribute of some events."""

    def __init__(self, name: str, struct: pa.StructArray) -> None:
        self._name, self._size = name, len(struct)
        fields = {field.name: struct.field(place) for place, field in enumerate(struct.type)}
        self._there = {kind: values for kind, values in fields.items() if values.null_count < len(values)}
        self._present = {kind: values.is_valid().to_numpy(zero_copy_only=False) for kind, values in self._there.items()}
        self._plain: dict[str, NDArray[Any]] = {}
        self._distinct: dict[str, tuple[list[Any], NDArray[np.int32]]] = {}

    def truth(self, leaf: Leaf) -> Truth:
        """Of which events it is TRUE, and of which FALSE."""
        present = _any([np.zeros(self._size, np.bool_), *self._present.values()])
        if isinstance(leaf, IsNull):
            return Truth(~present, present)
        true, false = np.zeros(self._size, np.bool_), np.zeros(self._size, np.bool_)
        for child, values in self._there.items():
            if child == "other":
                continue
            yes, comparable = self._child(child, values, leaf)
            there = self._present[child]
            true |= there & yes
            false |= there & ~yes & comparable
        return Truth(true, false)

    def _child(self, child: str, values: pa.Array, leaf: Comparison | In | TextTest) -> tuple[Mask, Mask]:
        """Where the test holds, and where it can be made at all, of the values of one type."""
        everywhere, nowhere = np.ones(self._size, np.bool_), np.zeros(self._size, np.bool_)
        kind = KINDS[child]
        match leaf:
            case TextTest():
                return (self._text(values, leaf), everywhere) if kind is Kind.STRING else (nowhere, nowhere)
            case Comparison(_, operator, literal):
                if literal.kind is not kind:
                    return nowhere, nowhere
                return self._compared(child, values, operator, literal.value)
            case In(_, literals):
                mine = [literal.value for literal in literals if literal.kind is kind]
                if child == "string" and mine:
                    yes = pc.is_in(values, pa.array(mine, pa.string())).to_numpy(zero_copy_only=False)
                    comparable = everywhere
                else:
                    tests = [self._compared(child, values, Operator.EQ, value) for value in mine]
                    yes, comparable = (
                        _any([nowhere, *(t[0] for t in tests)]),
                        _all([everywhere, *(t[1] for t in tests)]),
                    )
                return yes, comparable if len(mine) == len(literals) else nowhere

    def _compared(self, child: str, values: pa.Array, operator: Operator, literal: Any) -> tuple[Mask, Mask]:
        everywhere = np.ones(self._size, np.bool_)
        match child:
            case "integer":
                return _integers(self._numbers(child, values), operator, literal), everywhere
            case "double":
                numbers = self._numbers(child, values)
                return _doubles(numbers, operator, literal), ~np.isnan(numbers)
            case "string":
                answer = _ARROW[operator](values, pa.scalar(literal, values.type))
                return pc.fill_null(answer, False).to_numpy(zero_copy_only=False), everywhere
            case "date":
                return _NUMPY[operator](self._numbers(child, values), (literal - date(1970, 1, 1)).days), everywhere
            case "timestamp":
                micros = (literal - _EPOCH) // timedelta(microseconds=1)
                return _NUMPY[operator](self._numbers(child, values), micros), everywhere
        test = Comparison(self._name, operator, Literal(KINDS[child], literal))
        return self._asked(child, values, test), everywhere

    def _text(self, values: pa.Array, leaf: TextTest) -> Mask:
        match leaf.test:
            case Text.PREFIX:
                answer = pc.starts_with(values, leaf.text)
            case Text.SUFFIX:
                answer = pc.ends_with(values, leaf.text)
            case Text.SUBSTRING:
                answer = pc.match_substring(values, leaf.text)
            case _:
                return self._asked("string", values, leaf)
        mask: Mask = pc.fill_null(answer, False).to_numpy(zero_copy_only=False)
        return mask

    def _asked(self, child: str, values: pa.Array, leaf: Comparison | TextTest) -> Mask:
        """What `evaluate` says of each distinct value."""
        if child not in self._distinct:
            coded = values.dictionary_encode()
            found = [Decimal(v) if child == "decimal" else v for v in coded.dictionary.to_pylist()]
            self._distinct[child] = found, coded.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        found, places = self._distinct[child]
        answers = [evaluate(leaf, {self._name: value}) is True for value in found]
        return np.array([*answers, False])[places]

    def _numbers(self, child: str, values: pa.Array) -> NDArray[Any]:
        if child not in self._plain:
            stored = {"date": pa.int32(), "timestamp": pa.int64()}.get(child)
            plain = values.cast(stored) if stored else values
            self._plain[child] = plain.fill_null(0).to_numpy(zero_copy_only=False)
        return self._plain[child]


def _integers(values: NDArray[np.int64], operator: Operator, literal: int | Decimal) -> Mask:
    """Integers against a number, exactly: one between two integers is above the lower of them."""
    if isinstance(literal, Decimal) and not literal.is_finite():
        return np.full(len(values), _NUMPY[operator](0.0, float(literal)))
    floor = math.floor(literal)
    if floor == literal:
        if _LOWEST <= floor <= _HIGHEST:
            return _NUMPY[operator](values, floor)
        return np.full(len(values), _NUMPY[operator](0, floor))
    if floor < _LOWEST or floor >= _HIGHEST:
        return np.full(len(values), _NUMPY[operator](0, floor))
    return _between(operator, values <= floor)


def _doubles(values: NDArray[np.float64], operator: Operator, literal: int | Decimal) -> Mask:
    """Doubles against a number, exactly: of those that are not nearest to it the order is that of the doubles."""
    near = float(Decimal(literal))
    stands_for = exact(near)
    if stands_for == literal:
        return _NUMPY[operator](values, near)
    return _between(operator, values <= (near if stands_for < literal else math.nextafter(near, -math.inf)))


def _between(operator: Operator, below: Mask) -> Mask:
    """The answer where no value equals the literal, and those below it are known."""
    match operator:
        case Operator.EQ:
            return np.zeros(len(below), np.bool_)
        case Operator.NE:
            return np.ones(len(below), np.bool_)
        case Operator.LT | Operator.LE:
            return below
    return ~below


def _all(masks: list[Mask]) -> Mask:
    return masks[0] if len(masks) == 1 else np.logical_and.reduce(masks)


def _any(masks: list[Mask]) -> Mask:
    return masks[0] if len(masks) == 1 else np.logical_or.reduce(masks)
