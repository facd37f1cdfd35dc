"""One filter to code over leaves of the kernel.

Law: the filter is in positive form (`push_negations`), so every leaf is two-valued: true, or not true. A leaf whose
literal is of another kind than the column, or that names an attribute the schema lacks, is never true; so is its
negation. Over an any-typed attribute a leaf is the OR of the slots of its literal's kind, for at most one of them holds
a value. Equal leaves get one number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from routing.errors import FilterTooLarge
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
from routing.filters.like import Wildcard, compile_like
from routing.matching.cuts import KINDS, Cut, above, bounds, equal, least
from udfs.columns import Domain, Slot, presence, slots
from udfs.leaves import Test
from udfs.postfix import ALWAYS, NEVER, Code, all_of, any_of

_TEXT_TESTS = {Text.PREFIX: Test.PREFIX, Text.SUFFIX: Test.SUFFIX, Text.SUBSTRING: Test.SUBSTRING}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A test of one slot; its operands are numbers of that slot, ascending, or one text."""

    slot: int
    test: Test
    negated: bool
    operands: tuple[Cut, ...] = ()


@dataclass(slots=True)
class Lowering:
    """The slots, leaves and vocabulary that the filters lowered so far need.

    >>> lowering = Lowering(pa.schema({"x": pa.int32()}), {"x": 0})
    >>> lowering.code(Comparison("x", Operator.LE, Literal(Kind.NUMBER, 2)))
    (0,)
    >>> list(lowering.leaves)
    [Leaf(slot=0, test=<Test.LESS: 3>, negated=False, operands=(3,))]
    """

    schema: pa.Schema
    columns: dict[str, int]
    """The place, in the program, of each column that the schema has."""
    slots: dict[Slot, int] = field(default_factory=dict)
    leaves: dict[Leaf, int] = field(default_factory=dict)
    costs: list[int] = field(default_factory=list)
    """How late a conjunction should ask each leaf."""
    vocabularies: dict[int, dict[str, int]] = field(default_factory=dict)
    """For each text slot, the code of each string that an equality names."""

    def code(self, filter: Filter) -> Code:
        """The code that is true of the events that the filter matches."""
        match filter:
            case Constant(value):
                return ALWAYS if value else NEVER
            case And(parts):
                return self._conjunction(parts)
            case Or(parts):
                return any_of([self.code(part) for part in parts])
            case IsNull(attribute):
                return self._null(attribute, negated=False)
            case Not(IsNull(attribute)):
                return self._null(attribute, negated=True)
            case TextTest():
                return self._text(filter, negated=False)
            case Not(TextTest() as test):
                return self._text(test, negated=True)
            case In(attribute, literals):
                kinds = dict.fromkeys(literal.kind for literal in literals)
                same = ([literal for literal in literals if literal.kind is kind] for kind in kinds)
                return any_of([self._among(attribute, some, negated=False) for some in same])
            case Comparison(attribute, Operator.EQ | Operator.NE as operator, literal):
                return self._among(attribute, [literal], negated=operator is Operator.NE)
            case Comparison():
                return any_of(
                    [self._order(slot, filter) for slot in self._slots(filter.attribute, filter.literal.kind)]
                )
        raise ValueError(f"not in positive form: {filter}")

    def _conjunction(self, parts: Iterable[Filter]) -> Code:
        """All parts: the cheap and selective first, and the `<>` of one attribute together, as NOT IN gives many."""
        codes: list[Code] = []
        excluded: dict[tuple[str, Kind], list[Literal]] = {}
        for part in parts:
            if isinstance(part, Comparison) and part.operator is Operator.NE:
                excluded.setdefault((part.attribute, part.literal.kind), []).append(part.literal)
            else:
                codes.append(self.code(part))
        codes += [self._among(attribute, some, negated=True) for (attribute, _), some in excluded.items()]
        return all_of(sorted(codes, key=self._cost))

    def _cost(self, code: Code) -> tuple[int, int]:
        """Shorter first; among leaves those that few events pass, then those that are quick to test."""
        return len(code), self.costs[code[0]] if len(code) == 1 and code != ALWAYS else 0

    def _null(self, attribute: str, *, negated: bool) -> Code:
        if attribute not in self.columns:
            return NEVER if negated else ALWAYS
        return self._leaf(presence(self.columns[attribute], self.schema.field(attribute)), Test.NULL, negated)

    def _text(self, test: TextTest, *, negated: bool) -> Code:
        kernel_test, operand = _TEXT_TESTS.get(test.test, Test.REGEX), test.text
        if kernel_test is Test.REGEX:
            operand = regex(test.text)
        found = self._slots(test.attribute, Kind.STRING)
        return any_of([self._leaf(slot, kernel_test, negated, (operand,)) for slot in found])

    def _among(self, attribute: str, literals: Sequence[Literal], *, negated: bool) -> Code:
        """Equality with one of the literals, which are of one kind."""
        codes = []
        for slot in self._slots(attribute, literals[0].kind):
            cuts: set[Cut] = {cut for literal in literals if (cut := equal(slot, literal)) is not None}
            if slot.domain is Domain.TEXT:
                vocabulary = self.vocabularies.setdefault(self._slot(slot), {})
                cuts = {vocabulary.setdefault(str(cut), len(vocabulary)) for cut in sorted(cuts)}
            if cuts:
                codes.append(
                    self._leaf(slot, Test.AMONG if len(cuts) > 1 else Test.EQUAL, negated, tuple(sorted(cuts)))
                )
            elif negated:
                codes.append(self._leaf(slot, Test.NOTHING, negated=True))
        return any_of(codes)

    def _order(self, slot: Slot, comparison: Comparison) -> Code:
        """`<` and `<=` are LESS than a cut point, `>` and `>=` their negations."""
        operator = comparison.operator
        cut = (above if operator in (Operator.LE, Operator.GT) else least)(slot, comparison.literal)
        negated = operator in (Operator.GT, Operator.GE)
        if isinstance(cut, int):
            lowest, highest = bounds(slot)
            if cut > highest:  # all are less
                return NEVER if negated else self._leaf(slot, Test.NOTHING, negated=True)
            if cut <= lowest:  # none is
                return self._leaf(slot, Test.NOTHING, negated=True) if negated else NEVER
        return self._leaf(slot, Test.LESS, negated, (cut,))

    def _slots(self, attribute: str, kind: Kind) -> list[Slot]:
        """The ways in which the attribute's values may be of that kind."""
        if attribute not in self.columns:
            return []
        found = slots(self.columns[attribute], self.schema.field(attribute))
        return [slot for slot in found if KINDS[slot.domain] is kind]

    def _slot(self, slot: Slot) -> int:
        return self.slots.setdefault(slot, len(self.slots))

    def _leaf(self, slot: Slot, test: Test, negated: bool, operands: tuple[Cut, ...] = ()) -> Code:
        leaf = Leaf(self._slot(slot), test, negated, operands)
        number = self.leaves.setdefault(leaf, len(self.leaves))
        if number == len(self.costs):
            self.costs.append(test + len(Test) * negated)
        return (number,)


def regex(pattern: str) -> str:
    r"""The RE2 expression for a LIKE pattern: anchored, `.` is any code point, the rest is quoted.

    >>> print(regex("a.%_"))
    (?s)\Aa\..*.\z
    """
    wild = {Wildcard.MANY: ".*", Wildcard.ONE: "."}
    pieces = [wild[piece] if isinstance(piece, Wildcard) else _quoted(piece) for piece in compile_like(pattern)]
    expression = rf"(?s)\A{''.join(pieces)}\z"
    try:
        pc.match_substring_regex(pa.array([""]), pattern=expression)
    except pa.ArrowInvalid as error:  # the default limit on a filter's text is far below what RE2 refuses
        raise FilterTooLarge(f"the LIKE pattern is too complex: {error}", column=1, hint="use a shorter one") from error
    return expression


def _quoted(text: str) -> str:
    """As RE2's own QuoteMeta does."""
    return re.sub(r"[^A-Za-z0-9_\x80-\U0010ffff]", lambda found: "\\x00" if found[0] == "\0" else "\\" + found[0], text)
