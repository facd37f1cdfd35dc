"""Components that are alike, found by Spark and by the driver: the same parties."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from routing.engine import Engine
from routing.scopes.control import Control, Scopes

EDGE = "child string, parent string, up_filter string, created_at timestamp, created_by string"
SCOPES = [f"s{number}" for number in range(8)]


def put(engine: Engine, table: str, schema: str, rows: list[tuple[Any, ...]]) -> None:
    engine.tables.insert(table, engine.spark.createDataFrame(rows, schema))


def tellable(scopes: Scopes, action: str) -> dict[str, Any]:
    """The party of every name that anybody might ask for."""
    import pyarrow as pa

    names = [*(f"c{number}" for number in range(310)), *SCOPES, "ann", "stranger"]
    parties = scopes.consumers if action == "subscribe" else scopes.starts
    return dict(zip(names, (parties.parties[n] for n in parties.of_names(pa.array(names)).tolist()), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_spark_and_the_driver_tell_the_same_parties_apart(
    spark: SparkSession, make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    engine, draw = make_engine(), random.Random(seed)
    put(engine, "scopes", "scope string, publishing string", [(s, "nonsense" if s == "s7" else None) for s in SCOPES])
    put(engine, "scopes", "scope string, delivery string", [("s6", "one_of_n")])
    put(engine, "scopes", "scope string", [("\0",)])
    nobody = [(f"c{number}", "\0", None, None, "me") for number in range(290, 310)]
    inner = [(f"s{n}", f"s{n - 1}", None, None, "me") for n in range(1, 4)]
    filters = [None, None, None, "a > 1", "a ="]
    edges = [
        (f"c{draw.randrange(300)}", draw.choice([*SCOPES[:-1], "nowhere"]), draw.choice(filters), None, "me")
        for _ in range(500)
    ]
    plain = [(f"c{number}", draw.choice(SCOPES), None, None, "me") for number in range(300)]
    put(engine, "scope_edges", EDGE, [*inner, *edges, *nobody])
    put(engine, "scope_edges", EDGE, plain)  # the newest row of an edge counts
    put(engine, "components", "component string, properties map<string,string>", [("c7", {"groups": "staff"})])
    grants = [("staff", "join", "s4"), ("ann", "publish", "c3"), ("c9", "subscribe", "s5"), ("*", "subscribe", "s2")]
    put(engine, "grants", "principal string, action string, object string", grants[: seed + 2])
    versions = {name: engine.tables.version(name) for name in engine.tables.described}
    driver = Control(engine.tables).scopes(versions)
    monkeypatch.setattr("routing.scopes.control.ON_DRIVER", 0)
    distributed = Control(engine.tables).scopes(versions)
    assert driver and distributed
    assert len(driver.members.names) == 0 and len(distributed.members.names) > 20
    assert len(distributed.graph.parents) < len(driver.graph.parents)
    for action in ("publish", "subscribe"):
        assert tellable(driver, action) == tellable(distributed, action)
    assert {*driver.problems} == {*distributed.problems}

    def everyone(name: str) -> bool:
        return True

    assert {*driver.refusals(everyone)} == {*distributed.refusals(everyone)}
