"""Compiled columns against the reference: random mappings on rows of edge values, hundreds of them in one select.

Values are the same, doubles bit for bit; types are the same up to SPEC §2's one domain of numbers, with integers,
decimals and doubles told apart; and a mapping fails in a row iff the reference does.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.errors import MappingFailed, MappingTooLarge
from routing.filters import Filter
from routing.filters import to_sql as filter_sql
from routing.filters.ast import (
    Comparison,
    Constant,
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
from routing.filters.like import like_filter, text_filter
from routing.mappings import Limits, Mapping, apply, parse_mapping, to_sql
from routing.mappings.columns import Compiled, compile_mapping
from tests.strategies import DATES, DECIMALS, INTEGERS, LITERALS, STRINGS, TIMESTAMPS
from tests.strategies import DOUBLES as EVERY_DOUBLE

DOUBLES = [double for double in EVERY_DOUBLE if double != 1e23]  # Java 17 prints it with 16 digits (JDK-4511638)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONGEST = 12  # so that texts become too long
WIDE = [Decimal(t) for t in ("0", "1", "-1", "0.5", "1.000000000000000001", "-9999999999999999999.999999999999999999")]
WIDE += [Decimal(t) for t in ("3162277660.168379331998893544", "0.000000000000000001", "123456789.123456789123456789")]
HUGE = [Decimal(t) for t in ("0", "7", "-7", "9" * 38, "9" * 19, "-" + "1" + "0" * 19, "9007199254740993", str(2**63))]
FINE = [Decimal(t) for t in ("0", "0.1", "-0.123456789012345678500000000000", "0.0000000000000000005", "12345678.5")]
TEXTS = [
    *STRINGS,
    *("  a ", "ab ab", "straße", "ΑΣ", "😀😀", "12345678901", "true", "FALSE", "5.50", "-7", "1e3", "1e400", ".5"),
    *(" 5", "5 ", "NaN", "Infinity", "t", "1", "9223372036854775807", "9223372036854775808", "0x1F", "5d", "1_0"),
    *("2026-01-31", "2026-02-30", "0000-01-01", "2026-1-1", "2026-01-31T10:00:00.5Z", "2026-01-31 10:00"),
    *("0001-01-01 00:00:00+18:00", "2026-01-31 10:00:00+18:30", "2026-01-31 10:00:00 Europe/Vienna", "now", "0" * 101),
    *("12345678901234567890123456789012345678.5", "5\n", "٣"),
]
FLOATS = [0.0, -0.0, 1.5, 0.10000000149011612, float("nan"), float("inf"), -16777216.0]

# attribute: its columns, each with the values to choose from
SOURCE: dict[str, list[tuple[str, T.DataType, list[Any]]]] = {
    "s1": [("s1", T.StringType(), TEXTS)],
    "s2": [("s2", T.StringType(), TEXTS)],
    "b1": [("b1", T.BooleanType(), [True, False])],
    "i1": [("i1", T.LongType(), INTEGERS)],
    "i2": [("i2", T.IntegerType(), [0, 1, 2, -1, 7, 2**31 - 1, -(2**31)])],
    "d1": [("d1", T.DoubleType(), DOUBLES)],
    "d2": [("d2", T.DoubleType(), [*DOUBLES, 2.5, -2.5, 0.05, 2.0**53 + 2, -(2.0**63), 1.8446744073709552e19])],
    "f1": [("f1", T.FloatType(), FLOATS)],
    "m1": [("m1", T.DecimalType(20, 4), DECIMALS)],
    "m2": [("m2", T.DecimalType(37, 18), WIDE)],
    "m3": [("m3", T.DecimalType(38, 0), HUGE)],
    "m4": [("m4", T.DecimalType(38, 30), FINE)],
    "day": [("day", T.DateType(), DATES)],
    "at": [("at", T.TimestampType(), TIMESTAMPS)],
    "v": [
        ("v_i", T.LongType(), INTEGERS),
        ("v_d", T.DoubleType(), DOUBLES),
        ("v_m", T.DecimalType(20, 4), DECIMALS),
        ("v_n", T.DecimalType(38, 30), FINE),
        ("v_s", T.StringType(), TEXTS),
        ("v_b", T.BooleanType(), [True, False]),
        ("v_t", T.TimestampType(), TIMESTAMPS),
    ],
}
TYPES = ["string", "boolean", "bigint", "double", "decimal(10, 2)", "decimal(38, 18)", "date", "timestamp"]
KINDS = {"s1": Kind.STRING, "s2": Kind.STRING, "b1": Kind.BOOLEAN, "day": Kind.DATE, "at": Kind.TIMESTAMP}
KINDS |= dict.fromkeys(["i1", "i2", "d1", "d2", "f1", "m1", "m2", "m3", "m4"], Kind.NUMBER)
NUMERIC, TEXTUAL = ("i1", "i2", "d1", "d2", "f1", "m1", "m2", "m3", "m4", "v", "gone"), ("s1", "s2", "v", "gone")


def rows(draw: random.Random, number: int) -> Iterator[dict[str, Any]]:
    for _ in range(number):
        row: dict[str, Any] = {}
        for columns in SOURCE.values():
            chosen = draw.randrange(len(columns)) if draw.random() < 0.9 else None
            for place, (column, _, values) in enumerate(columns):
                row[column] = draw.choice(values) if place == chosen else None
        yield row


def event(row: dict[str, Any]) -> dict[str, Any]:
    found = {
        name: next((row[c] for c, _, _ in columns if row[c] is not None), None) for name, columns in SOURCE.items()
    }
    return {name: value for name, value in found.items() if value is not None}


def frame(spark: SparkSession, content: list[dict[str, Any]]) -> DataFrame:
    columns = [(name, type) for columns in SOURCE.values() for name, type, _ in columns]
    stored = [T.StructField("n", T.IntegerType())]
    stored += [T.StructField(name, T.LongType() if type == T.TimestampType() else type) for name, type in columns]
    data = [(n, *(micros(row[name]) for name, _ in columns)) for n, row in enumerate(content)]
    back = [
        F.timestamp_micros(name).alias(name) if type == T.TimestampType() else F.col(name) for name, type in columns
    ]
    return spark.createDataFrame(data, T.StructType(stored)).repartition(1).select("n", *back)


def micros(value: Any) -> Any:
    return (value - EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


# Random texts of mappings.


def text(draw: random.Random, depth: int) -> str:
    if draw.random() < 0.04:
        return number(draw, depth)  # a wrong type
    if depth == 0 or draw.random() < 0.2:
        return draw.choice([*TEXTUAL, "'a'", "'é'", "''", "'😀b'", "'true'", "' 5.5 '", "NULL"])
    inner = [text(draw, depth - 1) for _ in range(3)]
    places = [draw.choice(["0", "1", "2", "-1", "-3", "i1", "i2", "9223372036854775807"]) for _ in range(2)]
    return draw.choice(
        [
            *(f"{function}({inner[0]})" for function in ("UPPER", "LOWER", "TRIM", "LTRIM", "RTRIM")),
            f"{inner[0]} || {inner[1]}",
            f"CONCAT({', '.join(inner)})",
            f"SUBSTRING({inner[0]}, {places[0]})",
            f"SUBSTRING({inner[0]}, {places[0]}, {places[1]})",
            f"REPLACE({inner[0]}, {inner[1]}, {inner[2]})",
            f"CAST({anything(draw, depth - 1)} AS string)",
            either(draw, inner),
        ]
    )


def number(draw: random.Random, depth: int) -> str:
    if draw.random() < 0.04:
        return draw.choice(["'a'", "b1", "day", "s1"])
    if depth == 0 or draw.random() < 0.2:
        literals = ["0", "1", "-3", "2", "0.92", "1.50", "1e0", "2.5e-3", "9223372036854775807", "-9223372036854775808"]
        return draw.choice([*NUMERIC, *NUMERIC, *literals, "99999999999999999999", f"0.{'1' * 30}", "NULL"])
    inner = [number(draw, depth - 1) for _ in range(3)]
    return draw.choice(
        [
            *(f"({inner[0]} {operator} {inner[1]})" for operator in "+-*/%"),
            f"({inner[0]} {draw.choice('+-*')} {inner[1]})",
            f"-({inner[0]})",
            *(f"{function}({inner[0]})" for function in ("ABS", "ROUND", "FLOOR", "CEIL")),
            f"ROUND({inner[0]}, {draw.randrange(19)})",
            f"LENGTH({text(draw, depth - 1)})",
            f"CAST({anything(draw, depth - 1)} AS {draw.choice(TYPES[2:6])})",
            either(draw, inner),
        ]
    )


def anything(draw: random.Random, depth: int) -> str:
    kind = draw.random()
    if kind < 0.4:
        return number(draw, depth)
    if kind < 0.7:
        return text(draw, depth)
    if depth and kind < 0.8:
        return f"CAST({anything(draw, depth - 1)} AS {draw.choice(TYPES)})"
    if depth and kind < 0.9:
        return either(draw, [anything(draw, depth - 1) for _ in range(3)])
    plain = ["TRUE", "b1", "day", "at", "v", "gone", "DATE '2026-01-31'", "TIMESTAMP '0001-01-01 00:00:00Z'", "NULL"]
    return draw.choice(plain)


def either(draw: random.Random, inner: list[str]) -> str:
    a, b, c = inner
    forms = [f"COALESCE({a}, {b}, {c})", f"NULLIF({a}, {b})", f"GREATEST({a}, {b}, {c})", f"LEAST({a}, {b})"]
    when = f"CASE WHEN {condition(draw)} THEN {a} WHEN {condition(draw)} THEN {b}"
    return draw.choice([*forms, f"{when} END", f"{when} ELSE {c} END"])


def condition(draw: random.Random) -> str:
    return filter_sql(tree(draw, draw.choice([0, 0, 1, 2])))


def tree(draw: random.Random, depth: int) -> Filter:
    if depth == 0:
        return leaf(draw)
    inner = [tree(draw, depth - 1) for _ in range(draw.choice([2, 3]))]
    return draw.choice([Not(inner[0]), conjunction(inner), disjunction(inner)])


def leaf(draw: random.Random) -> Filter:
    name = draw.choice([*SOURCE, "gone"])
    text = draw.choice(TEXTS)
    pattern = "".join(draw.choices(["a", "b", "é", "😀", "'", "%", "%", "_", r"\%", r"\_", r"\\"], k=draw.randrange(6)))
    return draw.choice(
        [
            Comparison(name, draw.choice(list(Operator)), literal(draw, name)),
            Comparison(name, draw.choice(list(Operator)), literal(draw, name)),
            In(name, tuple(dict.fromkeys(literal(draw, name) for _ in range(3)))),
            text_filter(draw.choice(TEXTUAL), draw.choice([Text.PREFIX, Text.SUFFIX, Text.SUBSTRING]), text),
            like_filter(draw.choice(TEXTUAL), pattern),
            IsNull(name),
            Constant(draw.random() < 0.5),
        ]
    )


def literal(draw: random.Random, name: str) -> Literal:
    kind = draw.choice(list(Kind)) if draw.random() < 0.1 or name not in KINDS else KINDS[name]
    return draw.choice(LITERALS[kind])


def mapping(draw: random.Random) -> Mapping:
    expression = draw.choice([text, number, number, anything])
    return parse_mapping(f"x = {expression(draw, draw.choice([1, 1, 2, 3]))}")


# The comparison.


def result(compiled: Compiled) -> Column:
    """Everything that a compiled mapping says, timestamps as microseconds."""
    values = [
        (F.unix_micros(column) if type == T.TimestampType() else column).alias(f"c{place}")
        for place, (column, type) in enumerate(compiled.values["x"])
    ]
    return F.struct(compiled.failure.alias("failure"), *values)


def expected(tree: Mapping, content: dict[str, Any]) -> Any:
    try:
        return image(apply(tree, content, longest=LONGEST).get("x"))
    except MappingFailed:
        return "failed"


def found(row: Row, compiled: Compiled) -> Any:
    if row["failure"] is not None:
        return "failed"
    values = [(row[f"c{n}"], type) for n, (_, type) in enumerate(compiled.values["x"])]
    present = [(value, type) for value, type in values if value is not None]
    assert len(present) <= 1, present
    for value, type in present:
        if type == T.TimestampType():
            return ("timestamp", value)
        return image(value)
    return None


def image(value: Any) -> Any:
    """Equal images for equal values of one type."""
    match value:
        case bool() | str() | int():
            return (type(value).__name__, value)
        case float():
            return ("float", "NaN" if value != value else struct.pack(">d", value))
        case Decimal():
            return ("decimal", value)
        case datetime():
            return ("timestamp", micros(value))
        case _:
            return value


def check(spark: SparkSession, trees: list[Mapping], content: list[dict[str, Any]]) -> dict[str, int]:
    attributes = {name: [(F.col(c), type) for c, type, _ in columns] for name, columns in SOURCE.items()}
    compiled = [compile_mapping(tree, attributes, longest=LONGEST) for tree in trees]
    table = frame(spark, content).select("n", *(result(made).alias(f"r{n}") for n, made in enumerate(compiled)))
    counts = {"failed": 0, "absent": 0, "values": 0}
    for row in table.collect():
        seen = event(content[row["n"]])
        for n, (tree, made) in enumerate(zip(trees, compiled, strict=True)):
            want, got = expected(tree, seen), found(row[f"r{n}"], made)
            assert want == got, f"{to_sql(tree)}\n of {seen}\n is {got}, should be {want}"
            counts["failed" if want == "failed" else "absent" if want is None else "values"] += 1
    return counts


@pytest.fixture(scope="module", params=["CODEGEN_ONLY", "NO_CODEGEN"])
def mode(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Both of Spark's evaluators: the one that compiles, and the one that interprets."""
    settings = {"spark.sql.codegen.factoryMode": request.param, "spark.sql.ansi.enabled": "true"}
    settings["spark.sql.codegen.wholeStage"] = "false"
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield request.param
    for key, old in before.items():
        spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def test_columns_are_the_reference(spark: SparkSession, mode: str) -> None:
    draw = random.Random(f"mappings {mode}")
    number = 12 if mode == "CODEGEN_ONLY" else 80
    counts = check(spark, [mapping(draw) for _ in range(number)], list(rows(draw, 120)))
    assert min(counts.values()) > sum(counts.values()) / 20, counts


