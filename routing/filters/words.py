"""Is there a string in some spans that passes some text tests and fails others? Decided by automata.

Each pattern is a machine whose state is a set of places in the pattern, kept as bits; each end of a span is a machine
that compares with its text. They read a word together, one character at a time; of all characters only those that
occur in a pattern or an end differ, and one for each gap between them. So the reachable states are finite, and a search
through them is exact: suffix, substring and LIKE against each other, against order, prefix and equality.

Law: the answer is True, False or, when `LARGEST` steps did not do, None. The same question always costs the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from routing.filters.ast import Text
from routing.filters.like import Wildcard, compile_like
from routing.filters.line import Cut, Spans, contains, is_point, pairs, string_cut

BUDGET = 50_000
"""The steps that an answer of the algebra may take: some 100 ms on one core."""

LARGEST = 5_000
"""Those of them that one attribute's text tests may take."""


class Pattern(NamedTuple):
    """What a text test looks for; never a prefix, which is a span."""

    test: Text
    text: str

    def holds(self, word: str) -> bool:
        """Whether the word passes the test."""
        if self.test is Text.SUFFIX:
            return word.endswith(self.text)
        if self.test is Text.SUBSTRING:
            return self.text in word
        return _machine(self).accepts(word)


Patterns = frozenset[Pattern]


class Answer(NamedTuple):
    """Whether there is such a word, and what it cost to know."""

    found: bool | None
    steps: int


@lru_cache(maxsize=4096)
def some_word(spans: Spans, required: Patterns, refused: Patterns) -> Answer:
    """Whether a string in the spans passes all the required tests and none of the refused.

    >>> from routing.filters.line import STRINGS as strings
    >>> some_word(strings, frozenset({Pattern(Text.SUFFIX, "ab")}), frozenset({Pattern(Text.SUFFIX, "b")})).found
    False
    >>> some_word(strings, frozenset({Pattern(Text.SUFFIX, "b")}), frozenset({Pattern(Text.SUFFIX, "ab")})).found
    True
    """
    if any(implies(one, other) for one in required for other in refused):
        return Answer(False, len(required) * len(refused))
    steps = 0
    for word in _guesses(spans, required):
        steps += 1
        if contains(spans, string_cut(word)) and _passes(word, required, refused):
            return Answer(True, steps)
    found: bool | None = False
    for low, high in pairs(spans):
        if is_point((low, high)):  # a guess already
            continue
        answer = _Search(low, high, required, refused).run(LARGEST - steps)
        steps += answer.steps
        if answer.found:
            return Answer(True, steps)
        if answer.found is None:
            found = None
    return Answer(found, steps)


def implies(one: Pattern, other: Pattern) -> bool:
    """Whether every word that passes one passes the other, where that is plain to see."""
    if one == other:
        return True
    if other.test is Text.SUFFIX:
        return one.test is Text.SUFFIX and one.text.endswith(other.text)
    return other.test is Text.SUBSTRING and one.test is not Text.LIKE and other.text in one.text


def in_order(patterns: Iterable[Pattern]) -> list[Pattern]:
    """The patterns, the same way every time."""
    return sorted(patterns, key=lambda pattern: (pattern.test.value, pattern.text))


def _towards_the_end(pattern: Pattern) -> tuple[bool, int, str, str]:
    return pattern.test is Text.SUFFIX, len(pattern.text), pattern.text, pattern.test.value


def _passes(word: str, required: Patterns, refused: Patterns) -> bool:
    return all(pattern.holds(word) for pattern in required) and not any(pattern.holds(word) for pattern in refused)


def _guesses(spans: Spans, required: Patterns) -> Iterator[str]:
    """Words worth trying first: the least of each span, alone and followed by what is asked for."""
    ordered = sorted(required, key=_towards_the_end)
    inner = [_machine(pattern).instance() for pattern in ordered]
    tail = "".join(inner)
    between = "\x01".join(["", *inner])
    for low, high in pairs(spans):
        least = low[1] if len(low) > 1 else ""
        yield least
        if not is_point((low, high)) and required:
            yield least + tail
            yield least + between


