"""Scopes: what they cost a batch, against the same batch without any; and how long large graphs take to compile.

    make bench-scopes

*Identity*: 1,000 scopes as a tree, 10,000 components in its leaves: all see each other, so the output is the same.
*Boundaries*: everybody is in one scope too, but a hundred scopes with a hundred publishers each hand a fifth of their
events, changed, to a scope of partners. In both, every component publishes and subscribes.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import routing
from benchmarks import workload
from benchmarks.harness import compare, report
from routing.engine import Engine
from routing.scopes.control import Scopes
from routing.scopes.graph import accept
from routing.session import session

COMPONENTS = 10_000
PARTNERS = 100


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--graphs", action="store_true", help="only how long large graphs take")
    parser.add_argument("--only", choices=["identity", "boundaries"], help="only one of the two workloads")
    options = parser.parse_args()
    facts = _graphs()
    if options.graphs:
        report(facts=facts)
        return
    spark, place = session(name="sluice-bench"), Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    try:
        events = _events(spark, place, options.events)
        without = _engine(spark, place, "bench_plain", [], [])
        results = []
        for name, rows in (("identity", _tree()), ("boundaries", _partners())):
            if options.only not in (None, name):
                continue
            scoped = _engine(spark, place, f"bench_{name}", *rows)
            mine = _named(events, name)
            contenders = {"no scopes": _routes(without, mine), name: _routes(scoped, mine)}
            results.append(compare(name, contenders, baseline="no scopes", rounds=options.rounds, warm_up=2))
        report(*results, facts=facts, events=options.events, rounds=options.rounds)
    finally:
        shutil.rmtree(place)


Rows = tuple[list[dict[str, Any]], list[dict[str, Any]]]


def _tree() -> Rows:
    scopes = [f"s{number}" for number in range(1_000)]
    edges = [{"child": name, "parent": f"s{(number - 1) // 10}"} for number, name in enumerate(scopes) if number]
    edges += [{"child": f"c{number}", "parent": f"s{100 + number % 900}"} for number in range(COMPONENTS)]
    edges += [{"child": f"partner{number}", "parent": f"s{number}"} for number in range(PARTNERS)]
    return [{"scope": name} for name in scopes], edges


def _partners() -> Rows:
    scopes = [{"scope": name} for name in ("all", "partners", *(f"s{number}" for number in range(100)))]
    edges: list[dict[str, Any]] = [{"child": f"c{number}", "parent": "all"} for number in range(COMPONENTS)]
    edges += [{"child": f"c{number}", "parent": f"s{number % 100}"} for number in range(COMPONENTS)]
    edges += [{"child": f"partner{number}", "parent": "partners"} for number in range(PARTNERS)]
    for number in range(100):
        gate = {"up_filter": f"i1 < {FIFTH}", "up_mapping": f"d1 = d1 * 1.{number:02d}, DROP s{number % 10}"}
        edges.append({"child": f"s{number}", "parent": "partners", **gate})
    return scopes, edges


FIFTH = 22  # i1 is below it in a fifth of all events


def _graphs() -> dict[str, float]:
    """Seconds for a graph of 2⁴⁰ paths, and for one of 20,000 scopes in twelve layers with 100,000 components."""
    diamonds = [{"scope": f"{side}{level}"} for level in range(41) for side in "tlr"]
    edges = [
        {"child": child.format(level + 1, level), "parent": parent.format(level + 1, level)}
        for level in range(40)
        for child, parent in (("l{0}", "t{1}"), ("r{0}", "t{1}"), ("t{0}", "l{0}"), ("t{0}", "r{0}"))
    ]
    ends = [{"child": "a", "parent": "t40"}, {"child": "b", "parent": "t40"}]
    draw = random.Random(5)
    layers = [[f"x{layer}.{number}" for number in range(20_000 // 12)] for layer in range(12)]
    wide = [{"scope": name} for layer in layers for name in layer]
    deep = [
        {"child": name, "parent": parent}
        for below, above in zip(layers[1:], layers, strict=False)
        for name in below
        for parent in draw.sample(above, 2)
    ]
    members = [
        {"child": f"c{number}", "parent": parent} for number in range(100_000) for parent in draw.sample(layers[-1], 2)
    ]
    return {
        "40 diamonds, seconds": _seconds(diamonds, [*edges, *ends]),
        "20,000 scopes, 100,000 components, seconds": _seconds(wide, [*deep, *members]),
    }


def _seconds(scopes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> float:
    started = perf_counter()
    graph, problems = accept(scopes, edges)
    if problems:
        raise SystemExit(f"the graph is wrong: {problems[0]}")
    made = Scopes((), graph, (), {})
    made.chart()
    made.crossing_chart()
    return round(perf_counter() - started, 2)


def _engine(
    spark: SparkSession, place: Path, name: str, scopes: list[dict[str, Any]], edges: list[dict[str, Any]]
) -> Engine:
    source = {"format": "rate", "id": "id", "publisher": "publisher"}
    settings = {
        "warehouse": str(place),
        "database": name,
        "sources": {"events": source},
        "notifications": {"layout": "bucket"},
    }
    engine = routing.open(spark, settings)
    rows = [(f"c{at}", text, id) for at, (id, text) in enumerate(workload.subscriptions(COMPONENTS))]
    rows += [(f"partner{at}", text, id) for at, (id, text) in enumerate(workload.subscriptions(PARTNERS))]
    engine.subscribe_many(spark.createDataFrame(rows, "consumer string, filter string, id string"))
    if scopes:
        engine.tables.insert("scopes", spark.createDataFrame(scopes, "scope string"))
        columns = "child string, parent string, up_filter string, up_mapping string"
        named = [tuple(edge.get(name) for name in ("child", "parent", "up_filter", "up_mapping")) for edge in edges]
        engine.tables.insert("scope_edges", spark.createDataFrame(named, columns))
    return engine


def _events(spark: SparkSession, place: Path, count: int) -> DataFrame:
    batch = pa.Table.from_batches([workload.events(count)])
    made = spark.createDataFrame(batch).withColumn("number", F.monotonically_increasing_id())
    columns = {
        "id": F.col("number").cast("string"),
        "publisher": F.concat(F.lit("c"), F.pmod(F.xxhash64("number"), F.lit(COMPONENTS))),
    }
    made.withColumns(columns).drop("number").repartition(4).write.parquet(str(place / "events"))
    return spark.read.parquet(str(place / "events"))


def _routes(engine: Engine, events: DataFrame) -> Callable[[int], object]:
    return lambda turn: engine.route(_named(events, str(turn)))


def _named(events: DataFrame, name: str) -> DataFrame:
    """The same events under ids of their own."""
    return events.withColumn("id", F.concat(F.col("id"), F.lit(f"-{name}")))


if __name__ == "__main__":
    main()
