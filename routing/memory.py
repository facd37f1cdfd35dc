"""Publishing policies that remember: `rate_limit` and `throttle` (docs/scopes.md).

Law: what they remember is in `policy_state`, rows for each batch that let something pass. A batch reads the table as it
was when the batch was opened, the rows of batches that have delivered, and writes its own rows once: so a retry judges
the same. Each version that would leave a scope is judged once, in order of rank and then of how versions are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.delay import CONTENT, KEY, SCOPE, VALUE, state
from routing.scopes.policy import Publishing
from routing.snapshot import Snapshot
from schemas.delivery import RANK

TAKEN = "taken"
REMEMBERING = ("rate_limit", "throttle")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AT = "at"
_POLICIES = T.StructType(
    [
        T.StructField(SCOPE, T.StringType()),
        T.StructField("policy", T.StringType()),
        T.StructField("left", T.IntegerType()),
        T.StructField("since", T.LongType()),
        T.StructField("window", T.LongType()),
    ]
)
_WINDOWS = T.StructType([_POLICIES[SCOPE], T.StructField(KEY, T.StringType()), _POLICIES["window"]])


def judged(leaving: DataFrame, policies: Mapping[str, Publishing], snapshot: Snapshot) -> tuple[DataFrame, DataFrame]:
    """The versions (scope, rank, content) that may leave, of those that would; and what is to be remembered.

    `leaving` has a taken and a value too: that of the attribute which the scope throttles by, NULL if it does not.
    """
    table = leaving.sparkSession.createDataFrame(_table(policies, snapshot), _POLICIES)
    first = leaving.groupBy(SCOPE, RANK, CONTENT).agg(F.min(F.struct(TAKEN, VALUE)).alias("first"))
    rows = first.select(SCOPE, RANK, CONTENT, "first.*").join(F.broadcast(table), SCOPE)
    rows = rows.withColumn(KEY, F.concat_ws("|", "policy", VALUE))
    place = F.row_number().over(Window.partitionBy(SCOPE, KEY).orderBy(RANK, TAKEN))
    recent = F.coalesce(F.col(_AT) > F.col("since"), F.lit(False))
    passed = (
        _with_last(rows.withColumn("place", place), snapshot)
        .where((F.col("place") <= F.col("left")) & ~recent)
        .localCheckpoint()
    )
    return passed.select(SCOPE, RANK, CONTENT), _remembered(passed, snapshot)


def _table(policies: Mapping[str, Publishing], snapshot: Snapshot) -> list[tuple[object, ...]]:
    """For each scope: how many may pass here and now, and since when a value must not have passed."""
    clock = _micros(snapshot.opening.clock - _EPOCH)
    used = _used(policies, clock, snapshot)
    rows: list[tuple[object, ...]] = []
    for scope, policy in policies.items():
        interval = _micros(policy.interval)
        if policy.kind == "throttle":
            rows.append((scope, _name(policy), 1, clock - interval, None))
        else:
            rows.append((scope, _name(policy), policy.most - used.get(scope, 0), None, clock // interval))
    return rows


def _used(policies: Mapping[str, Publishing], clock: int, snapshot: Snapshot) -> dict[str, int]:
    """How many have passed in each rate limit's window: a row for each scope."""
    windows = [
        (scope, _name(policy), clock // _micros(policy.interval))
        for scope, policy in policies.items()
        if policy.kind == "rate_limit"
    ]
    if not windows or snapshot.memory is None:
        return {}
    mine = snapshot.memory.sparkSession.createDataFrame(windows, _WINDOWS)
    counts = snapshot.memory.select(SCOPE, KEY, F.from_json(VALUE, "window BIGINT, count INT").alias(VALUE))
    counts = counts.select(SCOPE, KEY, f"{VALUE}.*").join(F.broadcast(mine), [SCOPE, KEY, "window"])
    return {row[SCOPE]: row["used"] for row in counts.groupBy(SCOPE).agg(F.sum("count").alias("used")).collect()}


def _with_last(rows: DataFrame, snapshot: Snapshot) -> DataFrame:
    """The rows, with when each value of each throttle has passed last."""
    if snapshot.memory is None:
        return rows.withColumn(_AT, F.lit(None).cast(T.LongType()))
    at = F.get_json_object(VALUE, "$.at").cast(T.LongType())
    passed = snapshot.memory.where(F.col(KEY).startswith("throttle("))
    return rows.join(passed.groupBy(SCOPE, KEY).agg(F.max(at).alias(_AT)), [SCOPE, KEY], "left")


def _remembered(passed: DataFrame, snapshot: Snapshot) -> DataFrame:
    """The rows of `policy_state` that this batch writes."""
    clock = F.lit(_micros(snapshot.opening.clock - _EPOCH)).alias(_AT)
    counted = passed.groupBy(SCOPE, KEY, "window").agg(F.count(F.lit(1)).alias("count"))
    rate = F.to_json(F.struct("window", "count"))
    value = F.when(F.col("window").isNull(), F.to_json(F.struct(clock))).otherwise(rate)
    return state(counted, F.col(SCOPE), F.col(KEY), value, snapshot.opening)


def _name(policy: Publishing) -> str:
    """What is remembered belongs to the scope and this."""
    of = policy.attribute if policy.kind == "throttle" else policy.most
    return f"{policy.kind}({of}, {_micros(policy.interval)})"


def _micros(time: timedelta) -> int:
    return time // timedelta(microseconds=1)
