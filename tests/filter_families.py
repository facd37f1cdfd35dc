"""Random filters in groups of related ones, drawn from a seed, by family.

Two filters drawn apart hardly ever cover each other. So a group starts from one filter and adds what can be made of it:
the same said otherwise, tightened, loosened, with one constant moved. Its vocabulary is small: few attributes, few
constants, so that all of them meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random

from routing.filters import Filter
from routing.filters.ast import (
    And,
    Comparison,
    Constant,
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
    conjunction,
    disjunction,
)
from routing.filters.like import like_filter, text_filter
from tests.oracles.values import after_prefix
from tests.strategies import LITERALS

GROUP = 8  # filters, hence 28 pairs

NUMBERS = [0, 1, 2, 3, Decimal("2.5"), Decimal("2.0000000000000000001"), 2**53, 2**53 + 1, -7, Decimal("1e-30")]
DAYS = [date(2026, 1, 31) + timedelta(days) for days in (0, 1, 2, 3, 30)]
MOMENTS = [datetime(2026, 1, 31, 10, tzinfo=UTC) + timedelta(microseconds=n) for n in (0, 1, 2, 3, 10**6)]
CHARACTERS = "aaaaabbbbbc\x00\ud7ff\ue000\U0010ffff"
_BOUNDS = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)
KINDS = {
    "x": Kind.NUMBER,
    "y": Kind.NUMBER,
    "flag": Kind.BOOLEAN,
    "day": Kind.DATE,
    "at": Kind.TIMESTAMP,
    "s": Kind.STRING,
    "t": Kind.STRING,
}


@dataclass(frozen=True)
class Family:
    """What a filter of the family is made of, and how it is put together."""

    name: str
    attributes: tuple[str, ...]
    leaf: Callable[[Vocabulary], Filter]
    shape: Callable[[Vocabulary, Callable[[Vocabulary], Filter]], Filter]
    promised: bool = False  # SPEC §3 promises that the algebra is never undecided

    def group(self, draw: Random, size: int = GROUP) -> list[Filter]:
        """One filter and others that are related to it."""
        words = Vocabulary(draw, draw.sample(self.attributes, min(draw.choice((1, 2, 2, 3, 4)), len(self.attributes))))
        filters = [self.shape(words, self.leaf)]
        while len(filters) < size:
            related = draw.choice(CHANGES)(words, draw.choice(filters), lambda: self.shape(words, self.leaf))
            if related not in filters or draw.random() < 0.1:
                filters.append(related)
        return filters


class Vocabulary:
    """The attributes of a group and the few constants that each is compared with."""

    def __init__(self, draw: Random, attributes: Sequence[str]) -> None:
        self.draw, self.attributes = draw, attributes
        self.constants = {name: self._constants(KINDS[name]) for name in attributes}
        self.texts = [self.text() for _ in range(3)]

    def attribute(self) -> str:
        return self.draw.choice(self.attributes)

    def literal(self, name: str) -> Literal:
        """One of the attribute's few; seldom of another kind."""
        if self.draw.random() < 0.04:
            return self._constant(self.draw.choice([kind for kind in Kind if kind is not Kind.STRING]))
        return self.draw.choice(self.constants[name])

    def comparison(self, name: str) -> Filter:
        """Seldom equality; lower bounds lean to the low and upper bounds to the high, or most would contradict."""
        operator = self.draw.choice((*Operator, *_BOUNDS, *_BOUNDS))
        literal = self.literal(name)
        if operator in _BOUNDS and literal in self.constants[name]:
            places = [self.constants[name].index(other) for other in (literal, self.draw.choice(self.constants[name]))]
            lean = max if operator in (Operator.LT, Operator.LE) else min
            literal = self.constants[name][lean(places)]
        return Comparison(name, operator, literal)

    def text(self) -> str:
        return "".join(self.draw.choice(CHARACTERS) for _ in range(self.draw.choice((0, 1, 1, 2, 2, 3))))

    def _constants(self, kind: Kind) -> list[Literal]:
        several = {self._constant(kind) for _ in range(self.draw.randint(2, 5))}
        return sorted(several, key=lambda literal: literal.value)

    def _constant(self, kind: Kind) -> Literal:
        if self.draw.random() < 0.1:
            return self.draw.choice(LITERALS[kind])
        pools = {Kind.NUMBER: NUMBERS, Kind.DATE: DAYS, Kind.TIMESTAMP: MOMENTS, Kind.BOOLEAN: [True, False]}
        return Literal(kind, self.text() if kind is Kind.STRING else self.draw.choice(pools[kind]))


