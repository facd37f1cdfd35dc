"""The one place where a kernel meets Spark: compiled programs as a column.

Law: the UDF is called once for each event, gets the referenced attributes only, and gives, for each event, one entry
per consumer with the consumer's subscriptions that matched. What travels with a task is where the programs lie, not
the programs; a worker maps each once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from udfs.program import Program
from udfs.roster import Patch, Roster, matches
from udfs.shelf import Item, get

MATCHED = ArrayType(
    StructType(
        [
            StructField("consumer", StringType(), False),
            StructField("subscription_ids", ArrayType(StringType(), False), False),
        ]
    ),
    False,
)


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


def matcher(standing: Standing, change: Change | None = None) -> Callable[[Column], Column]:
    """A function from a struct column of attributes to MATCHED."""

    def match(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        first = roster(standing)
        patch = Patch(roster(change.second), change.before, change.dead) if change else None
        for attributes in batches:
            yield from matches(pa.RecordBatch.from_struct_array(attributes), first, patch)

    # Spark reads the kind of UDF off the types themselves.
    match.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return arrow_udf(match, MATCHED)  # type: ignore[no-any-return]


def roster(standing: Standing) -> Roster:
    """The roster, mapped into this process."""
    return Roster(get(standing.program, Program.load), *get(standing.consumers, load_consumers))


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
