"""One notification per consumer; and a program with a change beside it gives what one program of all would."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from routing.matching import compile_program
from udfs import roster as rosters
from udfs.roster import Patch, Roster, matches
from udfs.shelf import Item, Shelf, get

SCHEMA = pa.schema({"x": pa.int64(), "s": pa.string()})
Rows = dict[tuple[str, str], str]


def random_rows(random: Random, count: int) -> Rows:
    texts = ["x > 3", "x = 5", "s = 'a'", "s LIKE '%b%'", "x < 2 OR s = 'b'", "TRUE", "x IS NULL"]
    return {(random.choice("abcdé"), f"{random.randrange(40):02d}"): random.choice(texts) for _ in range(count)}


def roster_of(rows: Rows, known: list[str]) -> Roster:
    """Sorted by consumer and id; consumers that are known keep their numbers, new ones are numbered on."""
    keys = sorted(rows)
    new = sorted({consumer for consumer, _ in keys} - set(known))
    names = [*known, *new]
    numbers = np.array([names.index(consumer) for consumer, _ in keys], np.int32)
    program = compile_program([(id, rows[consumer, id]) for consumer, id in keys], SCHEMA)
    return Roster(program, numbers, pa.array(new, pa.string()))


def events(random: Random, count: int) -> pa.RecordBatch:
    columns = {
        "x": pa.array([random.choice([None, 1, 2, 4, 5]) for _ in range(count)], pa.int64()),
        "s": pa.array([random.choice([None, "a", "b", "abc"]) for _ in range(count)], pa.string()),
    }
    return pa.record_batch(columns)


def listed(pieces: list[pa.ListArray]) -> list[object]:
    return [event for piece in pieces for event in piece.to_pylist()]


@pytest.mark.parametrize("seed", range(30))
def test_a_change_beside_a_program_gives_what_one_program_of_all_gives(seed: int) -> None:
    random = Random(seed)
    old, new = random_rows(random, random.randrange(30)), random_rows(random, random.randrange(12))
    gone = {key for key in old if random.random() < 0.2}
    first = roster_of(old, [])
    keys = sorted(old)
    patch = Patch(
        roster_of(new, first.names.to_pylist()),
        np.searchsorted([f"{c}\0{i}" for c, i in keys], [f"{c}\0{i}" for c, i in sorted(new)]).astype(np.int64)
        if old
        else np.zeros(len(new), np.int64),
        np.array([at for at, key in enumerate(keys) if key in gone or key in new], np.int64),
    )
    batch = events(random, 20)
    everything = {**{key: text for key, text in old.items() if key not in gone}, **new}
    expected = listed(list(matches(batch, roster_of(everything, []))))
    assert listed(list(matches(batch, first, patch))) == expected
    assert any(expected) or not everything


def test_each_consumer_has_one_entry_with_its_ids_in_order() -> None:
    rows: Rows = {("a", "2"): "x > 0", ("a", "1"): "TRUE", ("b", "1"): "x > 1"}
    [lists] = matches(pa.record_batch({"x": [1, 2], "s": pa.array([None, None], pa.string())}), roster_of(rows, []))
    assert lists.to_pylist() == [
        [{"consumer": "a", "subscription_ids": ["1", "2"]}],
        [{"consumer": "a", "subscription_ids": ["1", "2"]}, {"consumer": "b", "subscription_ids": ["1"]}],
    ]


def test_events_that_match_everything_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rosters, "ROWS", 8)
    monkeypatch.setattr(rosters, "PIECE", 20)
    rows: Rows = {("a", str(number)): "TRUE" for number in range(10)}
    pieces = list(matches(events(Random(1), 50), roster_of(rows, [])))
    assert max(len(piece.flatten().field("subscription_ids").flatten()) for piece in pieces[1:]) <= 20
    assert sum(map(len, pieces)) == 50


def test_no_piece_is_much_larger_than_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rosters, "PIECE", 20)
    rows: Rows = {("a", str(number)): "TRUE" for number in range(10)}
    pieces = list(matches(events(Random(1), 50), roster_of(rows, [])))
    assert max(len(piece.flatten().field("subscription_ids").flatten()) for piece in pieces) <= 4 * 20
    assert sum(map(len, pieces)) == 50


def test_one_event_may_match_more_than_a_piece_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rosters, "PIECE", 1)
    rows: Rows = {("a", str(number)): "TRUE" for number in range(10)}
    assert [len(piece) for piece in matches(events(Random(1), 5), roster_of(rows, []))] == [1] * 5


def test_more_matches_than_a_list_can_count_are_tried_again_in_smaller_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from udfs import kernel

    monkeypatch.setattr(kernel, "MOST_ITEMS", 100)
    rows: Rows = {("a", str(number)): "TRUE" for number in range(10)}
    pieces = list(matches(events(Random(1), 50), roster_of(rows, [])))
    assert sum(map(len, pieces)) == 50 and len(pieces) > 4


def test_a_shelf_keeps_a_file_by_its_content(tmp_path: Path) -> None:
    shelf = Shelf(str(tmp_path), copy=False)
    one, same = (shelf.put(lambda path: path.write_text("one") and None) for _ in range(2))
    other = shelf.put(lambda path: path.write_text("other") and None)
    assert one == same != other
    assert get(one, Path.read_text) == "one"
    assert [get(other, Path.read_text) for _ in range(2)] == ["other", "other"]
    more = [shelf.put(lambda path, number=number: path.write_text(str(number)) and None) for number in range(20)]  # type: ignore[misc]
    shelf.keep([one, *more[:3]])
    assert {file.name for file in tmp_path.iterdir()} == {item.name for item in (one, *more[:3])}


def test_a_worker_elsewhere_copies_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_EXECUTOR_DIRS", str(tmp_path / "executor"))
    shelf = Shelf(f"file:{tmp_path / 'shelf'}", copy=True)
    item = shelf.put(lambda path: path.write_text("far") and None)
    assert get(item, Path.read_text) == "far"
    copies = tmp_path / "executor" / "sluice-programs"
    assert (copies / item.name).read_text() == "far"
    (tmp_path / "shelf" / item.name).unlink()
    assert get(Item(item.place, item.name, True), Path.read_bytes) == b"far"