# Leaves.


def ordered(words: Vocabulary) -> Filter:
    """Comparisons, ranges, IN, IS NULL, prefixes: what the algebra promises to decide."""
    draw, name = words.draw, words.attribute()
    match draw.randrange(12):
        case 0:
            return draw.choice([IsNull(name), Not(IsNull(name))])
        case 1 | 2:
            members = dict.fromkeys(words.literal(name) for _ in range(draw.randint(1, 4)))
            return draw.choice([In(name, tuple(members)), Not(In(name, tuple(members)))])
        case 3:
            low, high = words.literal(name), words.literal(name)
            return conjunction([Comparison(name, Operator.GE, low), Comparison(name, Operator.LE, high)])
        case 4 | 5 if KINDS[name] is Kind.STRING:
            prefix = text_filter(name, Text.PREFIX, draw.choice(words.texts))
            return draw.choice([prefix, prefix, Not(prefix)])
        case _:
            return words.comparison(name)


def textual(words: Vocabulary) -> Filter:
    """Suffixes, substrings and LIKE among prefixes, equality and order."""
    draw, name = words.draw, words.attribute()
    if draw.random() < 0.3 or KINDS[name] is not Kind.STRING:
        return ordered(words)
    if draw.random() < 0.5:
        test = text_filter(name, draw.choice([Text.PREFIX, Text.SUFFIX, Text.SUBSTRING]), draw.choice(words.texts))
    else:
        test = like_filter(name, "".join(draw.choice("aabb%%%_") for _ in range(draw.randint(1, 6))))
    return draw.choice([test, test, test, Not(test)])


def of_one_kind(words: Vocabulary) -> Filter:
    """Suffixes, or substrings, with equality: the attribute's name decides which."""
    draw, name = words.draw, words.attribute()
    if draw.random() < 0.4:
        return Comparison(name, Operator.EQ, Literal(Kind.STRING, draw.choice(words.texts)))
    return text_filter(name, Text.SUFFIX if name == "s" else Text.SUBSTRING, draw.choice(words.texts))


def anything(words: Vocabulary) -> Filter:
    """All of these, and TRUE and FALSE."""
    return Constant(words.draw.random() < 0.5) if words.draw.random() < 0.03 else textual(words)


# Shapes.


def alone(words: Vocabulary, leaf: Callable[[Vocabulary], Filter]) -> Filter:
    return leaf(words)


def conjoined(words: Vocabulary, leaf: Callable[[Vocabulary], Filter]) -> Filter:
    return conjunction(leaf(words) for _ in range(words.draw.choice((1, 2, 2, 3, 4))))


def disjoined(words: Vocabulary, leaf: Callable[[Vocabulary], Filter]) -> Filter:
    return disjunction(conjoined(words, leaf) for _ in range(words.draw.randint(1, 3)))


def nested(words: Vocabulary, leaf: Callable[[Vocabulary], Filter], depth: int = 3) -> Filter:
    kind = words.draw.randrange(6) if depth else 0
    if kind < 2:
        return leaf(words)
    if kind == 2:
        return Not(nested(words, leaf, depth - 1))
    join = conjunction if kind < 5 else disjunction
    return join([nested(words, leaf, depth - 1) for _ in range(words.draw.randint(2, 3))])


# What can be made of a filter. Each takes the vocabulary, the filter, and how to draw another one.

Another = Callable[[], Filter]


