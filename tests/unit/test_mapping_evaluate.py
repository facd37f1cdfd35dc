"""What mappings make of events, by example; the compiled columns are tested against this in `properties`."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from routing.errors import MappingFailed
from routing.mappings import apply, parse_mapping

FAILED = object()


def result(text: str, **event: Any) -> Any:
    try:
        return apply(parse_mapping(f"x = {text}"), event).get("x")
    except MappingFailed:
        return FAILED


def test_expressions_see_the_event_before_the_mapping() -> None:
    assert apply(parse_mapping("a = b, b = a"), {"a": 1, "b": 2}) == {"a": 2, "b": 1}
    assert apply(parse_mapping("b = a, DROP a"), {"a": 1}) == {"b": 1}


def test_null_is_absence() -> None:
    assert apply(parse_mapping("a = NULL, DROP b, c = gone"), {"a": 1, "b": 2, "c": 3, "d": None, "e": 5}) == {"e": 5}


def test_a_failure_names_the_attribute_and_the_reason() -> None:
    with pytest.raises(MappingFailed, match="share: division by zero"):
        apply(parse_mapping("share = a / b"), {"a": 1, "b": 0})


LEAST, GREATEST = -(2**63), 2**63 - 1
EXAMPLES: list[tuple[str, dict[str, Any], Any]] = [
    ("a + 1", {"a": GREATEST}, FAILED),
    ("-a", {"a": LEAST}, FAILED),
    ("ABS(a)", {"a": LEAST}, FAILED),
    ("a % -1", {"a": LEAST}, 0),
    ("a % 3", {"a": -7}, -1),
    ("7 / 2", {}, 3.5),
    ("1 / a", {"a": 0}, FAILED),
    ("1 / a", {"a": -0.0}, FAILED),
    ("1 % a", {"a": Decimal(0)}, FAILED),
    ("a * 0.92", {"a": Decimal("10.00")}, Decimal("9.2")),
    ("a * 0.5", {"a": 3}, Decimal("1.5")),
    ("a * 2e0", {"a": Decimal("0.1")}, 0.2),
    ("a + 0.0000000000000000005", {"a": 0}, Decimal("0.000000000000000001")),
    ("a * a", {"a": Decimal("3162277660.168379331998893545")}, FAILED),
    ("a * a", {"a": Decimal("3162277660.1")}, Decimal("9999999999567531132.01")),
    ("a * a", {"a": Decimal("1000000000.000000001")}, Decimal("1000000000000000002.000000000000000001")),
    ("a * 2", {"a": 1e308}, math.inf),
    ("'a' + 1", {}, FAILED),
    ("b + 1", {"b": True}, FAILED),
    ("day + 1", {"day": date(2026, 1, 31)}, FAILED),
    ("NULL + 1 / 0", {}, None),
    ("a || 'b'", {"a": "ab"}, "abb"),
    ("a || 'b'", {}, None),
    ("a || 'b'", {"a": 1}, FAILED),
    ("UPPER('straße')", {}, "STRASSE"),
    ("TRIM('  a\t ')", {}, "a\t"),
    ("SUBSTRING('a😀c', 2, 1)", {}, "😀"),
    ("SUBSTRING('abc', -2)", {}, "bc"),
    ("SUBSTRING('abc', -5, 3)", {}, "a"),
    ("SUBSTRING('abc', 0, 2)", {}, "ab"),
    ("SUBSTRING('abc', 2, -1)", {}, ""),
    ("SUBSTRING('abc', 1.0)", {}, FAILED),
    ("REPLACE('aaa', 'aa', 'b')", {}, "ba"),
    ("REPLACE('aaa', '', 'b')", {}, "aaa"),
    ("LENGTH('😀 ')", {}, 2),
    ("ROUND(2.5)", {}, Decimal(3)),
    ("ROUND(-2.5e0)", {}, -3.0),
    ("ROUND(a, 1)", {"a": 0.25}, 0.3),
    ("ROUND(a, 2)", {"a": 7}, 7),
    ("FLOOR(a)", {"a": -0.5}, -1),
    ("CEIL(a)", {"a": 2.0**63}, FAILED),
    ("FLOOR(a)", {"a": math.nan}, FAILED),
    ("COALESCE(a, b, 3)", {"b": 2}, 2),
    ("COALESCE(b, 1 / 0)", {"b": 2}, 2),
    ("COALESCE(1 / 0, 2)", {}, FAILED),
    ("NULLIF(a, 100)", {"a": 100.0}, None),
    ("NULLIF(a, '100')", {"a": 100}, 100),
    ("GREATEST(a, 9007199254740993)", {"a": 2.0**53}, 9007199254740993),
    ("GREATEST(a, 100)", {"a": 100.0}, 100.0),
    ("LEAST(a, 0.1)", {"a": 0.1}, 0.1),
    ("LEAST(gone, 3, a)", {"a": 2}, 2),
    ("GREATEST(a, 1)", {"a": math.nan}, FAILED),
    ("GREATEST(a, 1)", {"a": "1"}, FAILED),
    ("CASE WHEN a > 1 THEN 1 / 0 ELSE 5 END", {"a": 1}, 5),
    ("CASE WHEN a > 1 THEN 'x' END", {}, None),
    ("CASE WHEN NOT a > 1 THEN 'x' WHEN a IS NULL THEN 'none' END", {}, "none"),
    ("CAST('5' AS bigint)", {}, 5),
    ("CAST(' 5' AS bigint)", {}, FAILED),
    ("CAST('9223372036854775808' AS bigint)", {}, FAILED),
    ("CAST(a AS bigint)", {"a": -1.9}, -1),
    ("CAST(a AS bigint)", {"a": 2.0**63}, FAILED),
    ("CAST('1e3' AS double)", {}, 1000.0),
    ("CAST('1e999' AS double)", {}, FAILED),
    ("CAST('1e3' AS decimal(5, 1))", {}, FAILED),
    ("CAST('12.345' AS decimal(4, 2))", {}, Decimal("12.35")),
    ("CAST('123.45' AS decimal(4, 2))", {}, FAILED),
    ("CAST(a AS decimal(38, 2))", {"a": 2.0**62}, Decimal(2**62)),
    ("CAST('TRUE' AS boolean)", {}, True),
    ("CAST('t' AS boolean)", {}, FAILED),
    ("CAST(TRUE AS bigint)", {}, FAILED),
    ("CAST(1.50 AS string)", {}, "1.5"),
    ("CAST(a AS string)", {"a": Decimal("1E-7")}, "0.0000001"),
    ("CAST(a AS string)", {"a": 12345678.0}, "1.2345678E7"),
    ("CAST('2026-01-31' AS date)", {}, date(2026, 1, 31)),
    ("CAST('2026-02-30' AS date)", {}, FAILED),
    ("CAST('2026-01-31T10:00+02:00' AS timestamp)", {}, datetime(2026, 1, 31, 8, tzinfo=UTC)),
    ("CAST(TIMESTAMP '2026-01-31 10:00+02:00' AS string)", {}, "2026-01-31T08:00:00.000000Z"),
    ("CAST(DATE '2026-01-31' AS string)", {}, "2026-01-31"),
    ("CAST(DATE '2026-01-31' AS timestamp)", {}, FAILED),
]


@pytest.mark.parametrize(("text", "event", "expected"), EXAMPLES, ids=[text for text, _, _ in EXAMPLES])
def test_expressions(text: str, event: dict[str, Any], expected: Any) -> None:
    found = result(text, **event)
    assert found == expected and type(found) is type(expected)


def test_nan_passes() -> None:
    assert math.isnan(result("a + 1", a=math.nan))
    assert math.isnan(result("a - a", a=math.inf))


def test_the_minus_of_zero() -> None:
    assert math.copysign(1, result("-a", a=0.0)) == -1


def test_texts_do_not_grow_without_bound() -> None:
    for text in ("a || a", "REPLACE(a, 'x', 'yy')", "UPPER(b)"):
        with pytest.raises(MappingFailed, match="too long"):
            apply(parse_mapping(f"x = {text}"), {"a": "x" * 60, "b": "ß" * 60}, longest=100)


def test_naive_datetimes_are_read_in_the_zone() -> None:
    vienna = timezone(timedelta(hours=1))
    tree = parse_mapping("x = CAST(at AS string), y = GREATEST(at, TIMESTAMP '2026-01-31 08:59Z')")
    at = datetime(2026, 1, 31, 10)
    assert apply(tree, {"at": at}, zone=vienna) == {"at": at, "x": "2026-01-31T09:00:00.000000Z", "y": at}
