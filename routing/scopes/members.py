"""Components that are alike, found by Spark: where edges are many, the driver sees one component of each kind.

Law: a *member* is a component that no table singles out, with edges that do nothing, to scopes that choose and refuse
nobody. Members of the same scopes are one party, so the first of them by name stands in for all: what is computed for
it holds for each. The answers are those that the driver finds from all edges, and below a bound it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.model import UNUSABLE_NAMES
from routing.scopes.security import ANYONE, Grants

ON_DRIVER = 200_000
"""Edges up to which the driver looks at each of them; collecting a million takes it minutes and gigabytes."""

_CHILD, _PARENT = "child", "parent"
_GATES = ("up_filter", "up_mapping", "down_filter", "down_mapping")
_ALONE, _STAND_IN = "alone", "stand_in"


@dataclass(frozen=True, eq=False)
class Members:
    """The members but for those that stand in for others: their names, and who stands in for each."""

    names: pa.StringArray
    stand_ins: pa.StringArray

    @cached_property
    def behind(self) -> Mapping[str, list[str]]:
        """For whom each stands in."""
        found: dict[str, list[str]] = {}
        for name, stand_in in zip(self.names.to_pylist(), self.stand_ins.to_pylist(), strict=True):
            found.setdefault(stand_in, []).append(name)
        return found


NOBODY = Members(pa.array([], pa.string()), pa.array([], pa.string()))


def reduced(
    edges: DataFrame, scopes: Iterable[str], choosing: Iterable[str], grants: Grants
) -> tuple[DataFrame, Members]:
    """The edges without those of components for whom another stands in; and these. Of each edge there is one row.

    The `choosing` scopes are those with a delivery policy.
    """
    spark, known = edges.sparkSession, {*scopes} - {*UNUSABLE_NAMES, ANYONE}  # no row makes a scope of these
    guarded = {scope for _, scope in grants.verdicts}
    principals = {name for some in grants.verdicts.values() for name in some}
    apart = {*known, *principals, *grants.groups, *UNUSABLE_NAMES, ANYONE}
    plain = F.col("open").isNotNull() & F.col("apart").isNull()
    for gate in _GATES:
        plain &= F.col(gate).isNull()
    marked = edges.join(_named(spark, _PARENT, "open", known - guarded - set(choosing)), _PARENT, "left")
    marked = marked.join(_named(spark, _CHILD, "apart", apart), _CHILD, "left").withColumn("plain", plain)
    kinds = marked.groupBy(_CHILD).agg(
        (~F.bool_and("plain")).alias(_ALONE), F.array_sort(F.collect_set(_PARENT)).alias("scopes")
    )
    alike = Window.partitionBy(_ALONE, "scopes")
    first = F.when(F.col(_ALONE), F.col(_CHILD)).otherwise(F.min(_CHILD).over(alike))
    found = kinds.select(_CHILD, first.alias(_STAND_IN)).where(F.col(_CHILD) != F.col(_STAND_IN)).localCheckpoint()
    table = found.orderBy(_CHILD).toArrow().combine_chunks()
    members = Members(*(_one(table[name]) for name in (_CHILD, _STAND_IN)))
    return edges.join(found, _CHILD, "left_anti"), members


def _one(column: pa.ChunkedArray) -> pa.StringArray:
    return pa.concat_arrays([chunk.cast(pa.string()) for chunk in column.chunks]) if column.num_chunks else NOBODY.names


def _named(spark: SparkSession, name: str, mark: str, names: Iterable[str]) -> DataFrame:
    schema = T.StructType([T.StructField(name, T.StringType()), T.StructField(mark, T.BooleanType())])
    table = pa.table({name: pa.array(sorted(names), pa.string())})
    return F.broadcast(spark.createDataFrame(table).withColumn(mark, F.lit(True)).to(schema))