def test_conditions_are_filters(spark: SparkSession, mode: str) -> None:
    draw = random.Random(f"conditions {mode}")
    number = 8 if mode == "CODEGEN_ONLY" else 60
    texts = [f"x = CASE WHEN {(c := condition(draw))} THEN 1 WHEN NOT ({c}) THEN 0 END" for _ in range(number)]
    check(spark, [parse_mapping(text) for text in texts], list(rows(draw, 120)))


def test_nested_calls_cost_a_sum(spark: SparkSession) -> None:
    chain = "s"
    for number in range(12):
        chain = f"REPLACE({chain}, '{number}', 'ab')"
    tree = parse_mapping(f"x = {chain}", limits=Limits(calls=12))
    made = compile_mapping(tree, {"s": [(F.col("s"), T.StringType())]})
    row = spark.createDataFrame([("0-1",)], "s string").select(result(made).alias("r")).first()
    assert row is not None and row["r"]["c0"] == "ab-ab"


def test_types_that_multiply_are_refused(spark: SparkSession) -> None:
    attributes = {"v": [(F.col(c), type) for c, type, _ in SOURCE["v"]]}
    compile_mapping(parse_mapping("x = v * v + v"), attributes)
    with pytest.raises(MappingTooLarge, match="too many types"):
        compile_mapping(parse_mapping(f"x = {' + '.join('v' * 25)}"), attributes)


def test_like_does_not_go_back(spark: SparkSession) -> None:
    tree = parse_mapping(f"x = CASE WHEN s LIKE '{'%a' * 20}%b' THEN 1 ELSE 0 END")
    made = compile_mapping(tree, {"s": [(F.col("s"), T.StringType())]})
    row = spark.createDataFrame([("a" * 20_000,)], "s string").select(result(made).alias("r")).first()
    assert row is not None and row["r"]["c0"] == 0


def test_a_drop_has_no_columns_and_never_fails(spark: SparkSession) -> None:
    made = compile_mapping(parse_mapping("DROP a, b = a"), {"a": [(F.lit(1), T.IntegerType())]})
    assert made.values["a"] == [] and [type for _, type in made.values["b"]] == [T.LongType()]
    assert spark.range(1).select(made.failure).collect()[0][0] is None
