"""Mapping texts: what they mean, what is refused and how, and that any text gives one or the other."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.errors import ConfigError, MappingError, MappingTooLarge, RoutingError
from routing.filters import parse
from routing.mappings import Limits, Mapping, parse_mapping, to_sql
from routing.mappings.ast import (
    Assign,
    Attribute,
    Binary,
    Call,
    Case,
    Cast,
    Drop,
    Expression,
    Literal,
    Name,
    Negative,
    Null,
    Operator,
    Type,
)

A, B = Attribute("a"), Attribute("b")
ONE = Literal(Type(Name.BIGINT), 1)


def expression(text: str) -> Expression:
    (assignment,) = parse_mapping(f"x = {text}").assignments
    assert isinstance(assignment, Assign)
    return assignment.expression


def test_the_example_of_the_page() -> None:
    mapping = parse_mapping("price_eur = price * 0.92, label = UPPER(name) || '!', DROP internal_id")
    rate = Literal(Type(Name.DECIMAL, 2, 2), Decimal("0.92"))
    label = Call("CONCAT", (Call("UPPER", (Attribute("name"),)), Literal(Type(Name.STRING), "!")))
    assert mapping == Mapping(
        (
            Assign("price_eur", Binary(Operator.MULTIPLY, Attribute("price"), rate)),
            Assign("label", label),
            Drop("internal_id"),
        )
    )


EXAMPLES = [
    ("a", A),
    ("`a`", A),
    ("order.`line no`", Attribute("order.line no")),
    ("`case`", Attribute("case")),
    ("date", Attribute("date")),
    ("null", Null()),
    ("TRUE", Literal(Type(Name.BOOLEAN), True)),
    ("'it''s'", Literal(Type(Name.STRING), "it's")),
    ("-9223372036854775808", Literal(Type(Name.BIGINT), -(2**63))),
    ("9223372036854775808", Literal(Type(Name.DECIMAL, 19, 0), Decimal(2**63))),
    ("+1.50", Literal(Type(Name.DECIMAL, 3, 2), Decimal("1.50"))),
    ("1e0", Literal(Type(Name.DOUBLE), 1.0)),
    ("DATE '2026-01-31'", Literal(Type(Name.DATE), date(2026, 1, 31))),
    ("a + b * 1", Binary(Operator.ADD, A, Binary(Operator.MULTIPLY, B, ONE))),
    ("(a + b) * 1", Binary(Operator.MULTIPLY, Binary(Operator.ADD, A, B), ONE)),
    ("a - b - 1", Binary(Operator.SUBTRACT, Binary(Operator.SUBTRACT, A, B), ONE)),
    ("a-1", Binary(Operator.SUBTRACT, A, ONE)),
    ("a - -1", Binary(Operator.SUBTRACT, A, Literal(Type(Name.BIGINT), -1))),
    ("-a", Negative(A)),
    ("-(1)", Negative(ONE)),
    ("a || b || 'c'", Call("CONCAT", (A, B, Literal(Type(Name.STRING), "c")))),
    ("concat(a, b)", Call("CONCAT", (A, B))),
    ("a || b + 1", Call("CONCAT", (A, Binary(Operator.ADD, B, ONE)))),
    ("cast(a AS Decimal(5, 2))", Cast(A, Type(Name.DECIMAL, 5, 2))),
    ("cast(a AS decimal(5))", Cast(A, Type(Name.DECIMAL, 5, 0))),
    ("round(a, 2)", Call("ROUND", (A, Literal(Type(Name.BIGINT), 2)))),
    ("CASE WHEN a > -3 AND s LIKE 'x%' THEN b END", Case(((parse("a > -3 AND s LIKE 'x%'"), B),))),
    ("CASE WHEN a THEN b ELSE NULL END", Case(((parse("a"), B),), Null())),
    (
        "case when a then case when b then 1 end else 'THEN' end",
        Case(((parse("a"), Case(((parse("b"), ONE),))),), Literal(Type(Name.STRING), "THEN")),
    ),
    ("CASE WHEN `then` = 'then' THEN 1 END", Case(((parse("then = 'then'"), ONE),))),
]


@pytest.mark.parametrize(("text", "tree"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_texts_and_trees(text: str, tree: Expression) -> None:
    assert expression(text) == tree
    mapping = parse_mapping(f"`x y` = {text}, DROP `end`")
    assert parse_mapping(to_sql(mapping)) == mapping


def test_timestamps_without_a_zone_are_read_in_the_zone() -> None:
    vienna = timezone(timedelta(hours=1))
    (assignment,) = parse_mapping("x = TIMESTAMP '2026-01-31 10:00'", zone=vienna).assignments
    assert assignment == Assign("x", Literal(Type(Name.TIMESTAMP), datetime(2026, 1, 31, 9, tzinfo=UTC)))
    (assignment,) = parse_mapping("x = CASE WHEN at > TIMESTAMP '2026-01-31 10:00' THEN 1 END", zone=vienna).assignments
    assert assignment == Assign("x", Case(((parse("at > TIMESTAMP '2026-01-31 09:00Z'"), ONE),)))


REFUSED = [
    ("", 1, "the mapping is empty"),
    ("x", 2, "expected ="),
    ("x = ", 5, "expected an expression, found the end"),
    ("x = 1,", 7, "expected a name to set"),
    ("x = 1 y = 2", 7, "expected an operator, a comma or the end"),
    ("x = 1, X = 2, x = 3", 15, "x is set or dropped twice"),
    ("x = 1, DROP x", 8, "x is set or dropped twice"),
    ("drop = 1", 6, "expected a name to drop"),
    ("x = uper(a)", 5, "did you mean UPPER?"),
    ("x = reflect('java.lang.Runtime', 'exit')", 5, "no function reflect"),
    ("x = upper(a, b)", 5, "UPPER takes 1 arguments, found 2"),
    ("x = greatest(a)", 5, "GREATEST takes 2 or more arguments"),
    ("x = round(a, b)", 5, "ROUND's digits"),
    ("x = round(a, 19)", 5, "ROUND's digits"),
    ("x = cast(a as int)", 15, "did you mean bigint?"),
    ("x = cast(a as decimal)", 22, "the digits of the decimal"),
    ("x = cast(a as decimal(39, 1))", 23, "1 to 38"),
    ("x = cast(a as decimal(5, 6))", 26, "0 to 5"),
    ("x = a::int", 6, "casts are not allowed"),
    ("x = 1) OR (true", 6, "no ( is open"),
    ("x = (SELECT 1)", 13, "expected an operator or )"),
    ("x = a > 3", 7, "expected an operator, a comma or the end"),
    ("x = 1; DROP TABLE events", 6, "';' is not allowed"),
    ("x = 1 -- y", 7, "comments are not allowed"),
    ("x = 1 /* /* */ */", 7, "comments are not allowed"),
    ('x = "a"', 5, "double quotes are not allowed"),
    ("x = 'a", 5, "no closing quote"),
    ("x = case", 9, "expected WHEN"),
    ("x = CASE WHEN a = 1 THEN 2", 27, "END, found the end"),
    ("x = CASE WHEN a = 1", 20, "the condition has no THEN"),
    ("x = CASE WHEN a == 1 THEN 2 END", 17, "'==' is not an operator"),
    ("x = CASE WHEN a + 1 > 2 THEN 2 END", 17, ""),
    ("x = CASE WHEN UPPER(a) = 'A' THEN 2 END", 15, "no function UPPER here"),
    ("x = CASE WHEN THEN 2 END", 15, ""),
    ("x = end", 5, "END is reserved"),
    (f"x = 0.{'1' * 39}", 5, "at most 38"),
    (f"x = 0.{'0' * 39}1", 5, "at most 38"),
    ("x = 1e999", 5, "out of range"),
    ("x = DATE '2026-02-30'", 10, "not a date"),
    ("x = \ud800", 5, "half a character"),
]


@pytest.mark.parametrize(("text", "column", "message"), REFUSED, ids=[ascii(text)[:40] for text, _, _ in REFUSED])
def test_what_is_refused_and_where(text: str, column: int, message: str) -> None:
    with pytest.raises(MappingError) as refused:
        parse_mapping(text)
    assert refused.value.column == column, refused.value
    assert message in str(refused.value)


TOO_LARGE = [
    "x = " + "(" * 5000 + "a" + ")" * 5000,
    "x = " + "-".join(["a "] * 5000),
    "x = " + " + ".join(["a"] * 40),
    "x = " + " || ".join(["a"] * 40),
    "x = " + "- " * 100 + "a",
    "x = " + "TRIM(" * 11 + "a" + ")" * 11,
    f"x = CONCAT({', '.join('a' * 40)})",
    "x = " + "CASE WHEN a THEN " * 50 + "1" + " END" * 50,
    "x = CASE" + " WHEN a THEN 1" * 40 + " END",
    f"x = CASE WHEN {'NOT ' * 40} a THEN 1 END",
    f"x = CASE WHEN {' OR '.join(f'a = {n}' for n in range(600))} THEN 1 END",
    f"x = CASE WHEN a IN ({', '.join(map(str, range(101)))}) THEN 1 END",
    ", ".join(f"x{n} = 1" for n in range(257)),
    "x = '" + "a" * 20000 + "'",
    f"x = {'9' * 20000}",
]


@pytest.mark.parametrize("text", TOO_LARGE, ids=[text[:30] for text in TOO_LARGE])
def test_what_is_too_large(text: str) -> None:
    with pytest.raises(MappingTooLarge):
        parse_mapping(text)


def test_limits_can_be_set_and_are_checked() -> None:
    parse_mapping(" , ".join(f"x{n} = 1" for n in range(300)), limits=Limits(assignments=300, nodes=1000))
    with pytest.raises(MappingTooLarge):
        parse_mapping("x = 1, y = 2", limits=Limits(assignments=1))
    with pytest.raises(ConfigError):
        Limits(depth=65)
    with pytest.raises(ConfigError):
        Limits(nodes=0)


def test_a_mapping_is_text() -> None:
    with pytest.raises(MappingError, match="not int"):
        parse_mapping(5)  # type: ignore[arg-type]


_WORDS = [
    "x",
    "a",
    "=",
    "=",
    ",",
    "(",
    ")",
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "'s'",
    "1",
    "0.5",
    "1e3",
    "-1",
    "NULL",
    "DROP",
]
_WORDS += [
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "CAST",
    "AS",
    "bigint",
    "decimal",
    "UPPER",
    "COALESCE",
    "ROUND",
    "a > 1",
]
_WORDS += ["TRUE", "`b c`", "a.b", "DATE", "'2026-01-31'", "--", "/*", ";", '"', "'", "`", "NOT", "IN", "\x00", "😀"]


@given(
    st.one_of(
        st.text(),
        st.lists(st.sampled_from(_WORDS), max_size=25).map(" ".join),
        st.lists(st.sampled_from(_WORDS)).map("".join),
    )
)
def test_any_text_gives_a_mapping_or_the_error(text: str) -> None:
    for candidate in (text, f"x = {text}"):
        try:
            mapping = parse_mapping(candidate)
        except MappingError as error:
            assert isinstance(error, RoutingError) and 1 <= error.column <= len(candidate) + 1
        else:
            assert parse_mapping(to_sql(mapping), limits=Limits(text_bytes=10**6, depth=64)) == mapping
