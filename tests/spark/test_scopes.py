"""Scopes in the engine: the papers' examples, leaks, and calls. Random systems, and batches after batches, are in tests/scopes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from pyspark.sql import functions as F

from routing.checker import Component, Edge, Event, Grant, Scope, Subscription, System
from routing.checker.content import sameness
from routing.checker.system import Content
from routing.engine import Engine
from routing.errors import ScopeError
from tests.packed import ATTRIBUTES, SOURCE, Packed, renamed
from tests.systems import Run

N: Content = {"price": 100, "a": 7}
F7: Content = {"price": 100}  # without the secret attribute a


class Example(NamedTuple):
    """A system, who publishes what, and what each consumer gets of it."""

    system: System
    publisher: str
    content: Content
    wanted: dict[str, list[Content]]


def build(edges: Iterable[Edge], *scopes: Scope, **more: Any) -> System:
    """Every parent is a scope, every other child subscribes to everything."""
    rows = tuple(edges)
    named = {scope.name for scope in scopes}
    parents = {edge.parent for edge in rows} - named
    everyone = sorted({edge.child for edge in rows} - parents - named)
    made = tuple(Subscription(name, "all", "TRUE") for name in everyone)
    return System((*scopes, *map(Scope, sorted(parents))), rows, subscriptions=made, **more)


def words(text: str) -> list[Edge]:
    return [Edge(*word.split(">")) for word in text.split()]


SPEC_5 = build(words("C1>S1 C2>S1 C2>S2 C3>S2 S2>S3 C4>S3"))
ONE = [Edge("A", "T", down_mapping="tag = 'a'"), Edge("B", "T", down_mapping="tag = 'b'")]
A, B = {**N, "tag": "a"}, {**N, "tag": "b"}
TWO = build([Edge("K", "S1", up_mapping="DROP a"), *words("X>K Z>K K>S2 S1>T S2>T P>S1 Q>S2 R>T")])
THREE = build([Edge("K", "S1", down_mapping="DROP a"), *words("K>S2 X>S1 W>S1 Y>K Z>S2")])
MARKET = build(
    words("broker>market dealer>market market>city reader>city"),
    Scope("market", output_filter="tag = 'trade'", output_mapping="DROP a"),
)
TRADE, QUOTE = {"tag": "trade", "a": 1}, {"tag": "quote", "a": 1}
INNER = Scope("inner", input_mapping="tag = 'binary'", output_mapping="tag = 'xml'")
ORDER = build(
    [Edge("K", "S", up_mapping="b = a", down_mapping="a = 3"), Edge("X", "K"), Edge("Z", "S")],
    Scope("K", output_mapping="a = 2", input_mapping="price = a", input_filter="a = 3"),
)
EXAMPLES = {
    "§5, C1": Example(SPEC_5, "C1", N, {"C1": [N], "C2": [N]}),
    "§5, C2": Example(SPEC_5, "C2", N, {name: [N] for name in ("C1", "C2", "C3", "C4")}),
    "§5, C3": Example(SPEC_5, "C3", N, {name: [N] for name in ("C2", "C3", "C4")}),
    "§5, C4": Example(SPEC_5, "C4", N, {name: [N] for name in ("C2", "C3", "C4")}),
    "§6, first": Example(
        build([*ONE, *words("X>A X>B Y>A Z>B W>T")]), "X", N, {"X": [N], "Y": [N, A], "Z": [N, B], "W": [N]}
    ),
    "§6, first, without X in B": Example(
        build([*ONE, *words("X>A Y>A Z>B W>T")]), "X", N, {"X": [N], "Y": [N], "Z": [B], "W": [N]}
    ),
    "§6, second": Example(TWO, "X", N, {"X": [N], "Z": [N, F7], "P": [N, F7], "Q": [N, F7], "R": [N, F7]}),
    "§6, third, X": Example(THREE, "X", N, {"X": [N], "W": [N], "Y": [F7]}),
    "§6, third, Z": Example(THREE, "Z", N, {"Z": [N], "Y": [N]}),
    "§6, third, Y": Example(THREE, "Y", N, {"Y": [N], "X": [N], "W": [N], "Z": [N]}),
    "a diamond": Example(build(words("X>K K>A K>B A>T B>T Y>T")), "X", N, {"X": [N], "Y": [N]}),
    "a market, inside": Example(MARKET, "broker", QUOTE, {"broker": [QUOTE], "dealer": [QUOTE]}),
    "a market, outside": Example(
        MARKET, "broker", TRADE, {"broker": [TRADE], "dealer": [TRADE], "reader": [{"tag": "trade"}]}
    ),
    "representations": Example(
        build(words("X>inner inner>outer Z>outer"), INNER), "Z", {"tag": "xml"},
        {"Z": [{"tag": "xml"}], "X": [{"tag": "binary"}]},
    ),
    "interface and edge, up": Example(ORDER, "X", {"a": 1}, {"X": [{"a": 1}], "Z": [{"a": 2, "b": 2}]}),
    "interface and edge, down": Example(ORDER, "Z", {"a": 1}, {"Z": [{"a": 1}], "X": [{"a": 3, "price": 3}]}),
    "a policy-free path beside a policy": Example(
        build(words("X>S Y>S Z>S X>T Y>T Z>T"), Scope("S", delivery="one_of_n")),
        "X", N, {"X": [N], "Y": [N], "Z": [N]},
    ),
}  # fmt: skip


def one_batch(example: Example, prefix: str) -> Run:
    event = Event(prefix + example.publisher, f"{prefix}e", example.content)
    return Run(renamed(example.system, prefix), [([event], 1000.0)], [])


def test_the_papers_examples_and_leaks(make_engine: Callable[..., Engine]) -> None:
    """In one batch: Spark takes as long for one system as for hundreds."""
    runs = [one_batch(example, f"x{place}-") for place, example in enumerate(EXAMPLES.values())]
    leaks, wanted = leaking_systems()
    secret: Content = {"a": 1, "tag": SECRET}
    runs += [one_batch(Example(system, "X", secret, {}), f"l{place}-") for place, system in enumerate(leaks)]
    packed = Packed(make_engine, runs, notifications={"layout": "bucket"})
    assert packed.step(0, 1000.0) == []
    check_examples(packed)
    check_leaks(packed, wanted)


def check_examples(packed: Packed) -> None:
    for place, (name, example) in enumerate(EXAMPLES.items()):
        prefix, found = f"x{place}-", dict[str, list[object]]()
        for row in packed.delivered.get((prefix + example.publisher, f"{prefix}e"), []):
            found.setdefault(row[0].removeprefix(prefix), []).append(row[3])
        wanted = {consumer: Counter(map(sameness, some)) for consumer, some in example.wanted.items()}
        assert {consumer: Counter(some) for consumer, some in found.items()} == wanted, name


SECRET = "x-SECRET"
LEAKS = {
    "edge, up filter": (Edge("K", "S", up_filter="a = 2"), Scope("K"), None),
    "edge, up mapping": (Edge("K", "S", up_mapping="DROP tag"), Scope("K"), {"a": 1}),
    "edge, mapping to another value": (Edge("K", "S", up_mapping="tag = 'public'"), Scope("K"), {"a": 1, "tag": "public"}),
    "scope, output filter": (Edge("K", "S"), Scope("K", output_filter="a = 2"), None),
    "scope, output mapping": (Edge("K", "S"), Scope("K", output_mapping="DROP tag"), {"a": 1}),
    "scope, discard": (Edge("K", "S"), Scope("K", publishing="discard"), None),
    "scope that does not parse": (Edge("K", "S"), Scope("K", output_filter="a ="), None),
    "mapping that fails": (Edge("K", "S", up_mapping="a = a / 0"), Scope("K"), None),
    "version that is judged anew": (Edge("K", "S", up_mapping="DROP tag", up_filter="tag = 'x-SECRET'"), Scope("K"), {"a": 1}),
}  # fmt: skip
GUARDS = {
    "publishing refused": ((Grant("nobody", "publish", "S"),), Scope("S")),
    "subscribing refused": ((Grant("nobody", "subscribe", "S"),), Scope("S")),
    "filtered by property": ((), Scope("S", delivery="filter(region = 'eu')")),
}


def leaking_systems() -> tuple[list[System], list[Content | None]]:
    """X publishes inside, Y is beyond a boundary; and what Y gets of it, if anything."""
    systems: list[System] = []
    wanted: list[Content | None] = []
    for edge, scope, content in LEAKS.values():
        systems.append(build([edge, Edge("X", "K"), Edge("Y", "S")], scope))
        wanted.append(content)
        if not edge.plain:
            down = Edge("Y", "S", down_filter=edge.up_filter, down_mapping=edge.up_mapping)
            systems.append(build([Edge("X", "S"), down]))
            wanted.append(content)
    for grants, scope in GUARDS.values():
        systems.append(build(words("X>S Y>S"), scope, grants=grants, components=(Component("Y", {"region": "us"}),)))
        wanted.append(None)
    return systems, wanted


def check_leaks(packed: Packed, wanted: list[Content | None]) -> None:
    """Nothing that Y can read holds the secret, or a trace of an event that was blocked."""
    rows = packed.engine.tables.read("notifications").withColumn("event", F.to_json("event")).toArrow().to_pylist()
    for place, expected in enumerate(wanted):
        mine = [row for row in rows if row["consumer"] == f"l{place}-Y"]
        assert not [row for row in mine if SECRET in str(row) or '"tag":null' in row["event"].replace(" ", "")]
        contents = [json.loads(row["event"]) for row in mine]
        kept = [{name: value for name, value in content.items() if name in ATTRIBUTES} for content in contents]
        assert kept == ([] if expected is None else [expected])


def test_scopes_by_call(make_engine: Callable[..., Engine]) -> None:
    """The first scope is created, something joins and leaves, and the last one is dropped."""
    engine = make_engine(sources={"events": SOURCE}, notifications={"layout": "bucket"})
    for name in ("ann", "bob", "eve"):
        engine.subscribe(name, "TRUE", id="all")
    assert _receivers(engine, "ann", 0) == {"ann": ["world"], "bob": ["world"], "eve": ["world"]}
    engine.create_scope("desk")
    engine.join("ann", "desk")
    engine.join("bob", "desk", down_mapping="DROP a")
    assert _receivers(engine, "ann", 1) == {"ann": ["desk"], "bob": ["desk"]}
    assert _receivers(engine, "eve", 2) == {"eve": ["world"]}
    with pytest.raises(ScopeError, match="'nowhere' is not a scope"):
        engine.join("ann", "nowhere")
    with pytest.raises(ScopeError, match="cycle"):
        engine.join("desk", "desk")
    with pytest.raises(ScopeError, match="no delivery policy"):
        engine.create_scope("desk", delivery="sometimes")
    engine.spark.sql(f"INSERT INTO {engine.tables.name('scope_edges')} (child, parent) VALUES ('eve', 'nowhere')")
    assert engine.leave("bob", "desk") == 1 and engine.leave("bob", "desk") == 0
    assert _receivers(engine, "ann", 3) == {"ann": ["desk"]}
    [problem] = engine.tables.read("rejections").collect()
    assert (problem["table_name"], problem["owner"], problem["id"]) == ("scope_edges", "eve", "nowhere")
    assert engine.drop_scope("desk") == 1
    assert _receivers(engine, "ann", 4) == {"ann": ["world"], "bob": ["world"], "eve": ["world"]}


def _receivers(engine: Engine, publisher: str, number: int) -> dict[str, list[str]]:
    row = (f"e{number}", publisher, None, 1, 2, 3, "x", 0)
    events = engine.spark.createDataFrame([row], SOURCE["schema"]).withColumn("at", F.timestamp_seconds(F.lit(number)))
    report = engine.route(events)
    rows = engine.notifications().where(F.col("batch") == report.ordinal).collect()
    return {row["consumer"]: list(row["path"]) for row in rows}
