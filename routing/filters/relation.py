"""How two filters relate: the filter algebra of SPEC §3.

Law: what is decided is true. When undecided, `covers` and `identical` are False, `overlaps` and `satisfiable` True: an
extra delivery is filtered later, a missing one is lost. Whoever must know asks `relation`, which says None.
Attributes count as independent and as of any type; that a source has fewer events only makes true answers truer.
"""

from __future__ import annotations

from typing import TypeAlias

from routing.filters.ast import And, Comparison, Constant, Filter, In, IsNull, Not, Or, TextTest
from routing.filters.line import within
from routing.filters.parse import parse
from routing.filters.region import NOTHING, Box, Region, box_inhabited, complement, intersection, region
from routing.filters.search import any_event
from routing.filters.values import EVERY_VALUE, Values
from routing.filters.words import BUDGET

Given: TypeAlias = str | Filter | Region


class Relation:
    """What is known of two filters: each answer is True, False or None (undecided), found when it is asked for.

    >>> relation("x < 5 OR x >= 5", "x = 3")
    Relation(covers=True, covered=False, overlaps=True)
    """

    __slots__ = ("_budget", "_f", "_g")

    def __init__(self, f: Given, g: Given, budget: int) -> None:
        self._f, self._g, self._budget = _tree(f), _tree(g), budget

    @property
    def covers(self) -> bool | None:
        """Whether f matches every event that g matches."""
        return self._covers(self._f, self._g)

    @property
    def covered(self) -> bool | None:
        """Whether g matches every event that f matches."""
        return self._covers(self._g, self._f)

    @property
    def identical(self) -> bool | None:
        """Whether f and g match the same events."""
        covers = self.covers
        if covers is False:
            return False
        covered = self.covered
        return False if covered is False else None if covers is None or covered is None else True

    @property
    def overlaps(self) -> bool | None:
        """Whether some event matches both."""
        return any_event(intersection((as_region(self._f), as_region(self._g))), self._budget)

    def _covers(self, f: Filter | Region, g: Filter | Region) -> bool | None:
        return True if f == g else region_covers(as_region(f), as_region(g), self._budget)

    def __repr__(self) -> str:
        return f"Relation(covers={self.covers}, covered={self.covered}, overlaps={self.overlaps})"


def relation(f: Given, g: Given, *, budget: int = BUDGET) -> Relation:
    """How f relates to g. Filters are text, parsed, or regions; `budget` bounds the steps of each answer.

    >>> relation("x < 5 OR x >= 5", "y = 1").covers
    False
    """
    return Relation(f, g, budget)


def covers(f: Given, g: Given, *, budget: int = BUDGET) -> bool:
    """Whether f matches every event that g matches.

    >>> covers("airline ANY", "airline = 'UA' AND dest = 'DEN'")
    True
    """
    return Relation(f, g, budget).covers is True


def identical(f: Given, g: Given, *, budget: int = BUDGET) -> bool:
    """Whether f and g match the same events.

    >>> identical("x <> 2", "x < 2 OR x > 2")
    True
    """
    return Relation(f, g, budget).identical is True


def overlaps(f: Given, g: Given, *, budget: int = BUDGET) -> bool:
    """Whether some event may match both.

    >>> overlaps("s LIKE '%abc'", "s LIKE '%b'")
    False
    """
    return Relation(f, g, budget).overlaps is not False


def satisfiable(f: Given, *, budget: int = BUDGET) -> bool:
    """Whether some event may match.

    >>> satisfiable("x NOT IN (1, 'a')"), satisfiable("s > 'a' AND s < 'b'")
    (False, True)
    """
    return any_event(as_region(f), budget) is not False


def region_covers(f: Region, g: Region, budget: int = BUDGET) -> bool | None:
    """Whether the region f holds every event of g."""
    if g is NOTHING:
        return True
    if not f.clauses and not g.clauses:
        return _box_covers(f.box, g.box, budget)
    outside = any_event(intersection((g, complement(f))), budget)
    return None if outside is None else not outside


def _box_covers(f: Box, g: Box, budget: int) -> bool | None:
    """The same of conjunctions, attribute by attribute: an event of g is outside f if one of its values is."""
    outside: bool | None = False
    for name, inside in f.items():
        here = _sticks_out(g.get(name, EVERY_VALUE), inside)
        if here:
            outside = True
            break
        if here is None:
            outside = None
    if outside is False:
        return True
    inhabited = box_inhabited(g, budget)
    if inhabited is False:
        return True
    return False if outside and inhabited else None


def _sticks_out(mine: Values, inside: Values) -> bool | None:
    """Whether mine has a value that inside has not."""
    if within(mine.spans, inside.spans):
        if inside.required <= mine.required and inside.refused <= mine.refused:
            return False
    elif mine.plain:
        return True
    answers = [(mine & part).any().found for part in inside.complement()]
    return True if True in answers else None if None in answers else False


def as_region(filter: Given) -> Region:
    """The events that the filter matches."""
    found = _tree(filter)
    return found if isinstance(found, Region) else region(found)


def _tree(filter: Given) -> Filter | Region:
    return filter if type(filter) in _KNOWN else parse(filter)  # type: ignore[return-value, arg-type]


# What is neither is the parser's to refuse, in its words.
_KNOWN = frozenset((Region, Constant, Comparison, In, TextTest, IsNull, Not, And, Or))
