"""Every vector of SPEC §3 about what sets of events filters match, by brute force over a grid of events.

The algebra will decide these by reasoning; here each is shown by evaluation: a relation that holds has no counterexample
on the grid, one that does not hold has a witness in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from itertools import product

import pytest

from routing.filters import attributes, matches, parse

NUMBERS: list[object] = [
    *(None, float("nan"), "a", True, -1, 0, 1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 9, 10, 20, 21, 30),
    *(799, 800, 801, 1999, 2000, 2001, 9000),
]
TEXTS = [None, "", "a", "a\x00", "ab", "Engine", "Gear", "UA", "LH", "DEN", 1, date(2026, 1, 31)]
POOLS = {"part_failure": TEXTS, "airline": TEXTS, "dest": TEXTS, "s": TEXTS}


def grid(*filters: str) -> Iterator[dict[str, object]]:
    names = sorted(set[str]().union(*(attributes(parse(text)) for text in filters)))
    for values in product(*(POOLS.get(name, NUMBERS) for name in names)):
        yield dict(zip(names, values, strict=True))


def covers(f: str, g: str) -> bool:
    return not any(matches(g, event) and not matches(f, event) for event in grid(f, g))


def overlaps(f: str, g: str) -> bool:
    return any(matches(f, event) and matches(g, event) for event in grid(f, g))


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
        ("airline ANY", "airline = 'UA'", True),
        ("airline = 'UA'", "airline = 'UA' AND dest = 'DEN'", True),
        ("airline = 'UA' AND dest = 'DEN'", "airline = 'UA'", False),
        ("alarm >= 1", "alarm = 1 OR alarm >= 2", True),
        ("alarm = 1 OR alarm >= 2", "alarm >= 1", False),
    ],
)
def test_covers(f: str, g: str, holds: bool) -> None:
    assert covers(f, g) is holds


@pytest.mark.parametrize(
    ("f", "g", "holds"),
    [
        ("x < 5 OR x >= 5", "y < 5 OR y >= 5", False),
        ("x <> 2", "x < 2 OR x > 2", True),
        ("alarm = 1 OR alarm = 2 OR alarm > 2", "alarm = 1 OR alarm >= 2", True),
        ("NOT ((odometer < 800 AND NOT part_failure = 'Engine') OR NOT odometer > 2000)", "odometer > 2000", True),
        ("s LIKE 'a%'", "STARTSWITH(s, 'a')", True),
        ("s LIKE '%'", "s ANY", False),
    ],
)
def test_identical(f: str, g: str, holds: bool) -> None:
    assert (covers(f, g) and covers(g, f)) is holds


@pytest.mark.parametrize(
    ("f", "g", "holds"),
    [
        ("in_t < 10 AND out_t = 30", "in_t > 20 OR out_t = 30", True),
        ("(in_t < 10 AND out_t = 30) OR speed <> 20", "speed = 20 AND in_t > 20", False),
    ],
)
def test_overlaps(f: str, g: str, holds: bool) -> None:
    assert overlaps(f, g) is holds


@pytest.mark.parametrize(
    ("filter", "holds"),
    [
        ("NOT ((odometer < 800 AND NOT part_failure = 'Engine') OR NOT odometer > 2000)", True),
        ("x > 3 AND x < 4", True),
        ("x NOT IN (1, 'a')", False),
        ("x >= 3 AND x <= 3 AND x <> 3", False),
        ("s > 'a' AND s < 'a\x00'", False),
        ("s < ''", False),
        ("a = 1 AND b = 1 AND (a = 2 AND b = 2)", False),
    ],
)
def test_satisfiable(filter: str, holds: bool) -> None:
    assert any(matches(filter, event) for event in grid(filter)) is holds
