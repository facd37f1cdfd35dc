"""Who may subscribe for whom: by call at once, by raw SQL at the next batch, by the recorded user."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import functions as F

from routing.checker.finding import HOLDS
from routing.engine import Engine
from routing.errors import SubscriptionError

SCHEMA = "id STRING, exchange STRING, at TIMESTAMP, price DOUBLE"


def route(engine: Engine, id: str) -> set[str]:
    """Who is notified of an event."""
    row: Any = (id, "x", datetime(2026, 1, 1, tzinfo=UTC), 5.0)
    report = engine.route(engine.spark.createDataFrame([row], SCHEMA))
    found = engine.tables.read("notifications").where(F.col("batch") == report.ordinal).collect()
    return {row["consumer"] for row in found}


def insert(engine: Engine, table: str, columns: str, *values: tuple[Any, ...]) -> None:
    engine.tables.insert(table, engine.spark.createDataFrame(list(values), columns))


def grant(engine: Engine, *rows: tuple[str, str, int, bool]) -> None:
    columns = "principal STRING, action STRING, object STRING, priority INT, allowed BOOLEAN"
    insert(engine, "grants", columns, *((who, "act_for", whom, first, may) for who, whom, first, may in rows))


def test_only_who_may_act_subscribes_for_others(engine: Engine) -> None:
    me = engine.spark.range(1).select(F.session_user()).collect()[0][0]
    engine.subscribe("desk", "price > 1", id="before")
    engine.subscribe("open", "price > 1")
    assert route(engine, "1") == {"desk", "open"}
    grant(engine, ("clerk", "desk", 0, True), ("staff", "team", 0, True))
    assert route(engine, "2") == {"open"}
    problems = engine.tables.read("rejections").collect()
    assert [(row["owner"], row["id"]) for row in problems] == [("desk", "before")]
    assert f"{me} may not subscribe for desk" in problems[0]["reason"]
    many = engine.spark.createDataFrame([("open", "TRUE"), ("desk", "TRUE")], "consumer string, filter string")
    for attempt in (
        lambda: engine.subscribe("desk", "TRUE"),
        lambda: engine.unsubscribe("desk", "before"),
        lambda: engine.subscribe_many(many),
    ):
        with pytest.raises(SubscriptionError, match="may not subscribe for desk"):
            attempt()
    # By raw SQL the recorded user counts: a clerk, the consumer itself, one of a group, and one who is none of these.
    rows = [
        ("desk", "by a clerk", "clerk"),
        ("team", "by itself", "team"),
        ("team", "by eve", "eve"),
        ("desk", "x", "eve"),
    ]
    insert(
        engine,
        "subscriptions",
        "consumer STRING, filter STRING, id STRING, created_by STRING",
        *((whom, "price > 1", id, who) for whom, id, who in rows),
    )
    assert route(engine, "3") == {"open", "desk", "team"}
    listed = {
        row["consumer"]: row["subscription_ids"]
        for row in engine.tables.read("notifications").where("event_id = 3").collect()
    }
    assert listed["desk"] == ["by a clerk"] and listed["team"] == ["by itself"]
    insert(engine, "components", "component STRING, properties MAP<STRING, STRING>", ("eve", {"groups": "staff"}))
    grant(engine, ("clerk", "desk", 1, False), (me, "desk", 1, True))
    assert route(engine, "4") == {"open", "desk", "team"}
    listed = {
        row["consumer"]: row["subscription_ids"]
        for row in engine.tables.read("notifications").where("event_id = 4").collect()
    }
    assert listed["desk"] == ["before"] and listed["team"] == ["by eve", "by itself"]
    assert engine.unsubscribe("desk", "before") == 1
    assert route(engine, "5") == {"open", "team"}
    engine.tables.delete("grants", F.lit(True))
    assert route(engine, "6") == {"open", "desk", "team"}
    assert [one for one in engine.check() if one.verdict != HOLDS] == []
