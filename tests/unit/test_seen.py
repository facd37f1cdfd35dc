"""The runs of the memory: few, whole, and gone when nobody needs them. No Spark: what the journal brings is handed in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from routing import seen
from routing.seen import Seen
from udfs.runs import Recall

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def keys(names: list[str]) -> pa.Array:
    return pa.array([md5(name.encode()).digest() for name in names], pa.binary())


def entries(batch: int, names: list[str], clock: datetime) -> pa.Table:
    many = len(names)
    columns = [keys(names), pa.array(range(many), pa.int64()), pa.array([batch] * many), pa.array([clock] * many)]
    return pa.table([column.cast(field.type) for column, field in zip(columns, seen._TYPES, strict=True)], seen._TYPES)


def memory(place: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Seen, dict[int, pa.Table]]:
    """A memory, and the journal that it follows: a batch a version. It can be followed, and read whole."""
    journal: dict[int, pa.Table] = {}
    tables: Any = SimpleNamespace(
        version=lambda table: max(journal, default=0),
        appended_files=lambda table, since, until: [v for v in journal if since < v <= until],
    )
    monkeypatch.setattr(seen, "_entries", lambda files: [journal[file] for file in files])

    def read_all(self: Seen, version: int, since: datetime) -> None:
        self._place.mkdir(parents=True, exist_ok=True)
        self._runs, self._clocks = [], seen._NO_CLOCKS
        for table in journal.values():
            self._add(table)

    monkeypatch.setattr(Seen, "_read_all", read_all)
    return Seen(tables, place), journal


def knows(asked: Recall | None, names: list[str]) -> list[bool]:
    return (asked or Recall((), 0, ())).of(keys(names)).is_valid().to_pylist()


def test_runs_are_merged_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "SMALL", 2)
    monkeypatch.setattr(seen, "_AT_ONCE", 40)
    mine, journal = memory(tmp_path, monkeypatch)
    names = []
    for batch in range(1, 120):
        fresh = [f"{batch}-{n}" for n in range(3)]
        clock = NOON + timedelta(minutes=batch)
        asked = mine.recall(clock, timedelta(days=1), frozenset({batch}))
        assert all(knows(asked, names)) and not any(knows(asked, fresh))
        journal[batch] = entries(batch, fresh, clock)
        names += fresh
        if mine._merging:
            mine._merging._thread.join()
    assert len(mine._runs) <= 12
    assert {path.name for path in (tmp_path / "_seen").iterdir()} >= {run.name for run in mine._runs}
    other = Seen(mine._tables, tmp_path)  # another process takes its turn
    assert all(knows(other.recall(clock, timedelta(days=1), frozenset()), names))
    assert all(knows(mine.recall(clock, timedelta(days=1), frozenset()), names))


def test_what_is_beyond_the_horizon_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "SMALL", 2)
    mine, journal = memory(tmp_path, monkeypatch)
    for batch in range(1, 30):
        clock = NOON + timedelta(hours=batch)
        asked = mine.recall(clock, timedelta(hours=5), frozenset())
        expected = [batch - 5 <= old < batch for old in range(1, 30)]
        assert knows(asked, [f"{old}-0" for old in range(1, 30)]) == expected
        journal[batch] = entries(batch, [f"{batch}-{n}" for n in range(3)], clock)
    assert sum(run.entries for run in mine._runs) < 3 * 29
    assert len(list((tmp_path / "_seen").iterdir())) <= 12


def test_a_batch_that_is_left_out_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, journal = memory(tmp_path, monkeypatch)
    journal[1] = entries(1, ["a", "b"], NOON)
    journal[2] = entries(2, ["b", "c"], NOON)
    for without, expected in (({1}, [False, True, True]), ({2}, [True, True, False]), ({1, 2}, [False] * 3)):
        assert knows(mine.recall(NOON, timedelta(days=1), frozenset(without)), ["a", "b", "c"]) == expected


def test_a_merge_whose_runs_another_process_has_replaced_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "SMALL", 2)
    monkeypatch.setattr(seen, "_AT_ONCE", 8)
    mine, journal = memory(tmp_path, monkeypatch)
    for batch in range(1, 6):
        journal[batch] = entries(batch, [f"{batch}-{n}" for n in range(3)], NOON)
        mine.recall(NOON, timedelta(days=1), frozenset())
        if mine._merging:
            break
    assert mine._merging
    mine._merging._thread.join()
    (tmp_path / "_seen" / "state.json").unlink()  # the other one made everything anew
    Seen(mine._tables, tmp_path).recall(NOON, timedelta(days=1), frozenset())
    names = [f"{old}-{n}" for old in journal for n in range(3)]
    assert all(knows(mine.recall(NOON, timedelta(days=1), frozenset()), names))
