"""Every attack of the list against a running engine: it costs itself. Others get all that is theirs, nothing is executed or read."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from routing.engine import Engine
from tests.attacks import Attack, attacks

SECRET = "what nobody may read"


def good(number: int, publisher: str = "NYSE") -> str:
    return json.dumps(
        {"id": f"good-{number}", "exchange": publisher, "at": "2026-01-05T10:00:00Z", "price": number, "symbol": "DIS"}
    )


def storable(attack: Attack) -> bool:
    """A lone surrogate is no UTF-8: Spark itself takes no such text."""
    return not any(0xD800 <= ord(character) < 0xE000 for character in attack.text)


def insert(engine: Engine, table: str, schema: str, rows: list[tuple[Any, ...]]) -> None:
    engine.tables.insert(table, engine.spark.createDataFrame(rows, schema))


def test_hostile_rows_and_events_cost_themselves(
    spark: SparkSession, make_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    engine, canary = make_engine(), tmp_path / "canary"
    canary.write_text(SECRET)
    filters, names = [a for a in attacks("filter") if storable(a)], attacks("name")
    mappings, policies, events = attacks("mapping"), attacks("policy"), attacks("event")
    subscriptions = [(f"attacker {a.name}", a.text.replace("CANARY", str(canary)), "1") for a in filters]
    insert(engine, "subscriptions", "consumer string, filter string, id string", subscriptions)
    kept = [(a.text, "TRUE") for a in names if a.answer == "delivered"]
    insert(engine, "subscriptions", "consumer string, filter string", kept)
    for attack in names:
        if attack.answer == "rejected":
            with pytest.raises(Py4JJavaError, match="consumer_is_named"):
                insert(engine, "subscriptions", "consumer string, filter string", [(attack.text, "TRUE")])
    insert(engine, "subscriptions", "consumer string, filter string", [("witness", "TRUE"), ("outsider", "TRUE")])
    lasting = "consumer string, filter string, expires_at timestamp"
    insert(engine, "subscriptions", lasting, [("expired", "TRUE", datetime(1600, 1, 1, tzinfo=UTC))])
    scopes = [("outside", None), ("ring", None), ("ring 2", None)]
    scopes += [(a.name, None) for a in mappings] + [(a.name, a.text) for a in policies]
    insert(engine, "scopes", "scope string, publishing string", scopes)
    edges = [("mapper", a.name, None) for a in (*mappings, *policies)] + [("outsider", "outside", None)]
    edges += [(a.name, "outside", a.text.replace("CANARY", str(canary))) for a in mappings]
    edges += [(a.name, "outside", None) for a in policies]
    edges += [("ring", "ring 2", None), ("ring 2", "ring", None), ("ring", "ring", None), ("witness", "nowhere", None)]
    insert(engine, "scope_edges", "child string, parent string, up_mapping string", edges)

    feed = tmp_path / "feed"
    lines = [good(1), *(a.text for a in events), good(2), good(3, publisher="mapper"), good(2).replace("DIS", "other")]
    (feed / "1.json").write_text("\n".join(lines) + "\n", encoding="utf-8")
    engine.start().await_termination()
    (feed / "2.json").write_text(good(4) + "\n")
    engine.start().await_termination()

    admitted = {json.loads(a.text)["id"] for a in events if a.answer == "admitted"} | {"good-1", "good-2", "good-4"}
    rows = engine.tables.read("notifications").select("consumer", "event_id").toArrow().to_pylist()
    got: dict[str, list[str]] = {}
    for row in rows:
        got.setdefault(row["consumer"], []).append(row["event_id"])
    assert sorted(got["witness"]) == sorted(admitted)
    assert sorted(got["attacker everything"]) == sorted(admitted)
    assert "attacker nothing" not in got and "expired" not in got

    wrong = engine.tables.read("rejections").toArrow().to_pylist()
    refused = {row["owner"] for row in wrong if row["table_name"] == "subscriptions" and row["severity"] == "error"}
    for attack in filters:
        assert (f"attacker {attack.name}" in refused) == (attack.answer == "rejected"), attack.name
        assert attack.answer != "rejected" or f"attacker {attack.name}" not in got, attack.name
    for attack in names:
        assert sorted(got.get(attack.text, [])) == (sorted(admitted) if attack.answer == "delivered" else []), (
            attack.name
        )
    bad_edges = {row["owner"] for row in wrong if row["table_name"] == "scope_edges"}
    for attack in mappings:
        assert (attack.name in bad_edges) == (attack.answer == "rejected"), attack.name
    assert {"ring", "ring 2", "witness"} & bad_edges == {"ring", "ring 2", "witness"}
    assert {a.name for a in policies} == {row["owner"] for row in wrong if row["table_name"] == "scopes"}

    dead = engine.tables.read("dead_letters").toArrow().to_pylist()
    reasons = {row["raw"]: row["reason"] for row in dead}
    for attack in events:
        if attack.answer == "malformed":
            assert reasons[attack.text] == "malformed", attack.name
    counted = [row["reason"] for row in dead]
    assert len([a for a in events if a.answer == "refused"]) == sum(r.startswith("missing") for r in counted)
    assert counted.count("conflict") == 1

    for table in ("notifications", "events", "dead_letters", "batches", "policy_state"):
        texts = engine.tables.read(table).select(F.to_json(F.struct("*")).alias("row"))
        assert texts.where(F.col("row").contains(SECRET)).isEmpty(), table
    assert canary.read_text() == SECRET
    assert {*engine.tables.described} <= {table.name for table in spark.catalog.listTables(engine.config.database)}
