"""The judgement of a batch against a slow one that goes through a dictionary, key by key."""

from __future__ import annotations

from hashlib import md5
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from udfs.judge import judge
from udfs.runs import Recall, words, write

TYPES = pa.schema(
    {
        "row": pa.int64(),
        "mark": pa.int64(),
        "reason": pa.string(),
        "published_at": pa.int64(),
        "tie": pa.string(),
        "publisher": pa.string(),
        "event_id": pa.string(),
        "key_hash": pa.binary(),
        "content_hash": pa.int64(),
    }
)
ROW = st.fixed_dictionaries(
    {
        "reason": st.sampled_from([None, None, None, "malformed", "missing_id"]),
        "published_at": st.integers(-2, 3),
        "tie": st.sampled_from([None, "", "a", "é", "\U0001f600", "\uffff"]),
        "publisher": st.sampled_from(["p", "q"]),
        "event_id": st.sampled_from(["1", "2", "3", "4", "5", "6"]),
        "content_hash": st.integers(-1, 1),
    }
)


def key(row: dict[str, Any]) -> bytes:
    return md5(f"{row['publisher']}/{row['event_id']}".encode()).digest()


def content(row: dict[str, Any]) -> int:
    return row["content_hash"] * 10 + len((row["tie"] or "xxxxxx").encode())  # the order column is part of it


def slow(rows: list[dict[str, Any]], known: dict[bytes, int]) -> dict[int, tuple[Any, Any, Any]]:
    """Rank, twin and what was remembered, by the row's number."""
    groups: dict[bytes, list[dict[str, Any]]] = {}
    for row in rows:
        if row["reason"] is None:
            groups.setdefault(row["key_hash"], []).append(row)
    found: dict[int, tuple[Any, Any, Any]] = {row["row"]: (None, None, None) for row in rows}
    stay = []
    for name, group in groups.items():
        first, *others = sorted(group, key=lambda row: (row["published_at"], row["content_hash"], row["row"]))
        found |= {row["row"]: (None, first["content_hash"], None) for row in others}
        if name in known:
            found[first["row"]] = (None, None, known[name])
        else:
            stay.append(first)

    def place(row: dict[str, Any]) -> Any:
        tie = row["tie"]
        return row["published_at"], tie is not None, (tie or "").encode(), row["publisher"], row["event_id"]

    return found | {row["row"]: (rank, None, None) for rank, row in enumerate(sorted(stay, key=place))}


def test_partitions_of_several_pieces() -> None:
    draw = Random(1)
    rows = []
    for at in range(500):
        row = {"reason": None, "published_at": draw.randrange(90), "tie": None, "publisher": "p", "content_hash": 1}
        row |= {"event_id": str(draw.randrange(400)), "row": (at // 300 << 33) + at % 300, "mark": at}
        rows.append({**row, "key_hash": key(row)})
    draw.shuffle(rows)
    assert found(judge(pa.Table.from_pylist(rows, TYPES), None)) == slow(rows, {})


def found(verdicts: pa.Table) -> dict[int, tuple[Any, Any, Any]]:
    """What was found of each row."""
    of: dict[int, tuple[Any, Any, Any]] = {}
    for row in verdicts.to_pylist():
        if row["piece"] is not None:
            for place, rank in enumerate(row["ranks"]):
                of[(row["piece"] << 6) + place] = (None if rank < 0 else rank, None, None)
        elif row["row"] is not None:
            assert of[row["row"]] == (None, None, None)
            of[row["row"]] = (None, row["twin"], row["seen"])
    return of


@given(st.lists(ROW, max_size=30), st.sets(st.tuples(st.sampled_from("pq"), st.sampled_from("123456"))), st.integers())
def test_as_by_a_dictionary(drawn: list[dict[str, Any]], before: set[tuple[str, str]], seed: int) -> None:
    rows = [
        {**row, "row": (at // 10 << 33) + at % 10, "mark": at * 7, "key_hash": key(row), "content_hash": content(row)}
        for at, row in enumerate(drawn)
    ]
    known = {key({"publisher": publisher, "event_id": id}): len(id) for publisher, id in before}
    with TemporaryDirectory() as place:
        run = Path(place) / "run"
        write(
            run, words(pa.array(list(known), pa.binary())), np.array([*known.values()], int), np.ones(len(known), int)
        )
        came = rows.copy()
        table = pa.Table.from_pylist(came, TYPES)
        verdicts = judge(table, Recall((str(run),), 0, ()) if known else None)
        Random(seed).shuffle(came)
        again = judge(pa.Table.from_pylist(came, TYPES), Recall((str(run),), 0, ()))
    expected = slow(rows, known)
    assert found(verdicts) == expected
    told = [row for row in verdicts.to_pylist() if row["piece"] is not None]
    assert [mark for row in told for mark in row["marks"]] == [row["mark"] for row in rows]
    counts = {row["reason"]: row["many"] for row in verdicts.to_pylist() if row["many"] is not None}
    assert sum(counts.values()) == len(rows)
    assert counts[None] == sum(rank is not None for rank, _, _ in expected.values())
    by_row = {row["row"]: row["content_hash"] for row in rows}
    same = [
        by_row[row] == (seen if twin is None else twin)
        for row, (_, twin, seen) in expected.items()
        if (twin, seen) != (None, None)
    ]
    assert (counts.get("duplicate", 0), counts.get("conflict", 0)) == (sum(same), len(same) - sum(same))

    # In whatever order the rows come, the same events stay, in the same order.

    def order(table: pa.Table) -> list[Any]:
        names = {row["row"]: (row["key_hash"], row["published_at"], row["content_hash"]) for row in rows}
        ranked = [(rank, names[row]) for row, (rank, _, _) in found(table).items() if rank is not None]
        return sorted(ranked)

    assert order(again) == order(verdicts) and found(again) == found(verdicts)
    largest = max((sum(row["row"] >> 33 == one for row in rows) for one in range(3)), default=0)
    assert [row["largest"] for row in verdicts.to_pylist() if row["largest"] is not None] == [largest]
