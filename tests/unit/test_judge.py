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


@given(st.lists(ROW, max_size=30), st.sets(st.tuples(st.sampled_from("pq"), st.sampled_from("123456"))), st.integers())
def test_as_by_a_dictionary(drawn: list[dict[str, Any]], before: set[tuple[str, str]], seed: int) -> None:
    rows = [
        {**row, "row": (at // 10 << 33) + at, "mark": at * 7, "key_hash": key(row), "content_hash": content(row)}
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
    told = [row for row in verdicts.to_pylist() if row["row"] is not None]
    expected = slow(rows, known)
    assert {row["row"]: (row["rank"], row["twin"], row["seen"]) for row in told} == expected
    assert [row["mark"] for row in told] == [row["mark"] for row in rows]
    counts = {row["reason"]: row["rank"] for row in verdicts.to_pylist() if row["row"] is None}
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
    def order(table: pa.Table, of: list[dict[str, Any]]) -> list[Any]:
        names = {row["row"]: (row["key_hash"], row["published_at"], row["content_hash"]) for row in of}
        ranked = [row for row in table.to_pylist() if row["row"] is not None and row["rank"] is not None]
        return [names[row["row"]] for row in sorted(ranked, key=lambda row: row["rank"])]

    assert order(again, rows) == order(verdicts, rows)


def test_the_largest_partition_is_told() -> None:
    drawn = {"reason": None, "published_at": 1, "tie": None, "publisher": "p", "content_hash": 1, "mark": 0}
    rows = [
        {**drawn, "row": (at > 1) << 33 | at, "event_id": str(at), "key_hash": md5(bytes([at])).digest()}
        for at in range(7)
    ]
    (admitted,) = (row for row in judge(pa.Table.from_pylist(rows, TYPES), None).to_pylist() if row["row"] is None)
    assert (admitted["rank"], admitted["mark"]) == (7, 5)
