"""Scopes over several batches: what policies hold back and remember, edits in between, restarts and retries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from routing.checker import Edge, Event, Scope, System
from routing.checker.finding import HOLDS
from routing.checker.system import Content
from routing.engine import Engine
from tests.packed import SOURCE, Packed, moment, random_runs, renamed
from tests.spark.test_scopes import build, words
from tests.systems import Run

LATE = Scope("S", publishing="delay(10 seconds)")
SECRET: Content = {"price": 100, "a": 7, "tag": "x"}
CLOCKS = (1000.0, 1005.0, 1010.0, 1020.0)


def _late(edges: str, **interface: str) -> System:
    return build(words(edges), replace(LATE, **interface))


_HELD = _late("X>S S>T Y>T")
_TWICE = build(words("X>S S>T T>U Y>U"), LATE, Scope("T", publishing="delay(10 seconds)"))
_MAPPED = build([Edge("X", "S", up_mapping="price = price * 1.5, DROP a"), *words("S>T Y>T")], LATE)
RUNS: dict[str, list[System]] = {
    "it comes later": [_HELD],
    "to whoever is there then": [_HELD, _HELD, _late("X>S S>T Z>T")],
    "not to who has got it": [_late("X>S S>T Y>T X>U Y>U")],
    "as a later version": [_late("X>S S>T Y>T X>U Y>U", output_mapping="DROP a")],
    "not back": [_late("X>S W>S S>T S>U Y>T")],
    "nor if the scope is gone": [_HELD, replace(_HELD, scopes=(Scope("T"),))],
    "nor if it is closed": [_HELD, build(words("X>S S>T Y>T"), Scope("S", publishing="sometimes"))],
    "also if it forwards now": [_HELD, build(words("X>S S>T Y>T"))],
    "also if it discards now": [_HELD, build(words("X>S S>T Y>T"), Scope("S", publishing="discard"))],
    "held twice": [_TWICE],
    "what a mapping made of it": [_MAPPED],
    "and makes of it then": [_MAPPED, build([Edge("X", "S"), Edge("S", "T", up_mapping="b = price, DROP tag"), Edge("Y", "T")], LATE)],
    "through the edge's filter": [build([Edge("X", "S"), Edge("S", "T", up_filter="price > 100"), *words("Y>T S>U Z>U")], LATE)],
    "before new events": [build(words("X>S S>T T>U Y>U"), LATE, Scope("T", publishing="rate_limit(1, 1 hour)"))],
    "a later join does not bypass an interface": [
        build(words("X>S S>T Y>T"), Scope("S", output_mapping="DROP a")),
        build(words("X>S S>T Y>T S>U Z>U"), Scope("S", output_mapping="DROP a")),
    ],
    "nested one_of_n": [build(words("X>S A>S B>S S>T C>T D>T"), Scope("S", delivery="one_of_n"), Scope("T", delivery="one_of_n"))],
}  # fmt: skip


def _run(systems: list[System], prefix: str) -> Run:
    batches = [([Event(f"{prefix}X", f"{prefix}e{number}", SECRET)], clock) for number, clock in enumerate(CLOCKS)]
    named = [renamed(system, prefix) for system in systems]
    return Run(named[0], batches, named[1:])


def test_what_policies_hold_back_and_remember(make_engine: Callable[..., Engine]) -> None:
    runs = [_run(systems, f"r{place}-") for place, systems in enumerate(RUNS.values())]
    packed = Packed(make_engine, runs, notifications={"layout": "bucket"})
    differences = [packed.step(number, clock) for number, clock in enumerate(CLOCKS)]
    assert [f"{number}: {one}" for number, some in enumerate(differences) for one in some] == []


def test_the_checker_proves_and_refutes_scopes_mappings_and_policies(make_engine: Callable[..., Engine]) -> None:
    packed = Packed(make_engine, random_runs(0, 60), notifications={"layout": "bucket"})
    assert [packed.step(number, 1000.0 + 5 * number) for number in range(3)] == [[], [], []]
    engine = packed.engine
    assert [one for one in engine.check() if one.verdict != HOLDS] == []
    engine.tables.delete("notifications", F.expr("size(path) > 1 AND sequence % 3 = 0"))
    assert {one.property for one in engine.check() if one.verdict != HOLDS} == {"all_notified", "whole_batches"}


@pytest.mark.parametrize(
    ("crash_before", "meanwhile"), [("policy_state", False), ("notifications", False), ("notifications", True)]
)
def test_what_is_held_survives_restarts_and_comes_once(
    make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, crash_before: str, meanwhile: bool
) -> None:
    now = [1000.0]
    config = {"sources": {"events": SOURCE}, "notifications": {"layout": "bucket", "payload": "reference"}}
    config["clock"] = lambda: moment(now[0])
    engine = make_engine(**config)
    engine.create_scope("S", publishing="delay(10 seconds)")
    engine.create_scope("T")
    engine.join("X", "S", up_mapping="price = price * 1.5, DROP a")
    for child, parent in (("W", "S"), ("S", "T"), ("Y", "T")):
        engine.join(child, parent)
    engine.subscribe("Y", "price > 100 AND a IS NULL", id="changed")
    engine.subscribe("Y", "publisher = 'X' OR tag = 'y'", id="plain")
    engine.route(_events(engine, ("X", "e1", "x"), ("W", "e2", "y")))
    assert not engine.notifications("Y").count()
    engine.leave("X", "S")  # what a mapping has made stays so, though no boundary has that mapping any more

    now[0], engine = 1010.0, make_engine(reopen=True, **config)
    real = engine.tables.append

    def dying(table: str, *rows: object, **more: object) -> None:
        if table == crash_before:
            raise RuntimeError("killed")
        real(table, *rows, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(engine.tables, "append", dying)
    with pytest.raises(RuntimeError, match="killed"):
        engine.route(_events(engine), key="second")

    now[0], engine = 1015.0, make_engine(reopen=True, **config)
    if meanwhile:
        assert engine.route(_events(engine)).counts["notifications"] == 2
    again = engine.route(_events(engine), key="second")
    assert again.retry and again.counts["notifications"] == (0 if meanwhile else 2)
    now[0] = 1030.0
    assert engine.route(_events(engine)).counts["notifications"] == 0
    rows = engine.notifications("Y", source="events").collect()
    wanted = [("e1", ["changed"], 150, None), ("e2", ["plain"], 100, 1)]
    assert sorted((r["event_id"], r["subscription_ids"], r["price"], r["a"]) for r in rows) == wanted


def _events(engine: Engine, *events: tuple[str, str, str]) -> DataFrame:
    rows = [(id, publisher, moment(0), 1, 2, 100, tag, 0) for publisher, id, tag in events]
    return engine.spark.createDataFrame(rows, SOURCE["schema"])
