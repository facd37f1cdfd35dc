"""Values of one attribute at and around the constants of its leaves: one of each sort that they can tell apart.

Law: a number is a constant, lies between two neighbours or beyond them all; the least string, day or instant of a
range is a constant, the next after one, or the least of all. So few values stand for all. Strings under suffix,
substring and LIKE are found by `words`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal
from itertools import pairwise, product
from math import inf, nan

from routing.filters.ast import Comparison, In, Kind, Leaf, Literal, Operator, Text, TextTest
from routing.filters.exact import canonical
from routing.filters.like import Wildcard, compile_like
from tests.oracles.words import neighbours, words


def values(tests: Sequence[Leaf], states: int) -> tuple[list[object], bool]:
    """Values at and around the constants of one attribute's leaves; and whether there is one of each sort."""
    constants: dict[Kind, set[object]] = {kind: set() for kind in Kind}
    for literal in (literal for leaf in tests for literal in _literals(leaf)):
        constants[literal.kind].add(literal.value)
    texts = [leaf for leaf in tests if isinstance(leaf, TextTest)]
    days, all_days = _around_days(constants[Kind.DATE])
    strings, all_strings = _around_strings(constants[Kind.STRING], texts, _ordered(tests), states)
    numbers, moments = _around_numbers(constants[Kind.NUMBER]), _around_moments(constants[Kind.TIMESTAMP])
    others: list[object] = [None, [1], nan, b"a"]
    return [*others, True, False, *numbers, *days, *moments, *strings], all_days and all_strings


def _literals(leaf: Leaf) -> tuple[Literal, ...]:
    match leaf:
        case Comparison(_, _, literal):
            return (literal,)
        case In(_, literals):
            return literals
    return ()


def _ordered(tests: Iterable[Leaf]) -> bool:
    equalities = (Operator.EQ, Operator.NE)
    return any(isinstance(leaf, Comparison) and leaf.operator not in equalities for leaf in tests)


_EXACTLY = Context(prec=2000)


def _around_numbers(constants: set[object]) -> list[object]:
    """The constants, midpoints of neighbours, and numbers beyond the ends."""
    if not constants:
        return [0]
    line = sorted(Decimal(constant) for constant in constants)
    middles = [_EXACTLY.divide(_EXACTLY.add(low, high), Decimal(2)) for low, high in pairwise(line)]
    ends = [_EXACTLY.subtract(line[0], Decimal(1)), _EXACTLY.add(line[-1], Decimal(1)), -inf, inf]
    return [*map(canonical, [*line, *middles]), *ends]


def _around_days(constants: set[object]) -> tuple[list[object], bool]:
    """Not exact at the ends of the calendar: the day after 9999-12-31 has no name in Python, yet an event may have it."""
    found = {day + timedelta(days) for day in constants for days in (-1, 0, 1) if _fits(day, timedelta(days))}
    return sorted({date(2000, 1, 1), *found}), not constants & {date.min, date.max}


def _around_moments(constants: set[object]) -> list[object]:
    """The first and the last instants that can be said, in their zones, lie beyond those that a literal can say."""
    steps = [timedelta(microseconds=n) for n in (-1, 0, 1)]
    found = {moment + step for moment in constants for step in steps if _fits(moment, step)}
    hour = timedelta(hours=1)
    ends = [datetime.min.replace(tzinfo=timezone(hour)), datetime.max.replace(tzinfo=timezone(-hour))]
    return [datetime(2000, 1, 1, tzinfo=UTC), *sorted(found), *ends]


def _fits(moment: date, step: timedelta) -> bool:
    try:
        moment + step
    except OverflowError:
        return False
    return True


def _around_strings(
    constants: set[object], texts: list[TextTest], ordered: bool, states: int
) -> tuple[list[object], bool]:
    plain = {*constants, *(leaf.text for leaf in texts if leaf.test is not Text.LIKE)}
    found = {"", "~", *(near for text in plain for near in _near(text))}
    if all(leaf.test is Text.PREFIX for leaf in texts):
        return sorted(found), True
    read, exact = words(constants, texts, ordered, states)
    instances = {_instance(leaf.text, many) for leaf in texts if leaf.test is Text.LIKE for many in ("", "a", "ab")}
    pieces = sorted({*plain, *instances}, key=len)[:12]
    joined = {before + after for before, after in product(pieces, pieces)}
    return sorted({*found, *read, *instances, *joined}), exact


def _near(text: str) -> Iterator[str]:
    yield text
    yield from (text + more for more in ("\x00", "a", "\U0010ffff"))
    yield from (text[:length] for length in range(len(text)))
    if text:
        yield from (text[:-1] + chr(code) for code in neighbours(ord(text[-1])))
    if after_prefix(text):
        yield after_prefix(text)


def after_prefix(text: str) -> str:
    r"""The least string after all that start with the text; empty if there is none.

    >>> after_prefix("ab"), after_prefix("\ud7ff"), after_prefix("a\U0010ffff"), after_prefix("\U0010ffff")
    ('ac', '\ue000', 'b', '')
    """
    text = text.rstrip("\U0010ffff")
    return text[:-1] + chr(max(neighbours(ord(text[-1])))) if text else ""


def _instance(pattern: str, many: str) -> str:
    pieces = compile_like(pattern)
    return "".join(piece if isinstance(piece, str) else many if piece is Wildcard.MANY else "a" for piece in pieces)