class _Machine:
    """A pattern as elements to be read in order and the places where anything may stand between them."""

    def __init__(self, pattern: Pattern) -> None:
        pieces = compile_like(pattern.text) if pattern.test is Text.LIKE else _pieces(pattern)
        self.elements: list[str | None] = []  # None stands for any one character
        self.loops = 0
        for piece in pieces:
            if piece is Wildcard.MANY:
                self.loops |= 1 << len(self.elements)
            elif piece is Wildcard.ONE:
                self.elements.append(None)
            else:
                self.elements.extend(str(piece))
        self.end = 1 << len(self.elements)
        self.closed = bool(self.loops & self.end)
        """Whether a word that has passed still passes when it grows."""
        self.any_of_one = sum(1 << at for at, element in enumerate(self.elements) if element is None)
        self.steps: dict[str, int] = {}
        for at, element in enumerate(self.elements):
            if element is not None:
                self.steps[element] = self.steps.get(element, 0) | 1 << at

    def read(self, state: int, character: str) -> int:
        """The state after one more character."""
        after = (state & (self.steps.get(character, 0) | self.any_of_one)) << 1 | state & self.loops
        return self.end if self.closed and after & self.end else after

    def accepts(self, word: str) -> bool:
        state = 1
        for character in word:
            state = self.read(state, character)
        return bool(state & self.end)

    def instance(self) -> str:
        return "".join(element or "\x01" for element in self.elements)


@lru_cache(maxsize=4096)
def _machine(pattern: Pattern) -> _Machine:
    return _Machine(pattern)


def _pieces(pattern: Pattern) -> list[str | Wildcard]:
    after = [Wildcard.MANY] if pattern.test is Text.SUBSTRING else []
    return [Wildcard.MANY, pattern.text, *after]


LESS, MORE = -1, -2


class _Search:
    """Breadth first through the states that the machines of one span reach together."""

    def __init__(self, low: Cut, high: Cut, required: Patterns, refused: Patterns) -> None:
        self.low = low[1] if len(low) > 1 else ""
        self.high = high[1] if len(high) > 1 else None
        self.required = [_machine(pattern) for pattern in in_order(required)]
        self.refused = [_machine(pattern) for pattern in in_order(refused)]
        self.alphabet = self._alphabet()

    def run(self, budget: int) -> Answer:
        start = (0, 0, *(1 for _ in self.required), *(1 for _ in self.refused))
        seen = {start}
        waiting = [start]
        steps = 0
        for state in waiting:  # grows while it is read
            if self._accepts(state):
                return Answer(True, steps)
            for character in self.alphabet:
                steps += 1 + len(self.required) + len(self.refused)
                after = self._read(state, character)
                if after is not None and after not in seen:
                    seen.add(after)
                    waiting.append(after)
            if steps > budget:
                return Answer(None, steps)
        return Answer(False, steps)

    def _read(self, state: tuple[int, ...], character: str) -> tuple[int, ...] | None:
        """The state after the character; none if no word from there can do."""
        low = _compare(self.low, state[0], character)
        high = 0 if self.high is None else _compare(self.high, state[1], character)
        if low == LESS or high == MORE:
            return None
        wanted = []
        for machine, at in zip(self.required, state[2:], strict=False):
            after = machine.read(at, character)
            if not after:
                return None
            wanted.append(after)
        unwanted = []
        for machine, at in zip(self.refused, state[2 + len(wanted) :], strict=True):
            after = machine.read(at, character)
            if machine.closed and after & machine.end:
                return None
            unwanted.append(after)
        return (low, high, *wanted, *unwanted)

    def _accepts(self, state: tuple[int, ...]) -> bool:
        split = 2 + len(self.required)
        return (
            state[0] in (MORE, len(self.low))
            and (self.high is None or state[1] != len(self.high))
            and all(at & machine.end for machine, at in zip(self.required, state[2:split], strict=True))
            and not any(at & machine.end for machine, at in zip(self.refused, state[split:], strict=True))
        )

    def _alphabet(self) -> list[str]:
        """Every character that is named, and one of each gap between those of the ends, if there is another."""
        ends = sorted({*self.low, *(self.high or "")})
        named = {*ends, *(character for machine in (*self.required, *self.refused) for character in machine.steps)}
        gaps = pairwise([-1, *map(ord, ends), 0x110000])
        return [*sorted(named), *(other for low, high in gaps for other in _one_between(low, high, named))]


def _compare(end: str, at: int, character: str) -> int:
    """How the word compares with the end after one more character: still equal up to a place, less, or more."""
    if at < 0:
        return at
    if at == len(end) or character > end[at]:
        return MORE
    return at + 1 if character == end[at] else LESS


def _one_between(low: int, high: int, named: set[str]) -> Iterator[str]:
    for code in range(low + 1, high):
        if not 0xD800 <= code <= 0xDFFF and chr(code) not in named:
            yield chr(code)
            return
