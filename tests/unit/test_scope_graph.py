"""Rows of the scope tables that nobody should write: each costs itself, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from routing.scopes import accept
from routing.scopes.boundaries import Boundaries
from routing.scopes.security import grants

HOUR = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "policy",
    [
        {"publishing": "sample(1e9999999999999999999)"},
        {"publishing": "sample(2)"},
        {"publishing": "throttle(a, 200000000 days)"},
        {"publishing": "rate_limit(1, 0 seconds)"},
        {"delivery": f"k_of_n({'0' * 5000}1)"},
        {"delivery": f"filter({'(' * 5000}TRUE{')' * 5000})"},
        {"input_filter": "a = '"},
        {"output_mapping": f"a = {'9' * 5000}"},
    ],
)
def test_a_policy_that_makes_no_sense_closes_its_scope(policy: dict[str, str]) -> None:
    graph, problems = accept([{"scope": "s", **policy}, {"scope": "t"}], [{"child": "a", "parent": "t"}])
    assert graph.closed == {"s"} and [edge.parent for edge in graph.up("a")] == ["t"]
    assert [(problem.table, problem.owner) for problem in problems] == [("scopes", "s")]


def test_edges_with_and_without_a_time_have_an_order() -> None:
    edges: list[dict[str, Any]] = [
        {"child": "s", "parent": "t", "created_at": HOUR},
        {"child": "t", "parent": "s", "created_at": None},
    ]
    graph, problems = accept([{"scope": "s"}, {"scope": "t"}], edges)
    assert [edge.parent for edge in graph.up("t")] == ["s"] and not graph.up("s")
    assert [problem.owner for problem in problems] == ["s"]


@pytest.mark.parametrize("child", ["", "\0", "__HIVE_DEFAULT_PARTITION__"])
def test_an_edge_from_nobody_lets_nobody_in(child: str) -> None:
    edge = {"child": child, "parent": "secret", "up_filter": "TRUE", "down_filter": "TRUE"}
    graph, problems = accept([{"scope": "secret"}], [edge])
    assert len(problems) == 1 and not graph.parents
    assert not Boundaries(graph).crossings


def test_a_grant_on_what_is_no_scope_guards_nothing() -> None:
    graph, problems = accept([{"scope": "s"}], [], grants([{"principal": "a", "action": "publish", "object": "a"}], []))
    assert not problems and not Boundaries(graph).crossings
    assert Boundaries(graph).direct("a") == Boundaries(graph).direct("q") == {"world"}
