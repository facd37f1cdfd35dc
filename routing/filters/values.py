"""What a conjunction asks of one attribute: its value lies in some spans of the line and passes some text tests.

Law: text tests are asked of strings only, so values with tests span nothing else. Intersection and complement are
exact; only "is there any?" may be undecided, when tests meet in a way that is too costly to search (`words`).
"""

from __future__ import annotations

from typing import NamedTuple

from routing.filters import line
from routing.filters.line import Spans
from routing.filters.words import Answer, Pattern, Patterns, in_order, some_word

NO_TESTS: Patterns = frozenset()
_PLAIN = (NO_TESTS, NO_TESTS)
_ONE_STEP = Answer(True, 1)
_EMPTY = Answer(False, 1)


class Values(NamedTuple):
    """The spans, the text tests to pass and those to fail."""

    spans: Spans
    required: Patterns = NO_TESTS
    refused: Patterns = NO_TESTS

    @property
    def plain(self) -> bool:
        """Whether the spans say it all."""
        return self[1:] == _PLAIN

    def __and__(self, other: Values) -> Values:
        spans = line.intersection(self.spans, other.spans)
        if self[1:] == _PLAIN == other[1:]:
            return Values(spans)
        return Values(spans, self.required | other.required, self.refused | other.refused).tight()

    def tight(self) -> Values:
        """The same values, with single strings tested already; if all spans are such, no tests are left."""
        pieces = list(line.pairs(self.spans))
        single = [line.is_point(piece) for piece in pieces]
        if not any(single):
            return self
        kept = [piece for piece, point in zip(pieces, single, strict=True) if not point or self.holds(piece[0])]
        spans = tuple(cut for piece in kept for cut in piece)
        return Values(spans) if all(single) else self._replace(spans=spans)

    def complement(self) -> list[Values]:
        """What is not in here, as a union: outside the spans, or inside and failing one of the tests."""
        outside = line.complement(self.spans)
        return [
            *([Values(outside)] if outside else []),
            *(Values(self.spans, refused=frozenset({pattern})) for pattern in in_order(self.required)),
            *(Values(self.spans, required=frozenset({pattern})) for pattern in in_order(self.refused)),
        ]

    def any(self) -> Answer:
        """Whether there is a value at all, and what it cost to know."""
        if not self.spans:
            return _EMPTY
        return _ONE_STEP if self.plain else some_word(self.spans, self.required, self.refused)

    def holds(self, cut: line.Cut) -> bool:
        """Whether the value right after the cut is in here."""
        if not line.contains(self.spans, cut):
            return False
        word = cut[1] if len(cut) > 1 else ""
        return all(test.holds(word) for test in self.required) and not any(test.holds(word) for test in self.refused)


EVERY_VALUE = Values(line.EVERYTHING)


def text_values(pattern: Pattern, *, passed: bool) -> Values:
    """The strings that pass the test, or those that fail it."""
    tests = frozenset({pattern})
    return Values(line.STRINGS, required=tests) if passed else Values(line.STRINGS, refused=tests)
