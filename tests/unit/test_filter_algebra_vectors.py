"""Every vector of SPEC §3: decided by the algebra, and shown by brute force over a grid of events.

By brute force a relation that holds has no counterexample on the grid, and one that does not hold has a witness in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from itertools import product

import pytest

from routing.errors import FilterError, FilterTooLarge
from routing.filters import (
    Filter,
    attributes,
    covers,
    identical,
    is_normal,
    matches,
    merge,
    merge_perfectly,
    normalise,
    overlaps,
    parse,
    relation,
    satisfiable,
    size_of_normal,
    to_sql,
)

NUMBERS: list[object] = [
    *(None, float("nan"), "a", True, -1, 0, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 9, 10, 20, 21, 30),
    *(799, 800, 801, 1999, 2000, 2001, 9000),
]
TEXTS = [None, "", "a", "a\x00", "ab", "abc", "b", "Engine", "Gear", "UA", "LH", "DEN", 1, date(2026, 1, 31)]
DAYS = [None, 1, *(date(2026, month, day) for month, day in [(1, 30), (1, 31), (2, 1), (2, 2)])]
INSTANTS = [None, 1, *(datetime(2026, 1, 31, 10, 0, 0, micro, UTC) for micro in range(3))]
FLAGS = [None, True, False, 1]
POOLS = {"part_failure": TEXTS, "airline": TEXTS, "dest": TEXTS, "s": TEXTS, "day": DAYS, "at": INSTANTS, "flag": FLAGS}

ODOMETER = "NOT ((odometer < 800 AND NOT part_failure = 'Engine') OR NOT odometer > 2000)"


def matched(*filters: Filter | str) -> Iterator[tuple[bool, ...]]:
    """Which of the filters match, for each event of the grid."""
    trees = [parse(filter) if isinstance(filter, str) else filter for filter in filters]
    names = sorted(set[str]().union(*map(attributes, trees)))
    for values in product(*(POOLS.get(name, NUMBERS) for name in names)):
        event = dict(zip(names, values, strict=True))
        yield tuple(matches(tree, event) for tree in trees)


def covers_by_force(f: Filter | str, g: Filter | str) -> bool:
    return (False, True) not in matched(f, g)


def overlaps_by_force(f: str, g: str) -> bool:
    return (True, True) in matched(f, g)


def same_by_force(f: Filter | str, g: Filter | str) -> bool:
    return {(True, True), (False, False)} >= set(matched(f, g))


@pytest.mark.parametrize(
    ("filter", "event", "expected"),
    [
        ("what = 'alarm'", {"what": "alarm", "date": "02:40:03"}, True),
        ("what = 'alarm' AND level > 3", {"what": "alarm", "date": "02:40:03"}, False),
        ("what = 'alarm' AND level > 3 AND level < 7", {"what": "alarm", "level": 10}, False),
        ("what = 'alarm' AND level > 3 AND level < 7", {"what": "alarm", "level": 5}, True),
        ("NOT (x < 5)", {"y": 1}, False),
        ("NOT (x < 5 AND y = 1)", {"y": 2}, True),
        ("x IS NULL", {"y": 2}, True),
        ("x > 3 AND x < 4", {"x": 3.5}, True),
    ],
)
def test_meaning(filter: str, event: dict[str, object], expected: bool) -> None:
    assert matches(filter, event) is expected


@pytest.mark.parametrize(
    ("f", "g", "holds"),
    [
        ("x < 5 OR x >= 5", "y = 1", False),
        ("x < 5 OR x >= 5", "x = 3", True),
        ("x < 5 OR x >= 5", "x = 'a'", False),
        ("x IS NULL OR x IS NOT NULL", "y = 1", True),
        ("airline ANY", "airline = 'UA'", True),
        ("airline = 'UA'", "airline = 'UA' AND dest = 'DEN'", True),
        ("airline ANY", "airline = 'UA' AND dest = 'DEN'", True),
        ("airline = 'UA' AND dest = 'DEN'", "airline = 'UA'", False),
        ("alarm >= 1", "alarm = 1 OR alarm >= 2", True),
        ("alarm = 1 OR alarm >= 2", "alarm >= 1", False),
        ("x ANY", "x < 5 OR x >= 5", True),
        ("x < 5 OR x >= 5", "x ANY", False),  # NaN, and every other type
        ("x = 1", "x NOT IN (1, 'a')", True),  # which matches nothing
        ("s LIKE '%b%'", "s LIKE 'ab%'", True),
        ("s LIKE 'ab%'", "s LIKE '%b%'", False),
        ("s > 'a'", "s LIKE 'ab%'", True),
    ],
)
def test_covers(f: str, g: str, holds: bool) -> None:
    assert covers(f, g) is relation(f, g).covers is relation(g, f).covered is holds
    assert covers_by_force(f, g) is holds


@pytest.mark.parametrize(
    ("f", "g", "holds"),
    [
        ("x < 5 OR x >= 5", "y < 5 OR y >= 5", False),
        ("x <> 2", "x < 2 OR x > 2", True),
        ("x <> 2", "NOT x = 2", True),
        ("x <> 2", "x IS NULL OR x < 2 OR x > 2", False),
        ("alarm = 1 OR alarm = 2 OR alarm > 2", "alarm = 1 OR alarm >= 2", True),
        (ODOMETER, "odometer > 2000", True),
        ("x = 100", "x = 1e2", True),
        ("s LIKE 'a%'", "STARTSWITH(s, 'a')", True),
        ("s LIKE '%'", "s ANY", False),
        ("s >= 'a' AND s < 'b'", "s LIKE 'a%'", True),
        ("s = 'a'", "s >= 'a' AND s < 'a\x00'", True),
        ("s LIKE 'a%' AND s LIKE '%a' AND s NOT LIKE 'a%a'", "s = 'a'", True),
    ],
)
def test_identical(f: str, g: str, holds: bool) -> None:
    assert identical(f, g) is identical(g, f) is holds
    assert same_by_force(f, g) is holds


@pytest.mark.parametrize(
    ("f", "g", "holds"),
    [
        ("in_t < 10 AND out_t = 30", "in_t > 20 OR out_t = 30", True),
        ("(in_t < 10 AND out_t = 30) OR speed <> 20", "speed = 20 AND in_t > 20", False),
        ("x < 5", "x >= 5", False),
        ("x < 5", "x IS NULL", False),
        ("x <= 5", "x >= 5", True),
        ("x = 1", "x = TRUE", False),
        ("s LIKE 'a%'", "s LIKE '%c'", True),
        ("s LIKE 'a%'", "s < 'a'", False),
    ],
)
def test_overlaps(f: str, g: str, holds: bool) -> None:
    assert overlaps(f, g) is overlaps(g, f) is relation(f, g).overlaps is holds
    assert overlaps_by_force(f, g) is holds


@pytest.mark.parametrize(
    ("filter", "holds"),
    [
        (ODOMETER, True),
        ("x > 3 AND x < 4", True),
        ("x NOT IN (1, 'a')", False),
        ("x >= 3 AND x <= 3 AND x <> 3", False),
        ("x IS NULL AND NOT x < 5", False),
        ("s > 'a' AND s < 'a\x00'", False),
        ("s >= 'a' AND s < 'a\x00'", True),
        ("s < ''", False),
        ("a = 1 AND b = 1 AND (a = 2 AND b = 2)", False),
        ("flag <> TRUE AND flag <> FALSE", False),
        ("flag > FALSE AND flag < TRUE", False),
        ("day > DATE '2026-01-31' AND day < DATE '2026-02-01'", False),
        ("day > DATE '2026-01-31' AND day < DATE '2026-02-02'", True),
        ("at > TIMESTAMP '2026-01-31 10:00:00Z' AND at < TIMESTAMP '2026-01-31 10:00:00.000001Z'", False),
    ],
)
def test_satisfiable(filter: str, holds: bool) -> None:
    assert satisfiable(filter) is holds
    assert ((True,) in matched(filter)) is holds


@pytest.mark.parametrize(
    ("parts", "expected", "perfect"),
    [
        (["alarm = 1", "alarm = 2", "alarm > 2"], "alarm = 1 OR alarm >= 2", True),
        (["a = 1 AND b = 1", "a = 2 AND b = 1"], "a IN (1, 2) AND b = 1", True),
        (["a = 1 AND b = 1", "a = 2 AND b = 2"], "a IN (1, 2) AND b IN (1, 2)", False),
        (["x < 3", "x >= 3 AND x < 5", "x = 5"], "x <= 5", True),
        (["x < 3", "x > 3"], "x <> 3", True),
        (["x > 1", "x > 2 AND b = 1"], "x > 1", True),
        (["s LIKE 'a%'", "s LIKE 'ab%'"], "s LIKE 'a%'", True),
        (["s = 'UA'", "s = 'LH'"], "s IN ('UA', 'LH')", True),
        (["x = 1"], "x = 1", True),
    ],
)
def test_merge(parts: list[str], expected: str, perfect: bool) -> None:
    merged = merge(parts)
    assert merged.perfect is perfect and (merged.added == 0.0) is perfect
    assert identical(merged.filter, expected) and same_by_force(merged.filter, expected)
    assert all(covers_by_force(merged.filter, part) for part in parts)
    assert same_by_force(merged.filter, " OR ".join(f"({part})" for part in parts)) is perfect


@pytest.mark.parametrize(
    ("parts", "expected", "perfect"),
    [
        (["alarm = 1", "alarm = 2", "alarm > 2"], "alarm >= 1", False),
        (["x < 3", "x >= 3 AND x < 5"], "x < 5", True),
        (["x > 3 AND x < 4", "x > 9"], "x > 3", False),
        (["x < 3", "x > 3"], "x < 3 OR x >= 3", False),
        (["a = 1 AND b = 1", "a = 3 AND b = 1"], "a >= 1 AND a <= 3 AND b = 1", False),
        (["s = 'a'", "s = 'b'"], "s >= 'a' AND s <= 'b'", False),
    ],
)
def test_merge_into_one_interval(parts: list[str], expected: str, perfect: bool) -> None:
    merged = merge(parts, intervals=1)
    assert merged.perfect is perfect and (0.0 < merged.added <= 1.0) is not perfect
    assert identical(merged.filter, expected) and same_by_force(merged.filter, expected)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["alarm = 1", "alarm = 2", "alarm > 2"], ["alarm = 1 OR alarm >= 2"]),
        (["a = 1 AND b = 1", "a = 2 AND b = 2"], ["a = 1 AND b = 1", "a = 2 AND b = 2"]),
        (["a = 1 AND b = 1", "a = 2 AND b = 2", "a = 2 AND b = 1"], ["a IN (1, 2) AND b = 1", "a = 2 AND b = 2"]),
        (["x > 5", "airline = 'UA'", "airline ANY", "x > 3"], ["x > 3", "airline ANY"]),
        (["TRUE", "NOT FALSE", "x = 1"], ["TRUE"]),
        (["s LIKE 'b%'", "s LIKE 'b%a'"], ["s LIKE 'b%'"]),
        (["s < 'b'", "s LIKE 'a%b'"], ["s < 'b'"]),
        (["s < 'a'", "s > TIMESTAMP '2026-01-31 10:00:00Z'"], ["s < 'a' OR s > TIMESTAMP '2026-01-31 10:00:00Z'"]),
        (["a = 1 OR b = 1"], ["a = 1 OR b = 1"]),
    ],
)
def test_merge_perfectly(parts: list[str], expected: list[str]) -> None:
    merged = merge_perfectly(parts)
    assert len(merged) == len(expected)
    assert same_by_force(" OR ".join(map(in_parentheses, parts)), " OR ".join(map(in_parentheses, merged)))


def in_parentheses(filter: Filter | str) -> str:
    return f"({filter if isinstance(filter, str) else to_sql(filter)})"


@pytest.mark.parametrize(
    "filter",
    [ODOMETER, "x <> 2", "x NOT IN (1, 'a')", "NOT (x < 5 AND (y = 1 OR s LIKE 'a%'))", "x ANY OR NOT x < 5", "TRUE"],
)
def test_normalise(filter: str) -> None:
    normal = normalise(filter)
    assert is_normal(normal) and normalise(normal) == normal
    assert identical(normal, filter) and same_by_force(normal, filter)


def test_the_cost_of_a_normal_form_is_known_before_it_is_paid() -> None:
    filter = " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(30))
    assert size_of_normal(filter) >= 2**30
    with pytest.raises(FilterTooLarge):
        normalise(filter)


@pytest.mark.parametrize("ask", [covers, identical, overlaps, relation, lambda f, g: merge([f, g])])
@pytest.mark.parametrize("texts", [("x >", "x = 1"), ("x = 1", "x = NULL")])
def test_a_text_that_is_no_filter_is_the_parsers_error(ask, texts) -> None:
    with pytest.raises(FilterError):
        ask(*texts)


@pytest.mark.parametrize("ask", [satisfiable, normalise, size_of_normal, is_normal])
def test_nor_is_it_asked_about_alone(ask) -> None:
    with pytest.raises(FilterError):
        ask("x = NULL")
