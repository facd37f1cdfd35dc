"""Following the subscriptions table: what is told by its changes is what a look at all rows tells."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from routing import subscriptions
from routing.engine import Engine
from routing.subscriptions import Active, Control

NOW = datetime(2026, 1, 31, 10, tzinfo=UTC)


def rows(active: Active) -> dict[tuple[str, str], str]:
    """What is active, by key."""
    out = set(active.dead.tolist())
    editions = [(active.edition, out), *([(active.since, set[int]())] if active.since else [])]
    return {
        key: text
        for edition, gone in editions
        for at, (key, text) in enumerate(zip(edition.pairs(), edition.texts.to_pylist(), strict=True))
        if at not in gone
    }


def versions(engine: Engine) -> dict[str, int]:
    return {"subscriptions": engine.tables.version("subscriptions")}


def check(engine: Engine, control: Control, clock: datetime = NOW) -> Active:
    followed, read = control.active(versions(engine), clock), Control(engine.tables).active(versions(engine), clock)
    assert rows(followed) == rows(read)
    assert sorted(followed.problems, key=str) == sorted(read.problems, key=str)
    assert len(followed) == len(read) == len(rows(read))
    return followed


def test_each_kind_of_change_is_followed_without_reading_all_again(engine: Engine) -> None:
    table, control = engine.tables.name("subscriptions"), Control(engine.tables)
    run = engine.spark.sql
    run(f"INSERT INTO {table} (consumer, filter, id) VALUES ('a', 'x > 1', '1'), ('b', 'x > 2', '1'), ('c', 'x', NULL)")
    first = check(engine, control).edition
    run(f"INSERT INTO {table} (consumer, filter) VALUES ('a', 'x > 3'), ('d', 'x >')")
    run(f"UPDATE {table} SET filter = 'x > 9' WHERE consumer = 'b'")
    active = check(engine, control)
    assert active.edition is first and len(active.dead) == 1 and len(active.problems) == 1
    run(f"DELETE FROM {table} WHERE consumer IN ('a', 'd')")
    run(f"INSERT INTO {table} (consumer, filter, id) VALUES ('c', 'NOT x', 'new'), ('a', 'x < 0', '1')")
    run(f"MERGE INTO {table} t USING (SELECT 'b' c) s ON t.consumer = s.c WHEN MATCHED THEN UPDATE SET filter = 'TRUE'")
    run(f"OPTIMIZE {table}")
    assert check(engine, control).edition is first


def test_of_two_rows_with_one_key_the_newest_counts_also_when_it_goes(engine: Engine) -> None:
    table, control = engine.tables.name("subscriptions"), Control(engine.tables)
    run = engine.spark.sql
    run(f"INSERT INTO {table} (consumer, filter, id) VALUES ('a', 'x > 1', '1')")
    check(engine, control)
    run(f"INSERT INTO {table} (consumer, filter, id) VALUES ('a', 'x > 2', '1')")
    assert rows(check(engine, control)) == {("a", "1"): "x > 2"}
    run(f"DELETE FROM {table} WHERE filter = 'x > 2'")
    assert rows(check(engine, control)) == {("a", "1"): "x > 1"}
    run(f"INSERT INTO {table} (consumer, filter, id) VALUES ('a', 'x > 3', '1'), ('a', 'x > 4', '1')")
    check(engine, control)
    run(f"RESTORE TABLE {table} TO VERSION AS OF 2")
    assert rows(check(engine, control)) == {("a", "1"): "x > 2"}


def test_a_subscription_ends_at_its_time_without_a_new_version(engine: Engine) -> None:
    control = Control(engine.tables)
    engine.subscribe("a", "x > 1", id="1", expires_at=NOW + timedelta(minutes=1))
    check(engine, control)
    engine.subscribe("b", "x > 2", id="1", expires_at=NOW + timedelta(minutes=2))
    seen = [set(rows(check(engine, control, NOW + timedelta(minutes=late)))) for late in (0, 1, 2, 3)]
    assert seen == [{("a", "1"), ("b", "1")}, {("a", "1"), ("b", "1")}, {("b", "1")}, set()]


def test_a_change_that_has_grown_becomes_a_new_edition(
    make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "FOLD", 3)
    engine = make_engine()
    table, control, random = engine.tables.name("subscriptions"), Control(engine.tables), Random(1)
    editions = set()
    for number in range(8):
        values = ", ".join(f"('c{random.randrange(5)}', 'x > {random.randrange(9)}')" for _ in range(3))
        engine.spark.sql(f"INSERT INTO {table} (consumer, filter) VALUES {values}")
        if number % 3 == 2:
            engine.spark.sql(f"DELETE FROM {table} WHERE consumer = 'c{random.randrange(5)}'")
        editions.add(check(engine, control).edition.number)
        if control._next is not None:
            control._next.join()
    assert len(editions) > 2


def test_a_retry_of_an_older_version_reads_that_version(engine: Engine) -> None:
    control = Control(engine.tables)
    engine.subscribe("a", "x > 1", id="1")
    older = versions(engine)
    engine.subscribe("b", "x > 2", id="1")
    assert len(control.active(versions(engine), NOW)) == 2
    assert len(control.active(older, NOW)) == 1
    assert len(control.active(versions(engine), NOW)) == 2
