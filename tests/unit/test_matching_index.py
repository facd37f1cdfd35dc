"""The index where small sets do not reach it: split clusters, skew, trees, wide programs, floods of strings."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks import workload
from routing.filters import evaluate, parse
from routing.filters.ast import Filter, conjunction
from routing.matching import compile_program, layout, lower
from tests.strategies import filters, leaves
from tests.unit.test_matching_reference import NAMES, batches
from tests.ways import WAYS, Way, matching
from udfs import kernel, strings
from udfs.encode import Codes


def expected(trees: list[Filter], events: list[dict[str, Any]]) -> list[list[int]]:
    return [[place for place, tree in enumerate(trees) if evaluate(tree, event) is True] for event in events]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    batches(),
    st.lists(st.lists(leaves(NAMES), min_size=1, max_size=4).map(conjunction), min_size=20, max_size=60),
    st.sampled_from([(1, 1), (2, 2), (16, 6)]),
    st.sampled_from(WAYS),
)
def test_split_clusters_are_the_reference(
    batch: tuple[pa.RecordBatch, list[dict[str, Any]]], trees: list[Filter], split: tuple[int, int], way: Way
) -> None:
    record, events = batch
    with mock.patch.object(layout, "SPLIT", split[0]), mock.patch.object(layout, "RUN", split[1]):
        program = compile_program([(str(number), tree) for number, tree in enumerate(trees)], record.schema)
    with matching(way):
        assert program.match(record).to_pylist() == expected(trees, events)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches(), st.lists(filters(NAMES), max_size=8))
def test_trees_are_the_reference(batch: tuple[pa.RecordBatch, list[dict[str, Any]]], trees: list[Filter]) -> None:
    record, events = batch
    with mock.patch.object(lower, "MOST_CONJUNCTIONS", 1):
        program = compile_program([(str(number), tree) for number, tree in enumerate(trees)], record.schema)
    assert program.match(record).to_pylist() == expected(trees, events)


@pytest.mark.parametrize("name", ["standard", "sigma"])
def test_the_workloads_are_the_reference(name: str) -> None:
    """More than 200,000 pairs, with clusters and runs of every shape."""
    made, batch = workload.subscriptions(1500, name), workload.events(150, seed=3)
    trees = [parse(text) for _, text in made]
    events = [{key: value for key, value in row.items() if value is not None} for row in batch.to_pylist()]
    wanted = expected(trees, events)
    program = compile_program(made, workload.SCHEMA)
    for way in WAYS:
        with matching(way):
            assert program.match(batch).to_pylist() == wanted


def test_a_filter_beyond_the_bound_of_conjunctions() -> None:
    text = " AND ".join(f"(a{n} = 1 OR b{n} > 2 OR s{n} LIKE '%x')" for n in range(8))
    schema = pa.schema({f"{kind}{n}": pa.string() if kind == "s" else pa.int64() for kind in "abs" for n in range(8)})
    program = compile_program([("t", text), ("u", "a0 = 1")], schema)
    assert len(program.index.tests) // 8 >= 24
    generator = random.Random(5)
    rows = [
        {name: generator.choice([None, "ax", "xa"] if name[0] == "s" else [None, 1, 3]) for name in schema.names}
        for _ in range(300)
    ]
    matched = program.match(pa.RecordBatch.from_pylist(rows, schema)).to_pylist()
    trees = [parse(text), parse("a0 = 1")]
    assert matched == expected(trees, rows)
    assert any(0 in some for some in matched)


def test_skew_one_value_that_half_ask_for_and_one_event_that_matches_all() -> None:
    texts = [f"x = 7 AND y >= {n}" if n % 2 else f"y >= {n} AND z <> {n}" for n in range(3000)]
    batch = pa.record_batch({"x": [7, 8, None], "y": [3000, 10, 3000], "z": [-1, -1, None]})
    program = compile_program([(str(n), text) for n, text in enumerate(texts)], batch.schema)
    for way in WAYS:
        with matching(way):
            assert program.match(batch).to_pylist() == [list(range(3000)), [0, 2, 4, 6, 8, 10], []]


def test_more_entries_in_the_root_than_events() -> None:
    program = compile_program([(str(n), "x IS NULL") for n in range(50)], pa.schema({"x": pa.int64()}))
    with matching(Way(many=1)):
        assert program.match(pa.record_batch({"x": pa.array([None, 1, None])})).to_pylist() == [
            list(range(50)),
            [],
            list(range(50)),
        ]


def test_two_sided_ranges_keep_both_ends() -> None:
    texts = [f"x > {n} AND x < {n + 9}" for n in range(400)] + [f"x BETWEEN {n} AND {n}" for n in range(400)]
    numbers = np.arange(-5, 420)
    program = compile_program([(text, text) for text in texts], pa.schema({"x": pa.int64()}))
    matched = program.match(pa.record_batch({"x": numbers})).to_pylist()
    for x, some in zip(numbers.tolist(), matched, strict=True):
        wanted = [n for n in range(400) if n < x < n + 9] + ([400 + x] if 0 <= x < 400 else [])
        assert some == wanted


def test_more_attributes_than_an_entry_can_name() -> None:
    names = [f"a{n}" for n in range(1100)]
    texts = [f"{name} > 0 AND a0 > 0 AND a1099 > 1 AND a1098 > 0" for name in names[1:-2]]
    schema = pa.schema({name: pa.int64() for name in names})
    batch = pa.RecordBatch.from_pylist([dict.fromkeys(names, 1), dict.fromkeys(names, 2)], schema)
    matched = compile_program([(text, text) for text in texts], schema).match(batch).to_pylist()
    assert matched == [[], list(range(len(texts)))]


def test_a_flood_of_strings_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "MOST_STRINGS", 100)
    monkeypatch.setattr(kernel, "ROWS", 64)
    program = compile_program([("a", "CONTAINS(s, '99')"), ("b", "s LIKE '1%'")], pa.schema({"s": pa.string()}))
    for turn in range(5):
        texts = [str(number) for number in range(1000 * turn, 1000 * turn + 1000)]
        wanted = [[0] * ("99" in text) + [1] * text.startswith("1") for text in texts]
        assert program.match(pa.record_batch({"s": texts})).to_pylist() == wanted
        assert program._worker._encoder.strings._known.count <= 100 + 64


def substrings(text: str) -> list[str]:
    return sorted({text[first:last] for first in range(len(text)) for last in range(first + 1, len(text) + 1)})


@pytest.mark.parametrize("bound", [("MOST_BYTES", 1 << 10), ("MOST_STRINGS", 8)])
def test_a_run_whose_strings_are_too_much_is_halved(bound: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, *bound)
    parts = substrings("abcdefghij")
    texts = [f"{number}{'abcdefghij'[number % 7 :]}" for number in range(200)]
    program = compile_program([(part, f"CONTAINS(s, '{part}')") for part in parts], pa.schema({"s": pa.string()}))
    wanted = [[place for place, part in enumerate(parts) if part in text] for text in texts]
    assert program.match(pa.record_batch({"s": texts})).to_pylist() == wanted
    known = program._worker._encoder.strings
    assert known.held.nbytes <= 2 * strings.MOST_BYTES + known._found.nbytes
    assert len(known._known.data) <= 2 * strings.MOST_BYTES and known._known.count <= 2 * strings.MOST_STRINGS


def test_one_event_may_hold_more_than_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "MOST_BYTES", 16)
    parts = substrings("abcdefghij")
    program = compile_program([(part, f"CONTAINS(s, '{part}')") for part in parts], pa.schema({"s": pa.string()}))
    texts = ["a", "xx", "abcdefghij" * 10, None, "b", "abcdefghij" * 10]
    wanted = [[place for place, part in enumerate(parts) if part in (text or "")] for text in texts]
    assert program.match(pa.record_batch({"s": texts})).to_pylist() == wanted
    assert program.match(pa.record_batch({"s": texts[::-1]})).to_pylist() == wanted[::-1]


def test_the_events_of_a_run_are_fewer_if_they_are_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "MOST_BYTES", 1 << 14)
    schema = pa.schema([(f"s{n}", pa.string()) for n in range(150)] + [(f"i{n}", pa.int8()) for n in range(150)])
    texts = [f"{name} = '1'" if name[0] == "s" else f"{name} = 1" for name in schema.names]
    program = compile_program([(text, text) for text in texts], schema)
    sizes, encode = [], program._worker._encoder.encode

    def measured(columns: list[pa.Array], rows: int) -> Codes:
        made = encode(columns, rows)
        sizes.append(sum(some.nbytes for some in made))
        return made

    monkeypatch.setattr(program._worker._encoder, "encode", measured)
    numbers = pa.array(np.arange(100) % 3, pa.int8())
    batch = pa.record_batch([numbers.cast(field.type) for field in schema], schema=schema)
    assert program.match(batch).to_pylist() == [list(range(300)) if n % 3 == 1 else [] for n in range(100)]
    assert len(sizes) > 1 and max(sizes) <= kernel.MOST_BYTES


def test_runs_grow_again_after_one_that_was_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "MOST_STRINGS", 4)
    program = compile_program([("a", "s = '1'")], pa.schema({"s": pa.string()}))
    program.match(pa.record_batch({"s": [str(number) for number in range(30)]}))
    assert program._worker._rows < 16
    program.match(pa.record_batch({"s": ["1"] * 2000}))
    assert program._worker._rows > 100


def test_many_suffixes_and_substrings() -> None:
    generator = random.Random(3)
    words = ["".join(generator.choices("abc", k=generator.randint(0, 7))) for _ in range(400)]
    parts = list(dict.fromkeys("".join(generator.choices("abc", k=generator.randint(1, 4))) for _ in range(120)))
    tests: list[tuple[str, Any]] = []
    for part in parts:
        tests += [(f"CONTAINS(s, '{part}')", lambda word, part=part: part in word)]
        tests += [(f"ENDSWITH(s, '{part}')", lambda word, part=part: word.endswith(part))]
        tests += [(f"s NOT LIKE '%{part}'", lambda word, part=part: not word.endswith(part))]
    batch = pa.record_batch({"s": words})
    matched = compile_program([(text, text) for text, _ in tests], batch.schema).match(batch).to_pylist()
    for word, some in zip(words, matched, strict=True):
        assert some == [place for place, (_, holds) in enumerate(tests) if holds(word)]
