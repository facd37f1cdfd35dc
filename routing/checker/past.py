"""A control table through time: every row that some batch saw, and between which versions it was there.

Law: of several rows with one key the newest commit counts, as long as it is there; rows come in that order. What is
read is the table at each version that a batch pinned, nothing in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

    from routing.tables import Tables

FOREVER = np.iinfo(np.int64).max
_AGE = ("age", "row")


@dataclass(frozen=True, eq=False)
class Past:
    """Rows, oldest commit first; row n is there from version `since[n]` on and before `until[n]`."""

    rows: pa.Table
    since: NDArray[np.int64]
    until: NDArray[np.int64]

    def at(self, version: int) -> list[dict[str, Any]]:
        """The rows at a version, oldest commit first."""
        there = np.flatnonzero((self.since <= version) & (version < self.until))
        return self.rows.take(pa.array(there)).to_pylist()  # type: ignore[no-any-return]


def past(tables: Tables, table: str, columns: Iterable[Column | str], versions: Iterable[int]) -> Past:
    """What these columns of a table were, at versions that batches pinned."""
    metadata = (F.col("_metadata.row_commit_version").alias("age"), F.col("_metadata.row_id").alias("row"))
    wanted = sorted(set(versions))
    reads = (tables.read(table, version).select(*columns, *metadata).toArrow() for version in wanted)
    return through(reads, wanted)


def through(reads: Iterable[pa.Table], versions: list[int]) -> Past:
    """The same, from the tables as they were at these versions, with columns `age` and `row`.

    >>> one, two = ({"x": ["a"], "age": [1], "row": [0]}, {"x": ["b", "a"], "age": [3, 1], "row": [1, 0]})
    >>> found = through([pa.table(one), pa.table(two), pa.table(two).slice(0, 1)], [1, 3, 4])
    >>> [[row["x"] for row in found.at(version)] for version in (1, 3, 4)]
    [['a'], ['a', 'b'], ['b']]
    """
    open_rows: dict[tuple[int, int], int] = {}
    pieces: list[pa.Table] = []
    since: list[int] = []
    until: list[int] = []
    for version, rows in zip(versions, reads, strict=True):
        keys = list(_keys(rows))
        there = set(keys)
        for key in open_rows.keys() - there:
            until[open_rows.pop(key)] = version
        new = [place for place, key in enumerate(keys) if key not in open_rows]
        for place in new:
            open_rows[keys[place]] = len(since)
            since.append(version)
            until.append(FOREVER)
        pieces.append(rows.take(pa.array(new, pa.int64())))
    together = pa.concat_tables(pieces)
    order = pc.sort_indices(together, [(name, "ascending") for name in _AGE]).to_numpy()
    return Past(together.drop_columns(list(_AGE)).take(pa.array(order)), np.array(since)[order], np.array(until)[order])


def _keys(rows: pa.Table) -> Iterator[tuple[int, int]]:
    return zip(rows["age"].to_pylist(), rows["row"].to_pylist(), strict=True)
