"""A base and what has changed since give what one program of the whole gives."""

from __future__ import annotations

import random

import pyarrow as pa

from benchmarks import workload
from routing.matching import compile_program
from udfs.delta import patched


def test_a_delta_is_as_good_as_a_new_program() -> None:
    made, batch = workload.subscriptions(3000), workload.events(400)
    generator = random.Random(7)
    base, fresh = made[:2900], made[2900:]
    gone = {id for id, _ in generator.sample(base, 60)}
    changed = [(id, fresh[place][1]) for place, (id, _) in enumerate(generator.sample(base, 40))]
    delta = [*changed, *fresh[40:]]
    program = patched(
        compile_program(base, workload.SCHEMA),
        compile_program(delta, workload.SCHEMA),
        gone - {id for id, _ in changed},
    )
    left = {id: text for id, text in base if id not in gone} | dict(delta)
    whole = compile_program(list(left.items()), workload.SCHEMA)
    ids, wanted_ids = program.subscription_ids, whole.subscription_ids
    found, wanted = program.match(batch).to_pylist(), whole.match(batch).to_pylist()
    assert [sorted(ids[place] for place in some) for some in found] == [
        sorted(wanted_ids[place] for place in some) for some in wanted
    ]
    assert all(some == sorted(set(some)) for some in found)
    assert set(program.columns) <= set(workload.SCHEMA.names)


def test_a_delta_with_tokens_and_of_nothing() -> None:
    schema = pa.schema({"x": pa.int64(), "y": pa.int64()})
    base = compile_program([("a", "x = 1"), ("b", "x = 1")], schema, tokens=[{"red"}, {"blue"}])
    delta = compile_program([("b", "y = 2"), ("c", "TRUE")], schema, tokens=[{"blue"}, {"red", "blue"}])
    batch = pa.record_batch({"x": [1, 1, 3], "y": [2, 0, 2]})
    program = patched(base, delta, [])
    assert list(program.subscription_ids) == ["a", "b", "b", "c"]
    assert program.match(batch, pa.array([["red"], ["blue"], ["blue"]])).to_pylist() == [[0, 3], [3], [2, 3]]
    empty = compile_program([], schema)
    assert patched(empty, empty, ["a"]).match(batch).to_pylist() == [[], [], []]
