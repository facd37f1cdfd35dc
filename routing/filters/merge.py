"""Several filters as one: a conjunction with one set of values per attribute that covers them all.

Law: a merge covers its parts; it is called perfect only if it matches nothing more. Per attribute it takes the union of
what the parts allow, which is the tightest conjunction there is. (REBECA's merging, without its list of cases.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, product
from math import prod
from random import Random

from routing.filters import line
from routing.filters.ast import Filter
from routing.filters.forest import Forest
from routing.filters.hull import hull, tightest_box
from routing.filters.line import Cut, Spans
from routing.filters.normal import LARGEST, as_tree, boxes, fewest, in_order, joined_boxes, size_of
from routing.filters.region import NOTHING, Box, Region, region, union
from routing.filters.relation import Given, as_region, region_covers
from routing.filters.search import any_event
from routing.filters.spell import spelled, spelled_box
from routing.filters.values import EVERY_VALUE, Values
from routing.filters.words import BUDGET

MOST_CELLS = 1 << 12
"""Cells looked at, times parts."""


@dataclass(frozen=True, slots=True)
class Merge:
    """The merged filter; whether it matches exactly what its parts match; and how much it adds if not.

    `added` measures what no part matches: of the cells that the constants of all parts cut the merged filter into, the
    share that no part holds (of a sample, if there are more than a few thousand). It is 0 if the merge is perfect.
    """

    filter: Filter
    perfect: bool
    added: float


def merge(filters: Iterable[Given], *, intervals: int | None = None, budget: int = BUDGET) -> Merge:
    """One conjunction that covers all filters; each attribute's values in at most so many intervals of each type.

    >>> from routing.filters import to_sql
    >>> parts = ["alarm = 1", "alarm = 2", "alarm > 2"]
    >>> perfect, coarse = merge(parts), merge(parts, intervals=1)
    >>> to_sql(perfect.filter), perfect.perfect, to_sql(coarse.filter), coarse.perfect
    ('alarm = 1 OR alarm >= 2', True, 'alarm >= 1', False)
    """
    if isinstance(filters, str):
        raise TypeError("merge takes several filters: put a single text into a list")
    if intervals is not None and intervals < 1:
        raise ValueError(f"intervals = {intervals} must be at least 1")
    parts = [part for part in map(as_region, filters) if part is not NOTHING and any_event(part, budget) is not False]
    if not parts:
        return Merge(spelled([]), True, 0.0)
    merged = hull([tightest_box(part) for part in parts])
    if intervals is not None:
        merged = {name: _coarse(values, intervals) for name, values in merged.items()}
    perfect = region_covers(_together(parts), Region(merged), budget) is True
    return Merge(spelled_box(merged), perfect, 0.0 if perfect else _added(merged, parts))


def _together(parts: list[Region]) -> Region:
    """The union of the parts, in as few alternatives as joining gives."""
    small = [box for part in parts if size_of(part) <= LARGEST for box in boxes(part)]
    large = [part for part in parts if size_of(part) > LARGEST]
    return union([*map(Region, joined_boxes(small)), *large])


def merge_perfectly(filters: Iterable[str | Filter]) -> tuple[Filter, ...]:
    """The same events in fewer filters: what a broker may forward instead.

    Conjunctions that differ in one attribute become one; a filter that another covers goes; any other stays.

    >>> from routing.filters import to_sql
    >>> [to_sql(f) for f in merge_perfectly(["a = 1 AND b = 1", "a = 2 AND b = 1", "a > 5", "a > 7 AND b = 3"])]
    ['a > 5', 'a IN (1, 2) AND b = 1']
    """
    single: list[Box] = []
    others: list[tuple[Filter, Region]] = []
    for tree in map(as_tree, filters):
        part = region(tree)
        some = fewest(boxes(part)) if size_of(part) <= LARGEST else []
        if len(some) == 1:
            single += some
        elif part is not NOTHING:
            others.append((tree, part))
    while True:
        joined = joined_boxes(single)
        forest = Forest([*enumerate(map(Region, joined)), *enumerate((part for _, part in others), len(joined))])
        roots = set(forest.roots())
        kept = [box for at, box in enumerate(joined) if at in roots]
        others = [other for at, other in enumerate(others, len(joined)) if at in roots]
        if len(kept) == len(single):
            return *map(spelled_box, in_order(kept)), *(tree for tree, _ in others)
        single = kept


def _coarse(values: Values, intervals: int) -> Values:
    """The values with gaps filled, the narrowest first, until each type has few enough intervals."""
    spans: Spans = ()
    for start, end in ((line.ABSENT, line.OTHER), *line.DOMAIN.values()):
        spans = line.union(spans, _fill(line.intersection(values.spans, (start, end)), intervals))
    return Values(spans, values.required, values.refused) if not line.contains(values.spans, line.OTHER) else values


def _fill(spans: Spans, intervals: int) -> Spans:
    gaps = sorted(range(1, len(spans) - 1, 2), key=lambda at: _width(spans[at], spans[at + 1]))
    filled = {at + side for at in gaps[: max(0, len(gaps) + 1 - intervals)] for side in (0, 1)}
    return tuple(cut for at, cut in enumerate(spans) if at not in filled)


def _width(low: Cut, high: Cut) -> float:
    """How wide a gap is: the distance of numbers, days and instants; of strings, how early they part."""
    if isinstance(low[1], str):
        alike = next((at for at, (a, b) in enumerate(zip(low[1], high[1], strict=False)) if a != b), len(low[1]))
        return -alike
    return float(Decimal(high[1]) - Decimal(low[1]))


def _added(merged: Box, parts: Sequence[Region]) -> float:
    """The share of the merged box's cells that no part holds."""
    whole = Region(merged)
    most = max(MOST_CELLS // len(parts), 64)
    named: dict[str, set[Cut]] = {}
    for part in parts:
        _collect(part, named)
    names = sorted(named)
    cuts = [_cells(merged.get(name, EVERY_VALUE), named[name]) for name in names]
    events: Iterable[tuple[Cut, ...]] = islice(product(*cuts), most)
    if prod(map(len, cuts)) > most:
        random = Random(0)
        events = [tuple(map(random.choice, cuts)) for _ in range(most)]
    seen = [event for cell in events if whole.holds(event := dict(zip(names, cell, strict=True)))]
    missed = sum(not any(part.holds(event) for part in parts) for event in seen)
    # A merge that is imperfect though no cell shows it adds something still.
    return max(missed, 1) / max(len(seen), 1)


def _cells(values: Values, cuts: set[Cut]) -> list[Cut]:
    """One value of each cell of the attribute, as the cut before it: the first that the cell has."""
    return sorted({*values.spans[::2], *(cut for cut in cuts if line.contains(values.spans, cut))})


def _collect(part: Region, named: dict[str, set[Cut]]) -> None:
    """Add the part's cuts to those of each attribute."""
    for name, values in part.box.items():
        named.setdefault(name, set()).update(values.spans)
    for clause in part.clauses:
        for other in clause:
            _collect(other, named)
