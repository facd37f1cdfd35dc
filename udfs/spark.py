"""The one place where a kernel meets Spark: a compiled program as a column.

Law: the UDF is called once for each event, gets the referenced attributes only, and gives, for each event, one entry
per consumer with the consumer's subscriptions that matched; so one notification per consumer needs no shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from udfs.program import Program

MATCHED = ArrayType(
    StructType(
        [
            StructField("consumer", StringType(), False),
            StructField("subscription_ids", ArrayType(StringType(), False), False),
        ]
    ),
    False,
)


def matcher(program: Program, consumers: Sequence[str]) -> Callable[[Column], Column]:
    """A function from a struct column of attributes to MATCHED; `consumers[i]` holds the program's subscription i.

    Consumers must come sorted, as the subscriptions of one consumer must lie side by side.
    """
    names = pa.array(consumers, pa.string())
    ids = pa.array(program.subscription_ids, pa.string())
    change = np.asarray([i for i, name in enumerate(consumers) if i == 0 or name != consumers[i - 1]], dtype=np.int64)

    def match(attributes: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_struct_array(attributes)
        return by_consumer(program.match(batch), names, ids, change)

    match.__annotations__ = {"attributes": pa.Array, "return": pa.Array}  # Spark reads the kind of UDF off the types
    return arrow_udf(match, MATCHED)  # type: ignore[no-any-return]


def by_consumer(matched: pa.ListArray, consumers: pa.Array, ids: pa.Array, change: np.ndarray) -> pa.ListArray:
    """Group each event's ascending positions by consumer; `change` holds the first position of each consumer.

    >>> matched = pa.array([[0, 1, 2], [], [1]], pa.list_(pa.int32()))
    >>> by_consumer(matched, pa.array(["a", "a", "b"]), pa.array(["x", "y", "z"]), np.array([0, 2])).to_pylist()[0]
    [{'consumer': 'a', 'subscription_ids': ['x', 'y']}, {'consumer': 'b', 'subscription_ids': ['z']}]
    """
    positions = np.asarray(matched.flatten()).astype(np.int64)
    offsets = np.asarray(matched.offsets).astype(np.int64)
    offsets = offsets - offsets[0]
    owner = np.searchsorted(change, positions, side="right") - 1
    first = np.ones(len(positions), dtype=bool)  # the first match of a consumer within an event
    first[1:] = owner[1:] != owner[:-1]
    first[offsets[:-1][offsets[:-1] < len(positions)]] = True
    starts = np.flatnonzero(first)
    groups = pa.ListArray.from_arrays(
        pa.array(np.append(starts, len(positions)), pa.int32()), ids.take(pa.array(positions))
    )
    entries = pa.StructArray.from_arrays(
        [consumers.take(pa.array(positions[starts])), groups], ["consumer", "subscription_ids"]
    )
    return pa.ListArray.from_arrays(pa.array(np.searchsorted(starts, offsets), pa.int32()), entries)
