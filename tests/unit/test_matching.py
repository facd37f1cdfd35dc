"""The matcher by examples: what each type, layout and argument does."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from routing.errors import FilterError
from routing.filters import Limits, parse
from routing.matching import Program, compile_program
from udfs import kernel
from udfs.columns import read, slots


def found(column: pa.Array, *filters: str) -> list[list[int]]:
    """For each filter on `x` the rows of the column that it matches."""
    batch = pa.record_batch({"x": column})
    program = compile_program([(text, text) for text in filters], batch.schema)
    rows: list[list[int]] = [[] for _ in filters]
    for row, positions in enumerate(program.match(batch).to_pylist()):
        for position in positions:
            rows[position].append(row)
    return rows


def rows(column: pa.Array, filter: str) -> list[int]:
    return found(column, filter)[0]


def test_siena_table_3() -> None:
    filters = ["what = 'alarm'", "what = 'alarm' AND level > 3", "what = 'alarm' AND level > 3 AND level < 7"]
    batch = pa.record_batch({"what": ["alarm"] * 3, "level": pa.array([None, 10, 5])})
    assert compile_program(zip("abc", filters, strict=True), batch.schema).match(batch).to_pylist() == [
        [0],
        [0, 1],
        [0, 1, 2],
    ]


def test_absence_is_matched_by_is_null_only() -> None:
    x = pa.array([None, 1])
    assert found(x, "x < 5", "NOT (x < 5)", "x <> 5", "x IS NULL", "NOT (x < 0 AND y = 1)") == [[1], [], [1], [0], [1]]
    assert found(x, "y = 1", "y <> 1", "y IS NULL", "y IS NOT NULL", "NOT y LIKE 'a_b'") == [[], [], [0, 1], [], []]


def test_constants() -> None:
    assert found(pa.array([None, 1]), "TRUE", "FALSE", "NOT TRUE", "x = 1 OR TRUE") == [[0, 1], [], [], [0, 1]]


INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]


@pytest.mark.parametrize("type", INTEGERS, ids=str)
def test_integers_of_every_width(type: pa.DataType) -> None:
    x = pa.array([0, 1, 2, 3, None, 127], type)
    assert found(x, "x < 2.5", "x >= 2.5", "x = 2.5", "x <> 2.5") == [[0, 1, 2], [3, 5], [], [0, 1, 2, 3, 5]]
    assert found(x, "x = 2.0", "x <= 1e0", "x IN (0, 3, 9.5)", "x NOT IN (0, 3)") == [[2], [0, 1], [0, 3], [1, 2, 5]]
    beyond = "99999999999999999999"
    assert found(x, f"x < {beyond}", f"x > -{beyond}", f"x <> {beyond}") == [[0, 1, 2, 3, 5]] * 3
    assert found(x, f"x > {beyond}", f"x < -{beyond}", f"x = {beyond}", f"x IN ({beyond})") == [[]] * 4


def test_integers_beyond_the_precision_of_doubles() -> None:
    x = pa.array([2**53, 2**53 + 1, 2**63 - 1, -(2**63)])
    assert rows(x, "x = 9007199254740993") == [1]
    assert found(x, "x >= 9223372036854775807", "x > 9223372036854775807", "x < 9223372036854775808") == [
        [2],
        [],
        [0, 1, 2, 3],
    ]
    assert found(x, "x <= -9223372036854775808", "x < -9223372036854775808") == [[3], []]
    unsigned = pa.array([2**64 - 1, 2**63, 0], pa.uint64())
    assert found(unsigned, "x > 9223372036854775808", "x = 18446744073709551615", "x >= -1") == [[0], [0], [0, 1, 2]]


def test_a_double_stands_for_the_number_it_prints_as() -> None:
    x = pa.array([0.1, 0.1 + 0.2, 0.3, -0.0, float("nan"), float("inf"), None, 1e23])
    assert found(x, "x = 0.1", "x = 0.3", "x > 0.3", "x = 0") == [[0], [2], [1, 5, 7], [3]]
    assert found(x, "x <> 0", "NOT x <> 0", "x IN (0.3, 0)") == [[0, 1, 2, 5, 7], [3], [2, 3]]
    assert found(x, "x = 1e23", "x = 100000000000000000000000", "x > 99999999999999999999999999999999999999") == [
        [7],
        [],
        [5],
    ]
    assert found(x, "x IS NULL", "x IS NOT NULL") == [[6], [0, 1, 2, 3, 4, 5, 7]]


def test_floats_widen_to_doubles() -> None:
    x = pa.array([np.float32(0.1), np.float32(0.5)], pa.float32())
    assert found(x, "x = 0.1", "x > 0.1", "x = 0.5", "x = 0.10000000149011612") == [[], [0, 1], [1], [0]]
    half = pa.array([np.float16(0.5), None], pa.float16())
    assert found(half, "x = 0.5", "x < 1") == [[0], [0]]


DECIMALS = [pa.decimal32(5, 2), pa.decimal64(15, 2), pa.decimal128(10, 2), pa.decimal128(38, 2)]
DECIMALS += [pa.decimal256(10, 2), pa.decimal256(76, 2)]


@pytest.mark.parametrize("type", DECIMALS, ids=str)
def test_decimals_compare_at_their_own_scale(type: pa.DataType) -> None:
    x = pa.array([Decimal("-1.25"), None, Decimal("0.10"), Decimal("1.25"), Decimal("1.26")], type)
    assert found(x, "x = 1.25", "x = 1.250", "x = 1.255", "x <> 1.255") == [[3], [3], [], [0, 2, 3, 4]]
    assert found(x, "x < 1.255", "x > 1.255", "x <= -1.25", "x >= 0.1") == [[0, 2, 3], [4], [0], [2, 3, 4]]
    assert found(x, "x IN (0.1, 1.26, 7)", "x NOT IN (0.1, 1.26)", "x IS NULL") == [[2, 4], [0, 3], [1]]
    assert found(x.slice(2), "x > 1.25", "x = 0.1") == [[2], [0]]


def test_wide_decimals_use_all_their_words() -> None:
    numbers = [Decimal(2**64), Decimal(2**64 + 1), Decimal(-(2**64)), Decimal(-1), Decimal(0), None]
    x = pa.array(numbers, pa.decimal128(38, 0))
    assert found(x, f"x > {2**64}", f"x = {2**64}", f"x < {-(2**64) + 1}", "x < 0") == [[1], [0], [2], [2, 3]]
    assert rows(x, "x < 99999999999999999999999999999999999999") == [0, 1, 2, 3, 4]


def test_a_decimal_of_nineteen_digits_is_wide() -> None:
    x = pa.array([Decimal(10**19 - 1), Decimal(1 - 10**19), Decimal(5)], pa.decimal128(19, 0))
    assert found(x, "x > 5", "x < 5", f"x = {10**19 - 1}") == [[0], [1], [0]]


def test_booleans_order_false_before_true() -> None:
    x = pa.array([True, False, None])
    assert found(x, "x", "NOT x", "x < TRUE", "x >= FALSE", "x > TRUE") == [[0], [1], [1], [0, 1], []]


@pytest.mark.parametrize("type", [pa.date32(), pa.date64()], ids=str)
def test_dates(type: pa.DataType) -> None:
    x = pa.array([date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), None, date(9999, 12, 31)], type)
    assert found(x, "x < DATE '1970-01-01'", "x = DATE '0001-01-01'", "x > DATE '1970-01-01'") == [[0, 1], [0], [4]]
    assert found(x, "x < TIMESTAMP '1970-01-01 00:00:00Z'", "x > 3") == [[], []]


def test_date64_within_a_day_is_that_day() -> None:
    x = pa.array([-1, 1], pa.int64()).view(pa.date64())
    assert found(x, "x = DATE '1969-12-31'", "x = DATE '1970-01-01'") == [[0], [1]]


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_are_instants(unit: str, zone: str | None) -> None:
    x = pa.array([datetime(1969, 12, 31, 23, 59, 59), datetime(1970, 1, 1), None], pa.timestamp(unit))
    x = x.view(pa.timestamp(unit, zone))
    assert found(x, "x < TIMESTAMP '1970-01-01 00:00:00Z'", "x = TIMESTAMP '1970-01-01 01:00:00+01:00'") == [[0], [1]]
    assert found(x, "x > TIMESTAMP '1969-12-31 23:59:59.5Z'", "x = TIMESTAMP '1969-12-31 23:59:59.5Z'") == [[1], []]


def test_nanoseconds_are_not_rounded() -> None:
    x = pa.array([1_000, 1_001, 999], pa.int64()).view(pa.timestamp("ns", "UTC"))
    microsecond = "TIMESTAMP '1970-01-01 00:00:00.000001Z'"
    assert found(x, f"x = {microsecond}", f"x > {microsecond}", f"x < {microsecond}") == [[0], [1], [2]]
    assert found(x, "x < TIMESTAMP '9999-01-01'", "x > TIMESTAMP '0001-01-01'") == [[0, 1, 2]] * 2


STRINGS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
STRINGS += [pa.dictionary(pa.int32(), pa.large_string())]


@pytest.mark.parametrize("type", STRINGS, ids=str)
def test_strings_of_every_layout(type: pa.DataType) -> None:
    x = pa.array(["", "a", None, "ab", "b", "\uffff", "😀", "a\nb"]).cast(type)
    assert found(x, "x = 'a'", "x <> 'a'", "x = ''", "x IN ('b', '', 'z')") == [[1], [0, 3, 4, 5, 6, 7], [0], [0, 4]]
    assert found(x, "x < 'a'", "x <= 'a'", "x > 'b'", "x >= 'b'") == [[0], [0, 1], [5, 6], [4, 5, 6]]
    assert found(x, "x > '\uffff'", "x LIKE '%'", "x NOT LIKE 'a%'") == [[6], [0, 1, 3, 4, 5, 6, 7], [0, 4, 5, 6]]
    assert found(x, "ENDSWITH(x, 'b')", "CONTAINS(x, 'a')", "x LIKE '_'") == [[3, 4, 7], [1, 3, 7], [1, 4, 5, 6]]
    assert found(x, "x LIKE 'a_b'", "x LIKE 'a%_b'", "x NOT LIKE '_'") == [[7], [7], [0, 3, 7]]
    assert found(x.slice(3, 2), "x = 'b'", "x LIKE 'a_'", "x IS NULL") == [[1], [0], []]


def test_prefix_suffix_and_substring_look_in_their_place() -> None:
    x = pa.array(["abc", "bca", "cab", "ABC", "", None])
    assert found(x, "STARTSWITH(x, 'ab')", "ENDSWITH(x, 'ab')", "CONTAINS(x, 'ab')") == [[0], [2], [0, 2]]
    assert found(x, "x NOT LIKE 'ab%'", "x NOT LIKE '%ab'", "x NOT LIKE '%ab%'") == [
        [1, 2, 3, 4],
        [0, 1, 3, 4],
        [1, 3, 4],
    ]


def test_like_quotes_everything_that_is_no_wildcard() -> None:
    x = pa.array(["a.c", "abc", "a\\c", "a%c", "a_c", "a\0c", "a\nc", r"\Aa(c)*$"])
    assert found(x, "x LIKE '_.c'", r"x LIKE '_\\c'", r"x LIKE '_\%c'", r"x LIKE '_\_c'") == [[0], [2], [3], [4]]
    assert found(x, "x LIKE '_\0c'", "x LIKE '_\nc'", r"x LIKE '\\_a(c)*$'") == [[5], [6], [7]]


@pytest.mark.parametrize("piece", ["_", "%_", "%a", "é_", "_\\%"])
def test_like_patterns_of_four_kilobytes(piece: str) -> None:
    pattern = (piece * 4000)[: 4000 // len(piece.encode()) * len(piece)]
    text = pattern.replace("\\", "").replace("%", "").replace("_", "é")
    assert rows(pa.array([text, text[1:], text + "é"]), f"x LIKE '{pattern}'")[:1] == ([0] if piece != "_\\%" else [])
    assert 1 not in rows(pa.array([text, text[1:]]), f"x LIKE '{pattern}'")


def test_a_like_pattern_of_any_length_is_matched() -> None:
    pattern = "%é_" * 40_000
    schema = pa.schema({"x": pa.string()})
    program = compile_program([("s-1", f"x LIKE '{pattern}'")], schema, limits=Limits(10**7))
    assert program.match(pa.record_batch({"x": ["éa" * 40_000, "éa" * 39_999]})).to_pylist() == [[0], []]


def test_a_literal_of_another_kind_never_matches() -> None:
    columns = [
        pa.array([1]),
        pa.array(["1"]),
        pa.array([True]),
        pa.array([date(2026, 1, 1)]),
        pa.array([datetime(2026, 1, 1)]),
    ]
    literals = ["1", "'1'", "TRUE", "DATE '2026-01-01'", "TIMESTAMP '2026-01-01'"]
    for column in columns:
        equal = [rows(column, f"x = {literal}") for literal in literals]
        unequal = [rows(column, f"x <> {literal}") for literal in literals]
        assert equal.count([0]) == 1
        assert unequal == [[]] * 5
    assert found(pa.array([1, 2]), "x NOT IN (1, 'a')", "x IN (1, 'a')") == [[], [0]]


OPAQUE = [
    pa.array([[1], None]),
    pa.array([b"a", None]),
    pa.array([{"a": 1}, None]),
    pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
    pa.array([5, None], pa.time64("us")),
]


@pytest.mark.parametrize("x", OPAQUE, ids=lambda x: str(x.type))
def test_a_type_without_a_kind_is_null_or_not(x: pa.Array) -> None:
    assert found(x, "x IS NULL", "x ANY", "x = 1", "x <> 1", "x = 'a'", "x LIKE '%'") == [[1], [0], [], [], [], []]


def test_a_null_column_is_all_null() -> None:
    assert found(pa.nulls(2), "x IS NULL", "x ANY", "x = 1", "NOT x = 1") == [[0, 1], [], [], []]


def test_storage_layers_do_not_matter() -> None:
    import pyarrow.compute as pc

    dictionary = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2]), pa.array(["a", None, "b"]))
    assert found(dictionary, "x = 'a'", "x <> 'a'", "x IS NULL") == [[0], [3], [1, 2]]
    assert found(dictionary.slice(1, 3), "x = 'b'", "x IS NULL") == [[2], [0, 1]]
    nothing = pa.DictionaryArray.from_arrays(pa.array([None, None], pa.int8()), pa.array([], pa.string()))
    assert found(nothing, "x = 'a'", "x <> 'a'", "x IS NULL") == [[], [], [0, 1]]
    numbers = pa.array([7, None, 8]).dictionary_encode()
    assert found(numbers, "x = 7", "x > 7", "x IS NULL") == [[0], [2], [1]]
    assert found(pc.run_end_encode(pa.array([7, 7, None])), "x = 7", "x IS NULL") == [[0, 1], [2]]


def test_a_dictionary_may_stand_for_more_than_an_array_of_strings_holds() -> None:
    texts = pa.array(["x" * (1 << 24), "a", "y" * (1 << 24)])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 70 + [1, None] + [2] * 70), texts)
    assert found(column, "x = 'a'", "x > 'xx'", "x IS NULL") == [[70], [*range(70), *range(72, 142)], [71]]
    assert read(column, slots(0, pa.field("x", column.type))[0]).data.nbytes < 1 << 26  # type: ignore[union-attr]


ANY_TYPES = {
    "integer": pa.int64(),
    "double": pa.float64(),
    "decimal": pa.string(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "other": pa.bool_(),
}
ANY = pa.struct(list(ANY_TYPES.items()))


def any_batch(values: list[dict[str, object] | None]) -> pa.RecordBatch:
    field = pa.field("x", ANY, metadata={b"sluice": b"any"})
    return pa.RecordBatch.from_arrays([pa.array(values, ANY)], schema=pa.schema([field]))


def test_an_any_typed_attribute_meets_the_literal_of_its_value() -> None:
    batch = any_batch(
        [
            {"integer": 5},
            {"double": 5.0},
            {"decimal": "5.00"},
            {"string": "5"},
            {"boolean": True},
            {"date": date(2026, 1, 1)},
            {"timestamp": datetime(2026, 1, 1, tzinfo=UTC)},
            {"other": True},
            {},
            None,
            {"double": float("nan")},
            {"decimal": "-99999999999999999999999999999999999999"},
        ]
    )
    expected = {
        "x = 5": [0, 1, 2],
        "x <> 5": [11],
        "x <> 6": [0, 1, 2, 11],
        "x < 5.000000000000000000000001": [0, 1, 2, 11],
        "x IN (5, '5', 7)": [0, 1, 2, 3],
        "x NOT IN (1, 2)": [0, 1, 2, 11],
        "x = '5'": [3],
        "x NOT LIKE '6%'": [3],
        "x LIKE '_'": [3],
        "x": [4],
        "x > DATE '2025-01-01'": [5],
        "x > TIMESTAMP '2025-01-01'": [6],
        "x IS NULL": [8, 9],
        "x ANY": [0, 1, 2, 3, 4, 5, 6, 7, 10, 11],
    }
    program = compile_program([(text, text) for text in expected], batch.schema)
    for start in (0, 3):
        matched = program.match(batch.slice(start)).to_pylist()
        for position, (text, rows) in enumerate(expected.items()):
            assert [row + start for row, some in enumerate(matched) if position in some] == [
                row for row in rows if row >= start
            ], text


@pytest.mark.parametrize("text", STRINGS, ids=str)
def test_the_texts_of_an_any_typed_attribute_may_have_any_layout(text: pa.DataType) -> None:
    children = [pa.array(["0.10", None]).cast(text), pa.array([None, "a"]).cast(text)]
    struct = pa.StructArray.from_arrays(children, names=["decimal", "string"])
    schema = pa.schema([pa.field("x", struct.type, metadata={b"sluice": b"any"})])
    program = compile_program([("a", "x = 0.1"), ("b", "x = 'a'"), ("c", "x < 0.11"), ("d", "x = TRUE")], schema)
    assert program.match(pa.RecordBatch.from_arrays([struct], schema=schema)).to_pylist() == [[0, 2], [1]]


def test_a_value_under_a_null_struct_is_absent() -> None:
    struct = pa.StructArray.from_arrays(
        [pa.array([1, 1]), *(pa.nulls(2, type) for name, type in ANY_TYPES.items() if name != "integer")],
        names=list(ANY_TYPES),
        mask=pa.array([True, False]),
    )
    schema = pa.schema([pa.field("x", ANY, metadata={b"sluice": b"any"})])
    program = compile_program([("a", "x = 1"), ("b", "x IS NULL"), ("c", "x ANY")], schema)
    assert program.match(pa.RecordBatch.from_arrays([struct], schema=schema)).to_pylist() == [[1], [0, 2]]


def test_only_referenced_columns_are_asked_for_in_schema_order_and_found_by_name() -> None:
    schema = pa.schema({"a": pa.int64(), "b": pa.int64(), "c": pa.string()})
    program = compile_program([("s", "c = 'x' AND a = 1 AND zzz IS NULL")], schema)
    assert program.columns == ("a", "c")
    assert program.match(pa.record_batch({"c": ["x"], "more": [0], "a": [1]})).to_pylist() == [[0]]
    with pytest.raises(KeyError, match="'a'"):
        program.match(pa.record_batch({"c": ["x"]}))
    with pytest.raises(TypeError, match="column 'a': expected a column of integer values"):
        program.match(pa.record_batch({"c": ["x"], "a": [1.5]}))


def test_no_subscriptions_no_rows_no_columns() -> None:
    schema = pa.schema({"x": pa.int64()})
    none = compile_program([], schema)
    assert none.columns == ()
    assert none.match(pa.record_batch({"x": [1, 2]})).to_pylist() == [[], []]
    some = compile_program([("s", "x = 1")], schema)
    empty = some.match(pa.record_batch({"x": pa.array([], pa.int64())}))
    assert empty.to_pylist() == []
    assert empty.type == some.match(pa.record_batch({"x": [1]})).type == pa.list_(pa.int32())


def test_equal_filters_share_and_all_are_listed() -> None:
    x = pa.record_batch({"x": [1, 2]})
    texts = ["x = 1", "x > 1", "x = 1.0", "TRUE", "x = 1", "1 = x"]
    program = compile_program([(str(number), text) for number, text in enumerate(texts)], x.schema)
    assert program.subscription_ids == tuple("012345")
    assert program.match(x).to_pylist() == [[0, 2, 3, 4, 5], [1, 3]]


def test_a_shared_leaf_is_never_written_into() -> None:
    batch = pa.record_batch({"x": [1, 2, 3, 3], "y": [1, 2, 1, 2]})
    texts = ["x > 1 AND y = 1", "x > 1 OR y = 1", "x > 1", "y = 1", "x > 1 AND y = 1", "x IS NULL OR y = 1", "x ANY"]
    program = compile_program([(text, text) for text in texts], batch.schema)
    assert program.match(batch).to_pylist() == [[1, 3, 5, 6], [1, 2, 6], [0, 1, 2, 3, 4, 5, 6], [1, 2, 6]]


def test_runs_leave_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = np.arange(1000)
    batch = pa.record_batch({"x": numbers})
    subscriptions = [(str(m), f"x >= {m} AND x < {1000 - m}") for m in range(60)]
    whole = compile_program(subscriptions, batch.schema).match(batch)
    assert whole[30].as_py() == list(range(31))
    for rows, small, most_pairs in [(7, 0, 1 << 24), (7, 1000, 0), (100, 0, 10), (4096, 0, 1 << 24)]:
        monkeypatch.setattr(kernel, "ROWS", rows)
        monkeypatch.setattr(kernel, "SMALL", small)
        monkeypatch.setattr(kernel, "SHARED", 0)
        monkeypatch.setattr(kernel, "MOST_PAIRS", most_pairs)
        monkeypatch.setattr(kernel, "TILE", 64)
        assert compile_program(subscriptions, batch.schema).match(batch).equals(whole)


def test_a_run_of_too_many_pairs_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = pa.record_batch({"x": np.arange(1000)})
    subscriptions = [(str(m), f"x >= {m} AND x < {1000 - m}") for m in range(60)]
    whole = compile_program(subscriptions, batch.schema).match(batch)
    for name, value in {"SMALL": 0, "SHARED": 0, "MOST_PAIRS": 500}.items():
        monkeypatch.setattr(kernel, name, value)
    program = compile_program(subscriptions, batch.schema)
    monkeypatch.setattr(program._worker, "_by_event", None)
    assert program.match(batch).equals(whole)
    assert program._worker._pairs.shape[1] < 2000 + kernel.ROWS


def test_more_matches_than_a_list_array_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "MOST_ITEMS", 3)
    program = compile_program([("a", "TRUE"), ("b", "TRUE")], pa.schema({}))
    with pytest.raises(OverflowError, match=r"4 matches in one batch .* smaller batches"):
        program.match(pa.record_batch({"x": [1, 2]}))


@pytest.mark.parametrize("run", [2, 16_384])
def test_tokens_decide_who_sees(run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "ROWS", run)
    batch = pa.record_batch({"x": [1, 1, 1, 2, 1]})
    subscriptions = [("a", "x = 1"), ("b", "x = 1"), ("c", "x = 1"), ("d", "TRUE")]
    held: list[set[str | int]] = [{"red"}, {"red", "blue"}, set(), {7, "green"}]
    program = compile_program(subscriptions, batch.schema, tokens=held)
    events = pa.array([["red"], ["blue", "other"], None, ["red", "green"], []])
    expected = [[0, 1], [1], [], [3], []]
    for type in (pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_(STRINGS[3])):
        assert program.match(batch, events.cast(type)).to_pylist() == expected
    assert program.match(batch.slice(1), events.slice(1)).to_pylist() == expected[1:]
    assert program.match(batch, pa.array([[7], [8], [8, 7], [1], None])).to_pylist() == [[3], [], [3], [], []]
    unsigned = pa.array([[7], [2**63 + 7], [2**64 - 1, 7], [None], None], pa.list_(pa.uint64()))
    assert program.match(batch, unsigned).to_pylist() == [[3], [], [3], [], []]
    assert program.match(batch, pa.nulls(5, pa.list_(pa.null()))).to_pylist() == [[]] * 5
    with pytest.raises(ValueError, match="compiled with tokens"):
        program.match(batch)
    with pytest.raises(ValueError, match="1 token lists for 5 events"):
        program.match(batch, pa.array([["red"]]))


def test_a_program_without_tokens_ignores_them() -> None:
    batch = pa.record_batch({"x": [1]})
    assert compile_program([("a", "x = 1")], batch.schema).match(batch, pa.array([["red"]])).to_pylist() == [[0]]
    with pytest.raises(ValueError, match="0 token sets for 1 subscriptions"):
        compile_program([("a", "x = 1")], batch.schema, tokens=[])


def test_a_bad_text_names_its_subscription() -> None:
    with pytest.raises(FilterError, match=r"column 5: subscription s-42: nothing equals NULL") as caught:
        compile_program([("s-1", "x = 1"), ("s-42", "x = NULL")], pa.schema({"x": pa.int64()}))
    assert caught.value.column == 5


def test_an_attribute_that_is_there_twice_is_refused_only_if_it_is_named() -> None:
    schema = pa.schema([("x", pa.int64()), ("x", pa.string()), ("y", pa.int64())])
    assert compile_program([("a", "y = 1")], schema).columns == ("y",)
    with pytest.raises(ValueError, match="several columns named 'x'"):
        compile_program([("a", "x = 1")], schema)


def everything() -> tuple[Program, pa.RecordBatch, pa.Array]:
    batch = pa.record_batch(
        {
            "i": pa.array([1, 2, None]),
            "u": pa.array([1, 2**64 - 1, None], pa.uint64()),
            "d": pa.array([0.5, None, 7.0]),
            "s": pa.array(["abc", "", None]),
            "m": pa.array([Decimal("1.5"), Decimal(-(10**30)), None], pa.decimal128(38, 3)),
        }
    )
    texts = ["i IN (1, 2)", "u > 5", "d < 6.5 OR i = 2", "s LIKE 'a_c' AND s > 'ab'", "m < 0", "s = ''", "m <> 1.5"]
    held: list[set[str | int]] = [{"a", number % 3} for number in range(len(texts))]
    tokens = pa.array([["a"], ["a", "b"], ["a"]])
    return compile_program([(f"s-{text}", text) for text in texts], batch.schema, tokens=held), batch, tokens


def test_a_saved_program_loads_as_it_was(tmp_path: object) -> None:
    program, batch, tokens = everything()
    path = f"{tmp_path}/program.arrow"
    program.save(path)
    loaded = Program.load(path)
    assert (loaded.subscription_ids, loaded.columns, loaded.slots) == (
        program.subscription_ids,
        program.columns,
        program.slots,
    )
    expected = [[0, 2, 3], [0, 1, 2, 4, 5, 6], []]
    assert program.match(batch, tokens).to_pylist() == expected
    assert loaded.match(batch, tokens).to_pylist() == expected
    compile_program([], batch.schema).save(path)  # over the one in use
    assert loaded.match(batch, tokens).to_pylist() == expected
    assert Program.load(path).match(batch).to_pylist() == [[], [], []]


def test_what_is_no_program_is_not_loaded(tmp_path: object) -> None:
    path = f"{tmp_path}/other.arrow"
    with pa.ipc.new_file(path, pa.schema({"x": pa.int64()})) as file:
        file.write_batch(pa.record_batch({"x": [1]}))
    with pytest.raises(ValueError, match="not a program of this version"):
        Program.load(path)


def test_a_program_pickles_small(tmp_path: object) -> None:
    program, batch, tokens = everything()
    before = pickle.dumps(program)
    expected = program.match(batch, tokens)
    assert pickle.dumps(program) == before
    assert pickle.loads(before).match(batch, tokens).equals(expected)
    program.save(f"{tmp_path}/p")
    assert pickle.loads(pickle.dumps(Program.load(f"{tmp_path}/p"))).match(batch, tokens).equals(expected)


def test_a_parsed_filter_is_as_good_as_its_text() -> None:
    batch = pa.record_batch({"x": [1]})
    assert compile_program([("a", parse("x = 1"))], batch.schema).match(batch).to_pylist() == [[0]]