def unrelated(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    return another()


def permuted(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    match filter:
        case And(parts) | Or(parts):
            return type(filter)(tuple(words.draw.sample(parts, len(parts))))
        case In(name, literals):
            return In(name, tuple(words.draw.sample(literals, len(literals))))
    return filter


def doubly_negated(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    return Not(Not(filter))


def by_de_morgan(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    match filter:
        case And(parts):
            return Not(disjunction(Not(part) for part in parts))
        case Or(parts):
            return Not(conjunction(Not(part) for part in parts))
    return Not(Not(filter))


def distributed(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    """A AND (B OR C) as A AND B OR A AND C, and the other way round."""
    match filter:
        case And((first, *rest)):
            outer, inner, parts = disjunction, conjunction, first.parts if isinstance(first, Or) else (first, first)
        case Or((first, *rest)):
            outer, inner, parts = conjunction, disjunction, first.parts if isinstance(first, And) else (first, first)
        case _:
            return filter
    return outer([inner([part, *rest]) for part in parts])


def respelled(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    return _with_leaf(words, filter, _same_otherwise)


def _same_otherwise(words: Vocabulary, leaf: Leaf) -> Filter:
    match leaf:
        case In(name, literals):
            return disjunction(Comparison(name, Operator.EQ, literal) for literal in literals)
        case Comparison(name, Operator.EQ, literal):
            return conjunction([Comparison(name, Operator.LE, literal), Comparison(name, Operator.GE, literal)])
        case Comparison(name, Operator.NE, literal):
            return disjunction([Comparison(name, Operator.LT, literal), Comparison(name, Operator.GT, literal)])
        case Comparison(name, Operator.LE, literal):
            return disjunction([Comparison(name, Operator.LT, literal), Comparison(name, Operator.EQ, literal)])
        case TextTest(name, Text.PREFIX, text) if after_prefix(text):
            low, high = Literal(Kind.STRING, text), Literal(Kind.STRING, after_prefix(text))
            return conjunction([Comparison(name, Operator.GE, low), Comparison(name, Operator.LT, high)])
    return Not(Not(leaf))


def tightened(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    return conjunction(words.draw.sample([filter, another()], 2))


def loosened(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    return disjunction(words.draw.sample([filter, another()], 2))


def with_a_part_dropped(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    match filter:
        case And(parts) | Or(parts):
            place = words.draw.randrange(len(parts))
            join = conjunction if isinstance(filter, And) else disjunction
            return join([*parts[:place], *parts[place + 1 :]])
        case Not(part):
            return Not(with_a_part_dropped(words, part, another))
    return filter


def with_a_constant_moved(words: Vocabulary, filter: Filter, another: Another) -> Filter:
    return _with_leaf(words, filter, _moved)


def _moved(words: Vocabulary, leaf: Leaf) -> Filter:
    draw = words.draw
    match leaf:
        case Comparison(name, operator, _) if draw.random() < 0.5:
            return Comparison(name, operator, words.literal(name))
        case Comparison(name, _, literal):
            return Comparison(name, draw.choice(list(Operator)), literal)
        case In(name, literals):
            return In(name, tuple(dict.fromkeys([*literals[1:], words.literal(name)])))
        case TextTest(name, Text.LIKE, pattern):
            return like_filter(name, pattern.replace(*draw.choice([("%", "_"), ("_", "%"), ("a", "b"), ("b", "%a")])))
        case TextTest(name, test, text):
            changed = draw.choice([text[1:], text[:-1], text + "a", "b" + text])
            return text_filter(name, draw.choice([test, test, Text.PREFIX]), changed)
    return leaf


def _with_leaf(words: Vocabulary, filter: Filter, change: Callable[[Vocabulary, Leaf], Filter]) -> Filter:
    """The filter with one of its leaves changed."""
    match filter:
        case And(parts) | Or(parts):
            place = words.draw.randrange(len(parts))
            join = conjunction if isinstance(filter, And) else disjunction
            return join([*parts[:place], _with_leaf(words, parts[place], change), *parts[place + 1 :]])
        case Not(part):
            return Not(_with_leaf(words, part, change))
    return change(words, filter)


CHANGES = (
    *(permuted, doubly_negated, by_de_morgan, distributed, respelled, respelled),
    *(unrelated, unrelated, tightened, tightened, loosened, loosened),
    *(with_a_part_dropped, with_a_part_dropped, *[with_a_constant_moved] * 4),
)

_ARITHMETIC = ("x", "y", "flag", "day", "at")
FAMILIES = {
    family.name: family
    for family in (
        Family("conjunctions", tuple(KINDS), ordered, conjoined, promised=True),
        Family("disjunctions", tuple(KINDS), ordered, disjoined, promised=True),
        Family("nested", tuple(KINDS), ordered, nested),
        Family("one kind of text test", ("s", "t"), of_one_kind, alone, promised=True),
        Family("text tests", ("s", "t", "x"), textual, conjoined),
        Family("everything", tuple(KINDS), anything, nested),
        Family("arithmetic", _ARITHMETIC, ordered, disjoined, promised=True),
        Family("nested arithmetic", _ARITHMETIC, ordered, nested),
    )
}
