"""What filters mean: the vectors of SPEC §2 and §3, and three oracles that share nothing with the evaluator.

The oracles: Kleene's truth tables written out, SQLite for whole filters, and fractions for the order of numbers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy
import pytest
from hypothesis import given, settings

from routing.filters import Filter, evaluate, matches, parse
from routing.filters.ast import And, Comparison, Constant, In, IsNull, Kind, Literal, Not, Operator, Or, Text, TextTest
from tests.strategies import DECIMALS, DOUBLES, INTEGERS, NUMBERS, TYPED, TYPES, events, filters

NAN, INFINITY = float("nan"), float("inf")
YES, NO, UNKNOWN = True, False, None
STRANGE: list[object] = [[], {}, b"a", object(), 1j, timedelta(1)]

VECTORS: list[tuple[str, Mapping[str, object], bool | None]] = [
    # SIENA's Table 3
    ("what = 'alarm'", {"what": "alarm", "date": "02:40:03"}, YES),
    ("what = 'alarm' AND level > 3", {"what": "alarm", "date": "02:40:03"}, UNKNOWN),
    ("what = 'alarm' AND level > 3 AND level < 7", {"what": "alarm", "level": 10}, NO),
    ("what = 'alarm' AND level > 3 AND level < 7", {"what": "alarm", "level": 5}, YES),
    # an absent attribute
    ("x > 3", {"x": 4}, YES),
    ("x < 5", {}, UNKNOWN),
    ("NOT (x < 5)", {}, UNKNOWN),
    ("x < 5 OR x >= 5", {"y": 1}, UNKNOWN),
    ("NOT (x < 5 AND y = 1)", {"y": 2}, YES),
    ("NOT (x < 5 AND y = 1)", {"y": 1}, UNKNOWN),
    ("x <> 5", {}, UNKNOWN),
    ("x NOT IN (1, 2)", {}, UNKNOWN),
    ("x NOT LIKE 'a%'", {}, UNKNOWN),
    ("x NOT BETWEEN 1 AND 2", {}, UNKNOWN),
    ("flag", {}, UNKNOWN),
    ("NOT flag", {}, UNKNOWN),
    ("x IS NULL", {}, YES),
    ("x IS NULL", {"x": None}, YES),
    ("x IS NOT NULL", {"x": None}, NO),
    ("x ANY", {"x": 0}, YES),
    ("x ANY", {}, NO),
    ("NOT x ANY", {}, YES),
    ("TRUE", {}, YES),
    ("NOT TRUE", {}, NO),
    ("x < 5 OR TRUE", {}, YES),
    ("x < 5 AND FALSE", {}, NO),
    # another type is no error, and no match, negated or not
    ("x = 5", {"x": "5"}, UNKNOWN),
    ("x <> 5", {"x": "5"}, UNKNOWN),
    ("NOT x = 5", {"x": "5"}, UNKNOWN),
    ("x = '5'", {"x": 5}, UNKNOWN),
    ("x = 1", {"x": True}, UNKNOWN),
    ("x", {"x": 1}, UNKNOWN),
    ("x = TRUE", {"x": "TRUE"}, UNKNOWN),
    ("x LIKE '%'", {"x": 5}, UNKNOWN),
    ("x NOT LIKE 'a'", {"x": 5}, UNKNOWN),
    ("x LIKE '%'", {"x": ""}, YES),
    ("x IS NOT NULL", {"x": "5"}, YES),
    ("x IN (1, 'a')", {"x": "a"}, YES),
    ("x IN (1, 'a')", {"x": "b"}, UNKNOWN),
    ("x NOT IN (1, 'a')", {"x": "b"}, UNKNOWN),
    ("x NOT IN (1, 'a')", {"x": 2}, UNKNOWN),
    ("x NOT IN (1, 'a')", {"x": 1}, NO),
    ("x NOT IN (1, 3)", {"x": 2}, YES),
    ("x BETWEEN 1 AND 'a'", {"x": 0}, NO),
    ("x BETWEEN 1 AND 'a'", {"x": 2}, UNKNOWN),
    # values of no comparable kind are present all the same
    *((f"x {test}", {"x": value}, UNKNOWN) for test in ("= 5", "<> 'a'", "LIKE '%'") for value in STRANGE),
    *(("x IS NOT NULL", {"x": value}, YES) for value in (*STRANGE, NAN, Decimal("sNaN"))),
    # one exact order of numbers
    ("x = 9007199254740992", {"x": 9007199254740993}, NO),
    ("x = 9007199254740993", {"x": 9007199254740993}, YES),
    ("x = 9007199254740993", {"x": 9007199254740992.0}, NO),
    ("x < 9007199254740993", {"x": 9007199254740992.0}, YES),
    ("x = 100", {"x": 100.0}, YES),
    ("x = 100.0", {"x": 100}, YES),
    ("x = 1e2", {"x": Decimal("100.000")}, YES),
    ("x = 0.1", {"x": 0.1}, YES),
    ("x = 0.1", {"x": Decimal("0.1")}, YES),
    ("x = 1e-1", {"x": 0.1}, YES),
    ("x = 1e-1", {"x": Decimal("0.10")}, YES),
    ("x = 0.1", {"x": Decimal.from_float(0.1)}, NO),
    ("x > 0.3", {"x": 0.1 + 0.2}, YES),
    ("x = 0.30000000000000004", {"x": 0.1 + 0.2}, YES),
    ("x = 0.3", {"x": 0.3}, YES),
    ("x = 99999999999999991611392", {"x": 1e23}, YES),
    ("x = 100000000000000000000000", {"x": 1e23}, NO),
    ("x = 0", {"x": -0.0}, YES),
    ("x = -0.0", {"x": 0}, YES),
    ("x < 0", {"x": -0.0}, NO),
    ("x = 0.12345678901234567890123456789012345678", {"x": Decimal("0.12345678901234567890123456789012345679")}, NO),
    ("x > 3 AND x < 4", {"x": 3.5}, YES),
    ("x = 0.1", {"x": numpy.float64(0.1)}, YES),
    # NaN and the infinities
    *((f"x {operator} 5", {"x": NAN}, UNKNOWN) for operator in ("=", "<>", "<", "<=", ">", ">=")),
    *((f"x {operator} 5", {"x": Decimal("NaN")}, UNKNOWN) for operator in ("=", "<>", "<", ">")),
    ("x = 5", {"x": Decimal("sNaN")}, UNKNOWN),
    ("NOT x < 5", {"x": NAN}, UNKNOWN),
    ("x IN (1, 2)", {"x": NAN}, UNKNOWN),
    ("x > 1.7976931348623157e308", {"x": INFINITY}, YES),
    ("x < -1.7976931348623157e308", {"x": -INFINITY}, YES),
    ("x > 5", {"x": Decimal("Infinity")}, YES),
    ("x <> 5", {"x": -INFINITY}, YES),
    # strings order by code point
    ("s < 'a'", {"s": "B"}, YES),
    ("s > 'a'", {"s": "a\x00"}, YES),
    ("s < '😀'", {"s": "\uffff"}, YES),
    ("s = 'é'", {"s": "e\u0301"}, NO),
    ("s >= ''", {"s": ""}, YES),
    ("s < ''", {"s": "a"}, NO),
    # LIKE
    ("s LIKE 'a_c'", {"s": "abc"}, YES),
    ("s LIKE 'a_c'", {"s": "ac"}, NO),
    ("s LIKE 'a_c'", {"s": "a😀c"}, YES),
    ("s LIKE '_'", {"s": "e\u0301"}, NO),
    ("s LIKE 'A%'", {"s": "abc"}, NO),
    ("s LIKE 'abc%'", {"s": "abc"}, YES),
    ("s LIKE '%abc'", {"s": "xabc"}, YES),
    ("s LIKE '%abc%'", {"s": "xabcx"}, YES),
    ("s LIKE 'abc'", {"s": "abcd"}, NO),
    ("s LIKE 'a%b%c'", {"s": "a\nbxbc"}, YES),
    ("s LIKE '50\\%'", {"s": "50%"}, YES),
    ("s LIKE '50\\%'", {"s": "500"}, NO),
    ("s LIKE '_\\_'", {"s": "a_"}, YES),
    ("s NOT LIKE '_%'", {"s": ""}, YES),
    ("STARTSWITH(s, 'ab') AND ENDSWITH(s, 'bc') AND CONTAINS(s, 'b')", {"s": "abc"}, YES),
    # booleans
    ("flag", {"flag": True}, YES),
    ("flag", {"flag": False}, NO),
    ("NOT flag", {"flag": False}, YES),
    ("flag < TRUE", {"flag": False}, YES),
    # dates and timestamps are two types
    ("x = DATE '2026-01-31'", {"x": date(2026, 1, 31)}, YES),
    ("x < DATE '2026-02-01'", {"x": date(2026, 1, 31)}, YES),
    ("x = DATE '2026-01-31'", {"x": datetime(2026, 1, 31)}, UNKNOWN),
    ("x = TIMESTAMP '2026-01-31'", {"x": date(2026, 1, 31)}, UNKNOWN),
    ("x = TIMESTAMP '2026-01-31'", {"x": datetime(2026, 1, 31)}, YES),
    ("x = '2026-01-31'", {"x": date(2026, 1, 31)}, UNKNOWN),
    ("x = TIMESTAMP '2026-01-31 10:00Z'", {"x": datetime(2026, 1, 31, 12, tzinfo=timezone(timedelta(hours=2)))}, YES),
    ("x > TIMESTAMP '2026-01-31 10:00Z'", {"x": datetime(2026, 1, 31, 10, 0, 0, 1, tzinfo=UTC)}, YES),
    ("x < TIMESTAMP '0001-01-01'", {"x": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))}, YES),
    # dotted names
    ("a.b = 1", {"a.b": 1}, YES),
    ("a.b = 1", {"a": {"b": 1}}, UNKNOWN),
    # the concept paper's
    ("NOT ((odometer < 800 AND NOT part_failure = 'Engine') OR NOT odometer > 2000)", {"odometer": 2001}, YES),
    ("NOT ((odometer < 800 AND NOT part_failure = 'Engine') OR NOT odometer > 2000)", {"odometer": 2000}, NO),
]


@pytest.mark.parametrize(("text", "event", "truth"), VECTORS)
def test_vectors(text: str, event: Mapping[str, object], truth: bool | None) -> None:
    assert evaluate(parse(text), event) is truth
    assert matches(text, event) is matches(parse(text), event) is (truth is True)


def test_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert matches("x = TIMESTAMP '2026-07-01 10:00Z'", {"x": datetime(2026, 7, 1, 12)}, zone=berlin)
    assert matches("x = TIMESTAMP '2026-07-01 12:00'", {"x": datetime(2026, 7, 1, 12)}, zone=berlin)
    assert matches("x = TIMESTAMP '2026-07-01 12:00'", {"x": datetime(2026, 7, 1, 10, tzinfo=UTC)}, zone=berlin)


def test_the_hour_that_comes_twice() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    first, second = datetime(2026, 10, 25, 2, 30, tzinfo=berlin), datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=berlin)
    assert matches("x = TIMESTAMP '2026-10-25 00:30Z'", {"x": first})
    assert matches("x = TIMESTAMP '2026-10-25 01:30Z'", {"x": second})
    assert matches("x = TIMESTAMP '2026-10-25 01:30Z'", {"x": second.replace(tzinfo=None)}, zone=berlin)


# Kleene's tables, written out: T, F and U (unknown), for U the absent attribute.

AND_TABLE = {"TT": "T", "TF": "F", "TU": "U", "FT": "F", "FF": "F", "FU": "F", "UT": "U", "UF": "F", "UU": "U"}
OR_TABLE = {"TT": "T", "TF": "T", "TU": "T", "FT": "T", "FF": "F", "FU": "U", "UT": "T", "UF": "U", "UU": "U"}
NOT_TABLE = {"T": "F", "F": "T", "U": "U"}
TRUTH = {"T": True, "F": False, "U": None}


@pytest.mark.parametrize("pair", AND_TABLE)
def test_truth_tables(pair: str) -> None:
    event = {"p": TRUTH[pair[0]], "q": TRUTH[pair[1]]}
    assert evaluate(parse("p AND q"), event) is TRUTH[AND_TABLE[pair]]
    assert evaluate(parse("p OR q"), event) is TRUTH[OR_TABLE[pair]]
    assert evaluate(parse("NOT p"), event) is TRUTH[NOT_TABLE[pair[0]]]


# SQLite for whole filters: every literal becomes a bound value of the column's type, one of another type NULL.
# Numbers are left to the fractions below, but for integers, which SQLite compares exactly.

SQLITE_NAMES = tuple(name for name in TYPED if name not in ("d1", "m1"))


@pytest.fixture(scope="module")
def sqlite() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA case_sensitive_like = ON")
    yield connection
    connection.close()


@settings(deadline=None, max_examples=500)
@given(filters(SQLITE_NAMES), events(SQLITE_NAMES))
def test_sqlite_agrees(sqlite: sqlite3.Connection, filter: Filter, event: dict[str, object]) -> None:
    bound: list[object] = []
    sql = in_sqlite(filter, event, bound)
    (truth,) = sqlite.execute(f"SELECT {sql}", bound).fetchone()
    assert evaluate(filter, event) is (None if truth is None else bool(truth)), sql


def in_sqlite(filter: Filter, event: Mapping[str, object], bound: list[object]) -> str:
    """The filter as SQLite reads it, its values appended to `bound` in the order of the question marks."""

    def value(of: object) -> str:
        bound.append(as_stored(of))
        return "?"

    def literal(of: Literal, attribute: str) -> str:
        fits = of.kind is TYPES[attribute] and not isinstance(of.value, Decimal) and in_range(of.value)
        return value(of.value if fits else None)

    match filter:
        case Constant(truth):
            return str(int(truth))
        case Not(part):
            return f"(NOT {in_sqlite(part, event, bound)})"
        case And(parts):
            return "(" + " AND ".join(in_sqlite(part, event, bound) for part in parts) + ")"
        case Or(parts):
            return "(" + " OR ".join(in_sqlite(part, event, bound) for part in parts) + ")"
        case IsNull(attribute):
            return f"({value(event.get(attribute))} IS NULL)"
        case Comparison(attribute, operator, constant) if inexact(constant) and TYPES[attribute] is Kind.NUMBER:
            return known(event.get(attribute), operator, constant, value)
        case Comparison(attribute, operator, constant):
            return f"({value(event.get(attribute))} {operator.value} {literal(constant, attribute)})"
        case In(attribute, constants):
            equalities = (Comparison(attribute, Operator.EQ, constant) for constant in constants)
            return "(" + " OR ".join(in_sqlite(equality, event, bound) for equality in equalities) + ")"
        case TextTest(attribute, test, text):
            subject = event.get(attribute) if TYPES[attribute] is Kind.STRING else None
            return text_in_sqlite(subject, test, text, value)


def text_in_sqlite(subject: object, test: Text, text: str, value: Callable[[object], str]) -> str:
    if test is Text.LIKE:
        # SQLite's LIKE stops at a NUL; another character that no pattern names stands in for it.
        subject = subject.replace("\x00", "\x01") if isinstance(subject, str) else subject
        return f"({value(subject)} LIKE {value(text)} ESCAPE '\\')"
    if not text:
        return f"({value(subject)} = {value(subject)})"
    found, sought = value(as_codes(subject)), value(as_codes(text))
    if test is Text.SUBSTRING:
        return f"(instr({found}, {sought}) > 0)"
    span = f"1, {len(text) * 7}" if test is Text.PREFIX else f"{-len(text) * 7}"
    return f"(substr({found}, {span}) = {sought})"


def inexact(literal: Literal) -> bool:
    return literal.kind is Kind.NUMBER and (isinstance(literal.value, Decimal) or not in_range(literal.value))


def known(subject: object, operator: Operator, literal: Literal, value: Callable[[object], str]) -> str:
    """An integer against a number that SQLite does not have: its place among the integers decides."""
    number = Fraction(str(literal.value))
    if subject is None:
        return f"({value(None)} = 0)"
    sign = (Fraction(str(subject)) > number) - (Fraction(str(subject)) < number)
    return f"({value(sign)} {operator.value} 0)"


def as_stored(value: object) -> object:
    if isinstance(value, datetime):
        return (value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    if isinstance(value, date):
        return value.isoformat()
    return int(value) if isinstance(value, bool) else value


def as_codes(text: object) -> object:
    """Seven plain characters for each one: SQLite's text functions stop at a NUL."""
    return "".join(f"{ord(character):06x};" for character in text) if isinstance(text, str) else text


def in_range(value: object) -> bool:
    return not isinstance(value, int) or -(2**63) <= value < 2**63


# Fractions for the order of numbers.


@pytest.mark.parametrize("value", [*INTEGERS, *DOUBLES, *DECIMALS], ids=repr)
def test_numbers_compare_as_fractions(value: float | Decimal) -> None:
    for number in NUMBERS:
        literal = Literal(Kind.NUMBER, number)
        sign = order(value, Fraction(str(number)))
        for operator, signs in SIGNS.items():
            expected = None if sign is None else sign in signs
            assert evaluate(Comparison("x", operator, literal), {"x": value}) is expected


SIGNS = {
    Operator.EQ: {0},
    Operator.NE: {-1, 1},
    Operator.LT: {-1},
    Operator.LE: {-1, 0},
    Operator.GT: {1},
    Operator.GE: {0, 1},
}


def order(value: float | Decimal, number: Fraction) -> int | None:
    """Where the value stands to the number: below, at, above it, or nowhere."""
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, float) and value in (INFINITY, -INFINITY):
        return 1 if value > 0 else -1
    integral = isinstance(value, float) and value == value // 1
    stands_for = Fraction(value) if integral else Fraction(str(value))
    return (stands_for > number) - (stands_for < number)
