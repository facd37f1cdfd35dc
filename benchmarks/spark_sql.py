"""What Spark SQL does alone: subscriptions as rows, joined with events on one equality each, the rest as a filter.

The predicates of a subscription are an array of structs; `forall` tests them on the event's values, kept in two maps.
A subscription without an equality meets every event. (Counting matched predicates by a join and a GROUP BY is slower.)
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import reduce
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks import workload
from routing.filters import parse
from routing.filters.ast import And, Comparison, Filter, Not, TextTest

TEXTS = [name for name in workload.NAMES if workload.SCHEMA.field(name).type == pa.string()]
NUMBERS = [name for name in workload.NAMES if name not in TEXTS]
Predicate: TypeAlias = tuple[str, str, str | None, float | None]
_COMPARED: dict[str, Callable[[Column, Column], Column]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PREDICATE = "struct<attribute: string, op: string, text: string, number: double>"


def spark_sql_matches(spark: SparkSession, events: DataFrame, subscriptions: Iterable[tuple[str, str]]) -> DataFrame:
    """A row (id, subscription) for every match."""
    rows = [_row(id, parse(text)) for id, text in subscriptions]
    schema = f"subscription string, attribute string, value string, predicates array<{_PREDICATE}>"
    known = spark.createDataFrame(rows, schema).repartition(4).localCheckpoint()
    prepared = events.select("id", _map(TEXTS, "string"), _map(NUMBERS, "double")).localCheckpoint()
    named = prepared.select(
        "*", F.explode(F.map_concat(F.col("string"), _texts_of_numbers())).alias("attribute", "value")
    )
    joined = named.join(F.broadcast(known.where(F.col("attribute").isNotNull())), ["attribute", "value"])
    crossed = prepared.crossJoin(F.broadcast(known.where(F.col("attribute").isNull())))
    found = [some.where(F.forall("predicates", _holds)).select("id", "subscription") for some in (joined, crossed)]
    return reduce(DataFrame.unionAll, found)


def _row(
    id: str, filter: Filter
) -> tuple[str, str | None, str | None, list[tuple[str, str, str | None, float | None]]]:
    predicates = [_predicate(part) for part in (filter.parts if isinstance(filter, And) else (filter,))]
    equality = next((one for one in predicates if one[1] == "="), None)
    if equality is None:
        return id, None, None, predicates
    attribute, _, text, number = equality
    rest = [one for one in predicates if one is not equality]
    return id, attribute, text if number is None else str(number), rest


def _predicate(filter: Filter) -> Predicate:
    match filter:
        case Comparison(attribute, operation, literal):
            value = literal.value
            return (
                (attribute, operation.value, value, None)
                if isinstance(value, str)
                else (attribute, operation.value, None, float(value))  # type: ignore[arg-type]
            )
        case TextTest(attribute, test, text):
            return attribute, test.value, text, None
        case Not():
            return filter.part.attribute, "ANY", None, None  # type: ignore[union-attr]
    raise ValueError(f"not in the workload: {filter}")


def _map(names: list[str], type: str) -> Column:
    pairs = F.array(*(F.struct(F.lit(name), F.col(name).cast(type)) for name in names))
    return F.map_from_entries(F.filter(pairs, lambda pair: pair["col2"].isNotNull())).alias(type)


def _texts_of_numbers() -> Column:
    return F.transform_values("double", lambda _, value: value.cast("string"))


def _holds(predicate: Column) -> Column:
    text, number = F.col("string")[predicate["attribute"]], F.col("double")[predicate["attribute"]]
    is_number = predicate["number"].isNotNull()
    found = F.lit(False)
    for name, compared in _COMPARED.items():
        true = F.when(is_number, compared(number, predicate["number"])).otherwise(compared(text, predicate["text"]))
        found = F.when(predicate["op"] == name, true).otherwise(found)
    for name, test in (("STARTSWITH", F.startswith), ("ENDSWITH", F.endswith), ("CONTAINS", F.contains)):
        found = F.when(predicate["op"] == name, test(text, predicate["text"])).otherwise(found)
    found = F.when(predicate["op"] == "ANY", text.isNotNull() | number.isNotNull()).otherwise(found)
    return F.coalesce(found, F.lit(False))
