"""Who sees whom along identity edges, against the reference that enumerates paths."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from typing import Any

from routing.checker.flow import Reference
from routing.checker.graph import accepted
from routing.checker.system import Event, Subscription, System
from routing.scopes import Graph, accept
from routing.scopes.boundaries import Boundaries
from routing.scopes.security import Grants, grants
from tests.systems import apply_mapping, parse_mapping, random_system


def graph_of(system: System) -> Graph:
    return accept(*rows_of(system), grants_of(system), isolated=system.unscoped != "world")[0]


def grants_of(system: System) -> Grants:
    components = [{"component": component.name, "properties": component.properties} for component in system.components]
    return grants([asdict(grant) for grant in system.grants], components)


def rows_of(system: System) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of the control tables that say the same."""
    newest = {edge.key: edge for edge in system.edges}
    scopes = [{**asdict(scope), "scope": scope.name} for scope in system.scopes]
    return scopes, [asdict(edge) for edge in newest.values()]


def test_what_counts_is_what_the_reference_accepts() -> None:
    for seed in range(300):
        system = random_system(random.Random(seed), "p-", world=True, mistakes=True).system
        wanted, problems = accepted(system, parse_mapping)
        graph, found = accept(*rows_of(system), grants_of(system))
        edges = {(edge.child, edge.parent) for some in graph.parents.values() for edge in some}
        assert edges == {edge.key for edge in wanted.edges}
        assert graph.closed == wanted.closed
        assert len(found) == len([problem for problem in problems if problem.table in ("scopes", "scope_edges")])


def test_paths_are_those_of_the_reference() -> None:
    pairs = 0
    for seed in range(300):
        options = {"filters": False, "mappings": False, "policies": False, "grants": False}
        system = random_system(random.Random(seed), "p-", world=seed % 2 == 0, mistakes=True, **options).system
        parties = sorted({edge.child for edge in system.edges} - {scope.name for scope in system.scopes})
        everybody = tuple(Subscription(name, "all", "TRUE") for name in parties)
        events = [Event(name, "e", {"a": 1}) for name in parties]
        outcome = Reference(apply_mapping).batch(replace(system, subscriptions=everybody), events, 0)
        wanted = {(n.publisher, n.consumer): n.path for n in outcome.notifications}
        edges = Boundaries(graph_of(system))
        for x in parties:
            for y in parties:
                path = edges.places.path(edges.direct(x), edges.direct(y))
                assert (() if path is None and x == y else path) == wanted.get((x, y))
                meet = edges.places.roots(edges.direct(x)) & edges.places.outlook(edges.under(y))
                assert bool(meet) == (path is not None)
                pairs += 1
    assert pairs > 2000
