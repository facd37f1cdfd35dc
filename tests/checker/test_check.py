"""The checker: it proves what an engine did, and refutes every kind of tampering with it, naming the property."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routing.checker.finding import HOLDS, UNKNOWN, VIOLATED, Finding
from routing.checker.range import Options
from routing.engine import Engine

SCHEMA = (
    "id STRING, exchange STRING, at TIMESTAMP, symbol STRING, price DOUBLE, size BIGINT, day DATE, tag STRUCT<x: INT>"
)
PROPERTIES = [
    "whole_batches",
    "at_most_once",
    "admitted_once",
    "only_published",
    "publisher_order",
    "only_of_interest",
    "only_visible",
    "all_notified",
]


def verdicts(findings: list[Finding]) -> dict[str, str]:
    return {finding.property: finding.verdict for finding in findings}


def violated(engine: Engine, options: Options | None = None) -> set[str]:
    found = list(engine.check(options))
    assert all(bool(one.rows) == (one.verdict == VIOLATED) for one in found), found
    return {one.property for one in found if one.verdict == VIOLATED}


def quotes(engine: Engine, first: int, count: int) -> DataFrame:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows: list[Any] = [
        (f"q{n}", f"x{n % 3}", start + timedelta(seconds=n // 2), "ABC"[n % 3], n * 0.1, n, start.date(), (n % 5,))
        for n in range(first, first + count)
    ]
    return engine.spark.createDataFrame(rows, SCHEMA)


def routed(engine: Engine) -> Engine:
    """Three batches, with subscriptions that come, change, expire and go, and one that does not parse."""
    engine.subscribe("ann", "symbol = 'A' AND price > 0.5", id="s1")
    engine.subscribe("ann", "size >= 10 OR tag.x IS NULL", id="s2")
    engine.subscribe("bob", "tag.x = 3 AND day = DATE '2026-01-01'", id="s1")
    engine.subscribe("x1", "symbol LIKE 'B%'", id="own")
    engine.tables.insert(
        "subscriptions", engine.spark.createDataFrame([("eve", "price >")], "consumer string, filter string")
    )
    engine.route(quotes(engine, 0, 20))
    engine.subscribe("bob", "symbol IN ('B', 'C')", id="s1")
    engine.unsubscribe("ann", "s2")
    engine.route(quotes(engine, 10, 20))  # half of them came before
    engine.subscribe("late", "TRUE")
    engine.route(quotes(engine, 30, 15))
    return engine


def test_what_an_engine_does_holds(engine: Engine) -> None:
    routed(engine)
    findings = list(engine.check())
    assert verdicts(findings) == dict.fromkeys(PROPERTIES, HOLDS), [one for one in findings if one.verdict != HOLDS]
    assert next(one for one in findings if one.property == "at_most_once").checked > 50
    sampled = list(engine.check(Options(first=2, last=2, pairs=10, seed=7)))
    assert verdicts(sampled) == dict.fromkeys(PROPERTIES, HOLDS)
    assert "a sample of" in sampled[-1].words and "seed 7" in sampled[-1].words


A, B, X = "consumer = 'ann'", "consumer = 'bob'", "consumer = 'x1'"
TAMPERING: dict[str, tuple[list[Callable[[Engine], None]], set[str]]] = {
    "a row twice; another content": (
        [lambda e: _again(e, A, {}), lambda e: _update(e, X, event="parse_json('{\"price\": 1}')")],
        {"at_most_once", "whole_batches", "only_of_interest", "only_published"},
    ),
    "a row gone; another time": (
        [lambda e: _delete(e, B), lambda e: _update(e, A, published_at="published_at + INTERVAL 1 SECOND")],
        {"all_notified", "whole_batches", "only_published"},
    ),
    "somebody who never asked; the journal out of order": (
        [
            lambda e: _again(e, A, {"consumer": "'eve'"}),
            lambda e: _journal(e, "batch = 1 AND rank = 1", published_at="published_at + INTERVAL 1 DAY"),
        ],
        {"only_of_interest", "whole_batches", "publisher_order", "only_published"},
    ),
    "an event again in a later batch": (
        [lambda e: _again(e, f"{A} AND batch = 1", {"batch": "3", "sequence": "3 * power(2, 36) + 99 * 64"})],
        {"at_most_once", "whole_batches", "only_published", "only_visible"},
    ),
    "an event that nobody published; a reason that is none": (
        [
            lambda e: _again(e, A, {"event_id": "'made up'", "sequence": "power(2, 36) + 999 * 64"}),
            lambda e: _update(e, X, subscription_ids="array('other')"),
        ],
        {"only_published", "whole_batches", "only_visible", "only_of_interest"},
    ),
    "a batch that the ledger does not know": (
        [lambda e: _again(e, X, {"batch": "9", "event_id": "'new'", "sequence": "9 * power(2, 36)"})],
        {"whole_batches", "only_published", "only_visible"},
    ),
}


def test_tampering_is_found(engine: Engine) -> None:
    routed(engine)
    engine.close()
    whole = {name: engine.tables.version(name) for name in ("notifications", "events")}
    found = {}
    for what, (tampers, _) in TAMPERING.items():
        for tamper in tampers:
            tamper(engine)
        found[what] = violated(engine)
        for name, version in whole.items():
            engine.tables.delta(name).restoreToVersion(version)
    assert found == {what: wanted for what, (_, wanted) in TAMPERING.items()}


def test_what_cannot_be_checked_is_said(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(journal="keys")
    engine.subscribe("ann", "price > 1")
    engine.route(quotes(engine, 0, 20))
    found = verdicts(list(engine.check()))
    assert {name for name, verdict in found.items() if verdict == UNKNOWN} == {
        "only_of_interest",
        "only_visible",
        "all_notified",
    }
    assert VIOLATED not in found.values()


def _row(engine: Engine, condition: str) -> DataFrame:
    """One row of the notifications that satisfies the condition."""
    rows = engine.tables.read("notifications").where(condition).orderBy("consumer", "sequence").limit(1)
    return rows.localCheckpoint()


def _again(engine: Engine, condition: str, changes: dict[str, str]) -> None:
    row = _row(engine, condition)
    types = dict(row.dtypes)
    changed = row.withColumns({name: F.expr(text).cast(types[name]) for name, text in changes.items()})
    engine.tables.append("notifications", changed, tag="tampering")


def _delete(engine: Engine, condition: str) -> None:
    row = _row(engine, condition).first()
    assert row
    engine.tables.delete(
        "notifications", (F.col("sequence") == row["sequence"]) & (F.col("consumer") == row["consumer"])
    )


def _update(engine: Engine, condition: str, **changes: str) -> None:
    row = _row(engine, condition).first()
    assert row
    mine = (F.col("consumer") == row["consumer"]) & (F.col("sequence") == row["sequence"])
    engine.tables.delta("notifications").update(mine, {name: F.expr(text) for name, text in changes.items()})


def _journal(engine: Engine, condition: str, **changes: str) -> None:
    engine.tables.delta("events").update(F.expr(condition), {name: F.expr(text) for name, text in changes.items()})
