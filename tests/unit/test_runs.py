"""Runs against a dictionary, whatever their sizes, however often they are merged."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udfs.runs import FAN, Run, mapped, merge, recall, write

# Few words, so that keys share prefixes, marks, and whole halves; and the ends of the range.
WORDS = st.sampled_from([0, 1, 255, 256, 511, 1 << 32, (1 << 63) + 7, (1 << 64) - 1])
ENTRIES = st.lists(st.tuples(WORDS, WORDS, st.integers(-(1 << 63), (1 << 63) - 1), st.integers(1, 9)), max_size=40)


def made(place: Path, entries: list[tuple[int, int, int, int]]) -> Run:
    keys = np.array([entry[:2] for entry in entries], np.uint64).reshape(-1, 2)
    values = np.array([entry[2] for entry in entries], np.int64)
    write(place, keys, values, np.array([entry[3] for entry in entries], np.int64))
    return Run.load(place)


def slowly(entries: list[tuple[int, int, int, int]], key: tuple[int, int], first: int, without: set[int]) -> int | None:
    counting = [value for *mine, value, at in entries if tuple(mine) == key and at >= first and at not in without]
    return min(counting, default=None)


@given(
    st.lists(ENTRIES, min_size=1, max_size=FAN), st.integers(0, 10), st.sets(st.integers(1, 9), max_size=2), st.data()
)
def test_what_is_recalled_is_the_least_that_counts(
    parts: list[list[tuple[int, int, int, int]]], first: int, without: set[int], data: st.DataObject
) -> None:
    every = [entry for part in parts for entry in part]
    asked = [entry[:2] for entry in every] + data.draw(st.lists(st.tuples(WORDS, WORDS), max_size=5))
    keys, out = np.array(asked, np.uint64).reshape(-1, 2), np.array(sorted(without), np.uint64)
    with TemporaryDirectory() as place:
        runs = [made(Path(place) / str(number), part) for number, part in enumerate(parts)]
        count = merge(Path(place) / "merged", runs, first)
        together = Run.load(Path(place) / "merged")
        assert count == len(together) == sum(entry[3] >= first for entry in every)
        for some in (runs, [together]):
            values, found = recall(some, keys, first, out)
            got = [int(value) if there else None for value, there in zip(values, found, strict=True)]
            assert got == [slowly(every, key, first, without) for key in asked]


def test_many_keys(tmp_path: Path) -> None:
    draw = np.random.default_rng(7)
    keys = draw.integers(0, 1 << 64, (50_000, 2), np.uint64)
    runs = []
    for number, part in enumerate(np.array_split(keys, 3)):
        write(tmp_path / str(number), part, np.arange(len(part)), np.full(len(part), number))
        runs.append(Run.load(tmp_path / str(number)))
    merge(tmp_path / "merged", runs)
    others = keys ^ np.array([0, 1 << 40], np.uint64)  # the same prefix and mark
    for some in (runs, [Run.load(tmp_path / "merged")]):
        assert recall(some, keys, 0, np.empty(0, np.uint64))[1].all()
        assert not recall(some, others, 0, np.empty(0, np.uint64))[1].any()


def test_runs_that_nobody_asks_for_are_let_go(tmp_path: Path) -> None:
    for name in "ab":
        made(tmp_path / name, [(1, 2, 3, 4)])
    (first,) = mapped([str(tmp_path / "a")])
    assert mapped([str(tmp_path / "a"), str(tmp_path / "b")])[0] is first
    mapped([str(tmp_path / "b")])
    assert mapped([str(tmp_path / "a")])[0] is not first


def test_a_run_that_was_not_finished_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.runs._finish", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        made(tmp_path / "run", [(1, 2, 3, 4)])
    assert not (tmp_path / "run").exists()
