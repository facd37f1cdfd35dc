"""Random filters and events whose constants come from one small pool of edge values, so that matches are frequent.

`TYPES` says which kind of value each attribute has in every event; `MIXED` attributes have any. A filter compares an
attribute mostly with values of its own kind, and sometimes with another's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

from hypothesis import strategies as st

from routing.filters.ast import (
    Comparison,
    Constant,
    Filter,
    In,
    IsNull,
    Kind,
    Literal,
    Not,
    Operator,
    Text,
    conjunction,
    disjunction,
)
from routing.filters.exact import canonical
from routing.filters.like import like_filter, text_filter

TYPES = {
    "s1": Kind.STRING,
    "s2": Kind.STRING,
    "b1": Kind.BOOLEAN,
    "i1": Kind.NUMBER,  # 64 bit
    "d1": Kind.NUMBER,  # double
    "m1": Kind.NUMBER,  # decimal(20,4)
    "day": Kind.DATE,
    "at": Kind.TIMESTAMP,
}
TYPED = tuple(TYPES)
MIXED = ("v", "nested.v")

STRINGS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "B",
    "ba",
    "a%",
    "a_b",
    "\\",
    "it's",
    "a\x00",
    "é",
    "e\u0301",
    "\uffff",
    "😀",
    "5",
]
INTEGERS = [0, 1, -1, 3, 4, 5, 100, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
DOUBLES = [
    *(0.0, -0.0, 0.1, 0.3, 0.1 + 0.2, 3.0, 3.5, 4.0, 5.0, 100.0, 2.0**53, 1e16, 1e23, 2.0**63, 2.0**-30, 1e-5),
    *(5e-324, 1.7976931348623157e308, -1.7976931348623157e308, float("inf"), float("-inf"), float("nan")),
]
DECIMALS = [Decimal(text) for text in ("0", "0.1", "0.3", "3", "3.5", "-1", "5.0000", "100.0", "0.0001")] + [
    Decimal("9999999999999999.9999"),
    Decimal("-9999999999999999.9999"),
    Decimal("9007199254740993"),
]
DATES = [date(1, 1, 1), date(1582, 10, 10), date(1970, 1, 1), date(2026, 1, 31), date(2026, 2, 1), date(9999, 12, 31)]
TIMESTAMPS = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 31, tzinfo=UTC),
    datetime(2026, 1, 31, 10, tzinfo=UTC),
    datetime(2026, 1, 31, 10, 0, 0, 1, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
]
VALUES: dict[str, Sequence[object]] = {
    "s1": STRINGS,
    "s2": STRINGS,
    "b1": [True, False],
    "i1": INTEGERS,
    "d1": DOUBLES,
    "m1": DECIMALS,
    "day": DATES,
    "at": TIMESTAMPS,
}

_BEYOND: list[int | Decimal] = [
    2**63,
    -(2**63) - 1,
    10**22,
    10**37,
    Decimal("0.30000000000000004"),
    Decimal("2.99999999999999999999"),
]
_TINY = [Decimal("9.31322574615478515625E-10"), Decimal(f"0.{'1' * 38}"), Decimal("0.00005")]
_FINITE = [double for double in DOUBLES if double - double == 0]
_NUMBERS: list[int | float | Decimal] = [*INTEGERS, *_FINITE, *DECIMALS, *_BEYOND, *_TINY]
NUMBERS = list(dict.fromkeys(map(canonical, _NUMBERS)))
LITERALS = {
    Kind.STRING: [Literal(Kind.STRING, value) for value in STRINGS],
    Kind.BOOLEAN: [Literal(Kind.BOOLEAN, value) for value in (True, False)],
    Kind.NUMBER: [Literal(Kind.NUMBER, value) for value in NUMBERS],
    Kind.DATE: [Literal(Kind.DATE, value) for value in DATES],
    Kind.TIMESTAMP: [Literal(Kind.TIMESTAMP, value) for value in TIMESTAMPS],
}


def events(names: Sequence[str] = TYPED) -> st.SearchStrategy[dict[str, object]]:
    """Events with some of the attributes; any may be missing or None."""
    return st.fixed_dictionaries({}, optional={name: st.none() | _value(name) for name in names})


def _value(name: str) -> st.SearchStrategy[object]:
    pool = VALUES.get(name) or [value for values in VALUES.values() for value in values]
    return st.sampled_from(pool)


def filters(names: Sequence[str] = TYPED, *, mismatches: bool = True) -> st.SearchStrategy[Filter]:
    """Filters over the attributes, as trees that keep the law of `ast`; `mismatches` compares across types too."""
    return st.recursive(leaves(names, mismatches=mismatches), _larger, max_leaves=12)


def leaves(names: Sequence[str] = TYPED, *, mismatches: bool = True) -> st.SearchStrategy[Filter]:
    """Filters of one predicate."""
    return st.one_of(
        st.builds(Constant, st.booleans()),
        st.sampled_from(names).map(IsNull),
        st.sampled_from(names).flatmap(lambda name: _comparisons(name, mismatches)),
        st.sampled_from(names).flatmap(lambda name: _memberships(name, mismatches)),
        st.sampled_from(_textual(names, mismatches)).flatmap(_text_tests)
        if _textual(names, mismatches)
        else st.nothing(),
    )


def literals(name: str, mismatches: bool = True) -> st.SearchStrategy[Literal]:
    """Values to compare the attribute with: one in six of another kind, if wanted."""
    every = [literal for pool in LITERALS.values() for literal in pool]
    own = LITERALS[TYPES[name]] if name in TYPES else every
    if not mismatches:
        return st.sampled_from(own)
    return st.integers(0, 5).flatmap(lambda die: st.sampled_from(own if die else every))


def patterns() -> st.SearchStrategy[str]:
    """LIKE patterns that match something now and then."""
    return st.lists(st.sampled_from(["a", "b", "é", "😀", "'", "%", "%", "_", r"\%", r"\_", r"\\"]), max_size=6).map(
        "".join
    )


def _textual(names: Sequence[str], mismatches: bool) -> list[str]:
    return [name for name in names if mismatches or TYPES.get(name, Kind.STRING) is Kind.STRING]


def _comparisons(name: str, mismatches: bool) -> st.SearchStrategy[Filter]:
    return st.builds(Comparison, st.just(name), st.sampled_from(Operator), literals(name, mismatches))


def _memberships(name: str, mismatches: bool) -> st.SearchStrategy[Filter]:
    members = st.lists(literals(name, mismatches), min_size=1, max_size=4, unique=True)
    return st.builds(In, st.just(name), members.map(tuple))


def _text_tests(name: str) -> st.SearchStrategy[Filter]:
    plain = st.sampled_from([Text.PREFIX, Text.SUFFIX, Text.SUBSTRING])
    return st.one_of(
        st.builds(text_filter, st.just(name), plain, st.sampled_from(STRINGS)),
        st.builds(like_filter, st.just(name), patterns()),
    )


def _larger(parts: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(parts, min_size=2, max_size=4)
    return st.one_of(st.builds(Not, parts), several.map(conjunction), several.map(disjunction))
