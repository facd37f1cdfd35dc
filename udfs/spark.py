"""The one place where a kernel meets Spark: compiled programs as a column.

Law: the UDF is called once for each event, gets the referenced attributes only, and gives, for each event, one entry
per consumer with the consumer's subscriptions that matched. What travels with a task is where the programs lie, not
the programs; a worker maps each once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, IntegerType, LongType, StringType, StructField, StructType

from udfs.chart import Chart
from udfs.judge import VERDICT, judge
from udfs.program import Program
from udfs.roster import Patch, Roster, Sight, matches
from udfs.runs import Recall
from udfs.shelf import Item, get

_ENTRY = [
    StructField("consumer", StringType(), False),
    StructField("subscription_ids", ArrayType(StringType(), False), False),
]
MATCHED = ArrayType(StructType(_ENTRY), False)
WITH_PATH = ArrayType(StructType([*_ENTRY, StructField("path", ArrayType(StringType(), False), False)]), False)


@dataclass(frozen=True, eq=False)
class Standing:
    """A roster on the shelf: its program, and its consumers."""

    program: Item
    consumers: Item


@dataclass(frozen=True, eq=False)
class Change:
    """What has changed since; see `udfs.roster`."""

    second: Standing
    before: NDArray[np.int64]
    dead: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Charted:
    """The scopes on the shelf: their chart, and the parties of the consumers of the first roster and of the change.

    `trails`, packed as JSON, stand instead of those in the chart.
    """

    chart: Item
    first: Item | None = None
    second: Item | None = None
    trails: str | None = None

    def load(self) -> Chart:
        """The chart, read by this process."""
        return get(self.chart, Chart.load) if self.trails is None else _with_trails(self.chart, self.trails)


@lru_cache(maxsize=2)  # batch after batch takes the same ways
def _with_trails(chart: Item, trails: str) -> Chart:
    return get(chart, Chart.load).with_trails(json.loads(trails))


def matcher(standing: Standing, change: Change | None = None) -> Callable[[Column], Column]:
    """A function from a struct column of attributes to MATCHED."""

    def match(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        first, patch = roster(standing), _patch(change)
        for attributes in batches:
            yield from matches(pa.RecordBatch.from_struct_array(attributes), first, patch)

    return _udf(match, pa.Array, MATCHED)


def seeing(standing: Standing, change: Change | None, charted: Charted) -> Callable[[Column, Column], Column]:
    """A function from a struct column of attributes, and one of trails, to MATCHED of those who see it, with paths."""

    def match(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        first, patch, chart = roster(standing, charted.first), _patch(change, charted.second), charted.load()
        for attributes, trails in batches:
            sight = Sight(chart, trails.to_numpy(zero_copy_only=False).astype(np.int64))
            yield from matches(pa.RecordBatch.from_struct_array(attributes), first, patch, sight)

    return _udf(match, tuple[pa.Array, pa.Array], WITH_PATH)


def _patch(change: Change | None, parties: Item | None = None) -> Patch | None:
    return Patch(roster(change.second, parties), change.before, change.dead) if change else None


def crosser(program: Item, charted: Charted) -> Callable[[Column, Column], Column]:
    """A function from a struct column of attributes, and one of trails, to the crossings that let the event pass."""

    def cross(batches: Iterator[tuple[pa.Array, pa.Array]]) -> Iterator[pa.Array]:
        mine, chart = get(program, Program.load), charted.load()
        everyone = np.arange(len(mine.ids), dtype=np.int32)
        for attributes, trails in batches:
            visible = Sight(chart, trails.to_numpy(zero_copy_only=False).astype(np.int64)).of(everyone)
            yield mine.match(pa.RecordBatch.from_struct_array(attributes), visible=visible)

    return _udf(cross, tuple[pa.Array, pa.Array], ArrayType(IntegerType(), False))


def recalling(asked: Recall) -> Callable[[Column], Column]:
    """A function from a column of keys to what is remembered under each."""

    def recall_keys(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for keys in batches:
            yield asked.of(keys)

    return _udf(recall_keys, pa.Array, LongType())


def judging(rows: DataFrame, asked: Recall | None) -> DataFrame:
    """The verdicts on rows that lie in one partition; see `udfs.judge`."""

    def judge_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken = [batch for batch in batches if batch.num_rows]
        if taken:
            yield from judge(pa.Table.from_batches(taken), asked).combine_chunks().to_batches()

    return rows.mapInArrow(judge_all, from_arrow_schema(VERDICT))


def _udf(function: Callable[..., Iterator[pa.Array]], taken: Any, type: DataType) -> Callable[..., Column]:
    # Spark reads the kind of UDF off the types themselves.
    function.__annotations__ = {"batches": Iterator[taken], "return": Iterator[pa.Array]}
    return arrow_udf(function, type)  # type: ignore[no-any-return]


def roster(standing: Standing, parties: Item | None = None) -> Roster:
    """The roster, mapped into this process."""
    known = (get(parties, load_parties),) if parties else ()
    return Roster(get(standing.program, Program.load), *get(standing.consumers, load_consumers), *known)


def save_parties(parties: NDArray[np.int32]) -> Callable[[Path], None]:
    """A writer of parties, for the shelf."""

    def save(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, parties, allow_pickle=False)

    return save


def load_parties(path: Path) -> NDArray[np.int32]:
    """What `save_parties` wrote."""
    found: NDArray[np.int32] = np.load(path, mmap_mode="r", allow_pickle=False)
    return found


def save_consumers(numbers: NDArray[np.int32], names: pa.StringArray) -> Callable[[Path], None]:
    """A writer of consumers, for the shelf."""

    def save(path: Path) -> None:
        columns = {"numbers": pa.array(numbers, pa.int32()), "names": names}
        lists = {name: pa.LargeListArray.from_arrays([0, len(array)], array) for name, array in columns.items()}
        batch = pa.RecordBatch.from_pydict(lists)
        with pa.ipc.new_file(path, batch.schema) as file:
            file.write_batch(batch)

    return save


def load_consumers(path: Path) -> tuple[NDArray[np.int32], pa.StringArray]:
    """What `save_consumers` wrote."""
    batch = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
    return batch.column("numbers")[0].values.to_numpy(), batch.column("names")[0].values
