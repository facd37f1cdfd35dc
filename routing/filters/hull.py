"""The tightest box around a region: for each attribute, every value that some event of the region has.

Law: the box holds the region. It is the tightest one unless the region has more conjunctions than can be written out.
"""

from __future__ import annotations

from collections.abc import Sequence

from routing.filters import line
from routing.filters.normal import LARGEST, boxes, inhabited_boxes, size_of
from routing.filters.region import Box, Region
from routing.filters.values import EVERY_VALUE, Values, text_values
from routing.filters.words import Pattern

MOST = 64
"""Questions whether a value set implies a text test, in one union."""


def tightest_box(part: Region) -> Box:
    """The tightest box around a region; where its conjunctions are too many, one that is found without them."""
    if size_of(part) > LARGEST:
        return _loose_box(part)
    if not part.clauses:
        return part.box
    return hull(inhabited_boxes(boxes(part)))


def _loose_box(part: Region) -> Box:
    box = dict(part.box)
    for clause in part.clauses:
        for name, values in hull([_loose_box(alternative) for alternative in clause]).items():
            box[name] = box.get(name, EVERY_VALUE) & values
    return box


def hull(some: Sequence[Box]) -> Box:
    """The box around boxes: the union of values of each attribute that all of them constrain."""
    if not some:
        return {}
    common = set(some[0]).intersection(*some)
    hull = {name: _union([box[name] for box in some]) for name in sorted(common)}
    return {name: values for name, values in hull.items() if values != EVERY_VALUE}


def _union(some: list[Values]) -> Values:
    """All values of all, and the text tests that all of them pass, whether they ask for them or not."""
    spans = line.joined(pair for values in some for pair in line.pairs(values.spans))
    required = frozenset[Pattern]().union(*(values.required for values in some))
    refused = frozenset[Pattern]().union(*(values.refused for values in some))
    if len(some) * (len(required) + len(refused)) > MOST:  # then only what all of them ask for
        required = frozenset.intersection(*(values.required for values in some))
        refused = frozenset.intersection(*(values.refused for values in some))
        return Values(spans, required, refused)
    return Values(
        spans,
        frozenset(test for test in required if _all_within(some, text_values(test, passed=True))),
        frozenset(test for test in refused if _all_within(some, text_values(test, passed=False))),
    )


def _all_within(some: list[Values], whole: Values) -> bool:
    return all((values & outside).any().found is False for values in some for outside in whole.complement())
