"""Strings that comparisons and text tests tell apart, found by reading on until nothing new can happen.

Law: all tests read a string from left to right, and two strings that leave all of them in the same state have the same
future; so the strings that first lead to each joint state are enough. There are finitely many states.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from routing.filters.ast import Text, TextTest
from routing.filters.like import Wildcard, compile_like


def words(constants: Iterable[str], texts: Iterable[TextTest], ordered: bool, states: int) -> tuple[list[str], bool]:
    """A shortest string for each way in which comparisons and text tests can come out together; and whether for all."""
    machines: dict[Machine, None] = {Constantly(text): None for text in constants}
    machines.update((_machine(leaf), None) for leaf in texts)
    alphabet = _alphabet({char for machine in machines for char in machine.text}, ordered)
    start = tuple(machine.start for machine in machines)
    seen, waiting, found = {start}, deque([(start, "")]), {}
    while waiting and len(seen) < states:
        now, word = waiting.popleft()
        ends = tuple(machine.end(state) for machine, state in zip(machines, now, strict=True))
        found.setdefault(ends, word)
        for char in alphabet:
            then = tuple(machine.step(state, char) for machine, state in zip(machines, now, strict=True))
            if then not in seen:
                seen.add(then)
                waiting.append((then, word + char))
    return list(found.values()), not waiting


def _alphabet(mentioned: set[str], ordered: bool) -> list[str]:
    """The characters mentioned, and one of each gap between them; without order the gaps are all alike."""
    codes = sorted(map(ord, mentioned))
    after = [max(neighbours(code)) for code in codes if code < 0x10FFFF]
    gaps = [code for code in (0, *after) if code not in codes]
    return [chr(code) for code in (*codes, *(gaps if ordered else gaps[-1:]))]


def neighbours(code: int) -> list[int]:
    """The characters before and after; lone surrogates are none."""
    before, after = (0xD7FF if code == 0xE000 else code - 1), (0xE000 if code == 0xD7FF else code + 1)
    return [code for code in (before, after) if 0 <= code <= 0x10FFFF]


class Machine:
    """Reads a string from left to right. `end` says how a string that leads to the state comes out."""

    start: Hashable = 0

    def __init__(self, text: str) -> None:
        self.text = text

    def __hash__(self) -> int:
        return hash((type(self), self.text))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.text == self.text

    def step(self, state: Hashable, char: str) -> Hashable:
        raise NotImplementedError

    def end(self, state: Hashable) -> Hashable:
        raise NotImplementedError


class Constantly(Machine):
    """Less than the text, equal to it, greater, or longer: for comparisons, IN and prefixes."""

    def step(self, state: Hashable, char: str) -> Hashable:
        if not isinstance(state, int):
            return state
        if state == len(self.text):
            return "longer"
        return state + 1 if char == self.text[state] else "less" if char < self.text[state] else "greater"

    def end(self, state: Hashable) -> Hashable:
        return "equal" if state == len(self.text) else "less" if isinstance(state, int) else state


class Ending(Machine):
    """How much of the text the string ends with."""

    def step(self, state: Hashable, char: str) -> Hashable:
        tail = self.text[:state] + char
        return next(size for size in range(min(len(tail), len(self.text)), -1, -1) if tail.endswith(self.text[:size]))

    def end(self, state: Hashable) -> Hashable:
        return state == len(self.text)


class Holding(Ending):
    """Once the whole text has been read it stays so."""

    def step(self, state: Hashable, char: str) -> Hashable:
        return state if state == len(self.text) else super().step(state, char)


class Pattern(Machine):
    """The places of a LIKE pattern that the string can have led to."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.pieces = [
            piece for plain in compile_like(text) for piece in (plain if isinstance(plain, str) else [plain])
        ]
        self.start = self._closed({0})

    def step(self, state: Hashable, char: str) -> Hashable:
        places = {place for place in state if place < len(self.pieces)}
        stay = {place for place in places if self.pieces[place] is Wildcard.MANY}
        return self._closed(stay | {place + 1 for place in places if self.pieces[place] in (char, Wildcard.ONE)})

    def end(self, state: Hashable) -> Hashable:
        return len(self.pieces) in state

    def _closed(self, places: set[int]) -> frozenset[int]:
        for place in range(len(self.pieces)):
            if place in places and self.pieces[place] is Wildcard.MANY:
                places.add(place + 1)
        return frozenset(places)


def _machine(leaf: TextTest) -> Machine:
    machines = {Text.PREFIX: Constantly, Text.SUFFIX: Ending, Text.SUBSTRING: Holding, Text.LIKE: Pattern}
    return machines[leaf.test](leaf.text)
