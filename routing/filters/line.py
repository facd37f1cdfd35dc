"""All values of one attribute on one line, and sets of them as spans of that line.

The line holds, in this order: absence; what compares with nothing (NaN, a value of a type without constraints); FALSE
and TRUE; numbers; dates; timestamps; strings. A *cut* is a place between two neighbours; a set is an even number of
ascending cuts, `(a, b, c, d)` for [a, b) and [c, d). Each domain says where the cuts before and after a value lie:

    numbers are dense       before v  (3, v, 0)      after v  (3, v, 1)
    days and microseconds   before n  (4, n)         after n  (4, n + 1)
    strings                 before s  (6, s)         after s  (6, s + NUL), the next string of all

Law: one place has one cut, so equal sets are equal tuples, and every operation is exact.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias

from routing.filters.ast import Kind, Literal, Operator

Cut: TypeAlias = tuple[Any, ...]
Spans: TypeAlias = tuple[Cut, ...]

ABSENT, OTHER, BOOLEAN, NUMBER, DATE, TIMESTAMP, STRING, END = ((place,) for place in range(8))

EVERYTHING: Spans = (ABSENT, END)
NOTHING: Spans = ()
ABSENCE: Spans = (ABSENT, OTHER)
PRESENCE: Spans = (OTHER, END)
STRINGS: Spans = (STRING, END)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LAST = "\U0010ffff"
_BELOW_SURROGATES, _ABOVE_SURROGATES = "\ud7ff", "\ue000"


def _boolean(value: bool) -> tuple[Cut, Cut]:
    return (TRUE_AT, NUMBER) if value else (BOOLEAN, TRUE_AT)


def _number(value: Any) -> tuple[Cut, Cut]:
    return (3, value, 0), (3, value, 1)


def _date(value: date) -> tuple[Cut, Cut]:
    day = value.toordinal()
    return (4, day), (4, day + 1)


def _timestamp(value: datetime) -> tuple[Cut, Cut]:
    instant = (value - EPOCH) // _MICROSECOND
    return (5, instant), (5, instant + 1)


def _string(value: str) -> tuple[Cut, Cut]:
    return string_cut(value), (6, value + "\0")


TRUE_AT: Cut = (2, 1)
_AROUND: dict[Kind, Callable[[Any], tuple[Cut, Cut]]] = {
    Kind.BOOLEAN: _boolean,
    Kind.NUMBER: _number,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _timestamp,
    Kind.STRING: _string,
}
DOMAIN = {
    Kind.BOOLEAN: (BOOLEAN, NUMBER),
    Kind.NUMBER: (NUMBER, DATE),
    Kind.DATE: (DATE, TIMESTAMP),
    Kind.TIMESTAMP: (TIMESTAMP, STRING),
    Kind.STRING: (STRING, END),
}
_KINDS = {kind: (_AROUND[kind], *DOMAIN[kind]) for kind in Kind}


def string_cut(text: str) -> Cut:
    """The cut before a string; the empty one is the first, so nothing is before it but the start of all strings."""
    return (6, text) if text else STRING


def compared(operator: Operator, literal: Literal) -> Spans:
    """The values for which the comparison is true.

    >>> compared(Operator.GE, Literal(Kind.NUMBER, 5))
    ((3, 5, 0), (4,))
    >>> compared(Operator.LT, Literal(Kind.STRING, ""))
    ()
    """
    around, start, end = _KINDS[literal.kind]
    before, after = around(literal.value)
    if operator is Operator.EQ:
        return before, after
    if operator is Operator.LT:
        return (start, before) if start < before else ()
    if operator is Operator.LE:
        return start, after
    if operator is Operator.GE:
        return before, end
    above = (after, end) if after < end else ()
    if operator is Operator.GT:
        return above
    return (start, before, *above) if start < before else above


def among(literals: Iterable[Literal]) -> Spans:
    """The values of the literals, whose kinds may differ."""
    return joined(_AROUND[literal.kind](literal.value) for literal in literals)


def prefixed(prefix: str) -> Spans:
    """The strings that begin with the prefix.

    >>> prefixed("ab"), prefixed("")
    (((6, 'ab'), (6, 'ac')), ((6,), (7,)))
    """
    return string_cut(prefix), after_prefix(prefix)


def after_prefix(prefix: str) -> Cut:
    r"""The cut after the last string with the prefix; U+10FFFF has no successor, lone surrogates are no characters.

    >>> after_prefix("a\U0010ffff"), after_prefix("\U0010ffff")
    ((6, 'b'), (7,))
    """
    stem = prefix.rstrip(_LAST)
    if not stem:
        return END
    last = stem[-1]
    return (6, stem[:-1] + (_ABOVE_SURROGATES if last == _BELOW_SURROGATES else chr(ord(last) + 1)))


def joined(pieces: Iterable[tuple[Cut, Cut]]) -> Spans:
    """The union of any number of spans, in any order."""
    out: list[Cut] = []
    for low, high in sorted(pieces):
        if out and low <= out[-1]:
            if high > out[-1]:
                out[-1] = high
        else:
            out += (low, high)
    return tuple(out)


def union(a: Spans, b: Spans) -> Spans:
    """What is in a or in b.

    >>> union(compared(Operator.LT, Literal(Kind.NUMBER, 2)), among([Literal(Kind.NUMBER, 2)]))
    ((3,), (3, 2, 1))
    """
    if not a or not b:
        return a or b
    return joined([*pairs(a), *pairs(b)])


def intersection(a: Spans, b: Spans) -> Spans:
    """What is in a and in b."""
    if a == EVERYTHING:
        return b
    if b == EVERYTHING:
        return a
    out: list[Cut] = []
    i = j = 0
    while i < len(a) and j < len(b):
        low, high = max(a[i], b[j]), min(a[i + 1], b[j + 1])
        if low < high:
            out += (low, high)
        if a[i + 1] < b[j + 1]:
            i += 2
        else:
            j += 2
    return tuple(out)


def complement(a: Spans) -> Spans:
    """What is not in a."""
    if not a:
        return EVERYTHING
    inner = a[1:] if a[0] == ABSENT else (ABSENT, *a)
    return inner[:-1] if inner[-1] == END else (*inner, END)


def within(a: Spans, b: Spans) -> bool:
    """Whether all of a is in b.

    >>> within(among([Literal(Kind.NUMBER, 2)]), compared(Operator.LE, Literal(Kind.NUMBER, 2)))
    True
    """
    for place in range(0, len(a), 2):
        at = bisect_right(b, a[place])
        if not at & 1 or a[place + 1] > b[at]:
            return False
    return True


def contains(a: Spans, cut: Cut) -> bool:
    """Whether what comes right after the cut is in a."""
    return bool(bisect_right(a, cut) & 1)


def is_point(a: Spans) -> bool:
    """Whether the set is a single value of some kind.

    >>> is_point(among([Literal(Kind.NUMBER, 2)])), is_point(prefixed("a"))
    (True, False)
    """
    if len(a) != 2:
        return False
    low, high = a
    if low[0] != high[0]:
        return low == TRUE_AT and high == NUMBER
    if len(high) == 3:
        return low == (*high[:2], 0)
    if isinstance(high[1], str):
        return high[1] == (low[1] if len(low) > 1 else "") + "\0"
    return high == TRUE_AT or low == (high[0], high[1] - 1)


def pairs(a: Spans) -> Iterable[tuple[Cut, Cut]]:
    """The spans one by one."""
    return zip(a[::2], a[1::2], strict=True)
