"""Stage four: delivery policies choose among the consumers whom a flow reaches.

Law: scopes judge from the innermost outwards, each flow by itself (docs/scopes.md): a choice is made among those whom
the choices further down have left. Scopes of one *level*, none of which is inside another, judge together. A choice
looks at names and properties and at the event's id, never at contents, so a retried batch chooses the same.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.filters import Filter
from routing.filters.ast import attributes
from routing.flow import JUDGED
from routing.mappings.conditions import condition
from routing.scopes.control import Scopes
from routing.scopes.policy import ALL, Delivery
from routing.snapshot import Snapshot
from schemas.delivery import CONSUMER, EVENT_ID, PUBLISHER, RANK

Value = TypeVar("Value", bound=Hashable)

_FLOW, _PROPERTIES, _COMPONENT = "flow", "properties", "component"
_NUMBER = r"\A[+-]?([0-9]++(\.[0-9]*+)?|\.[0-9]++)([eE][+-]?[0-9]++)?\z"
_DECIMAL = T.DecimalType(38, 18)
_EVERYONE = 2**31 - 1
_COMPONENTS = T.StructType(
    [
        T.StructField(CONSUMER, T.StringType()),
        T.StructField(_PROPERTIES, T.MapType(T.StringType(), T.StringType())),
    ]
)


@dataclass(frozen=True)
class Matched:
    """Those who match events where they were published, and those who match versions that have moved."""

    originals: DataFrame
    moved: DataFrame | None = None


def policy(matched: Matched, snapshot: Snapshot) -> DataFrame:
    """Reads rank, event_id, publisher, consumer, judged. Gives all rows but those of consumers that were not chosen.

    Where events were published nobody chooses: scopes that do are come down through.
    """
    if matched.moved is None or snapshot.scopes is None:
        return matched.originals
    rows, levels = matched.moved, _levels(snapshot.scopes)
    if levels:
        rows = _with_properties(rows, snapshot.scopes)
        for level in levels:
            rows = _judged(rows, level, snapshot.scopes)
    return matched.originals.unionByName(rows.select(*matched.originals.columns))


def _levels(scopes: Scopes) -> list[list[str]]:
    """The scopes that choose, by how many of them lie one inside the other below; the innermost first."""
    depth: dict[str, int] = {}
    for scope in reversed(scopes.graph.ordered):
        mine = depth.get(scope, 0)
        chooses = scopes.graph.scopes[scope].delivery != ALL
        for edge in scopes.graph.parents.get(scope, ()):
            depth[edge.parent] = max(depth.get(edge.parent, 0), mine + chooses)
    found: dict[int, list[str]] = {}
    for scope, state in scopes.graph.scopes.items():
        if state.delivery != ALL:
            found.setdefault(depth.get(scope, 0), []).append(scope)
    return [found[level] for level in sorted(found)]


def _judged(rows: DataFrame, level: list[str], scopes: Scopes) -> DataFrame:
    """The rows without those whose consumer a scope of this level has not chosen."""
    policies = {scopes.numbers[scope]: scopes.graph.scopes[scope].delivery for scope in level}
    names = F.create_map(*(F.lit(part) for scope in level for part in (scopes.numbers[scope], scope)))
    mine = F.filter(JUDGED, lambda flow: _scope(flow).isin(*policies))
    scope = _scope(F.col(_FLOW))
    hashed = F.md5(F.concat_ws("\0", F.lit("deliver"), names[scope], PUBLISHER, EVENT_ID, CONSUMER))
    order = [*_priority(policies, scope), hashed, F.col(CONSUMER)]
    place = F.dense_rank().over(Window.partitionBy(RANK, _FLOW).orderBy(*order))
    rows = rows.withColumn(_FLOW, F.get(mine, F.lit(0))).withColumn("chosen", place <= _most(policies, scope))
    return rows.where(F.col(_FLOW).isNull() | (F.col("chosen") & _passing(policies, scope))).drop(_FLOW, "chosen")


def _scope(flow: Column) -> Column:
    """The number of the scope that judges a flow."""
    return F.substring_index(flow, "|", 1).cast(T.IntegerType())


def _most(policies: Mapping[int, Delivery], scope: Column) -> Column:
    """How many consumers the scope chooses."""
    pairs = [(number, policy.most or _EVERYONE) for number, policy in policies.items()]
    return F.create_map(*(F.lit(part) for pair in pairs for part in pair))[scope]


def _priority(policies: Mapping[int, Delivery], scope: Column) -> list[Column]:
    """By the property that a scope looks at: numbers by value, other texts by code point, those without one last."""
    named = _grouped({number: policy.property for number, policy in policies.items()})
    if not named:
        return []
    text = F.lit(None).cast(T.StringType())
    for name, numbers in named.items():
        text = F.when(scope.isin(numbers), F.col(_PROPERTIES)[name]).otherwise(text)
    kind = F.when(_is_number(text), 0).when(text.isNotNull(), 1).otherwise(2)
    return [kind, F.when(kind == 0, text.try_cast(T.DoubleType())), _number(text), F.when(kind == 1, text)]


def _passing(policies: Mapping[int, Delivery], scope: Column) -> Column:
    """Whether the consumer satisfies the predicate of a scope that has one."""
    passes = F.lit(True)
    filters: dict[Filter, list[int]] = _grouped({number: policy.filter for number, policy in policies.items()})
    for filter, numbers in filters.items():
        known = {name: _property(name) for name in attributes(filter)}
        verdict = F.coalesce(condition(filter, known), F.lit(False))
        passes = F.when(scope.isin(numbers), verdict).otherwise(passes)
    return passes


def _grouped(values: Mapping[int, Value | None]) -> dict[Value, list[int]]:
    """The scopes of each value: many have the same, and a column is made for it once."""
    found: dict[Value, list[int]] = {}
    for number, value in values.items():
        if value is not None:
            found.setdefault(value, []).append(number)
    return found


def _property(name: str) -> list[tuple[Column, T.DataType]]:
    """A property is a text, and a number if it reads as one."""
    text = F.col(CONSUMER) if name == _COMPONENT else F.col(_PROPERTIES)[name]
    beyond = F.when(_is_number(text) & _number(text).isNull(), text.try_cast(T.DoubleType()))
    return [(text, T.StringType()), (_number(text), _DECIMAL), (beyond, T.DoubleType())]


def _number(text: Column) -> Column:
    return F.when(_is_number(text), text.try_cast(_DECIMAL))


def _is_number(text: Column) -> Column:
    return F.rlike(text, F.lit(_NUMBER))


def _with_properties(rows: DataFrame, scopes: Scopes) -> DataFrame:
    """Join what is known of the consumers, if a policy looks at it."""
    policies = [scope.delivery for scope in scopes.graph.scopes.values()]
    if not any(policy.property is not None or policy.filter is not None for policy in policies):
        return rows
    known = [(name, dict(properties)) for name, properties in scopes.properties.items() if properties]
    table = rows.sparkSession.createDataFrame(known, _COMPONENTS)
    return rows.join(F.broadcast(table), CONSUMER, "left")
