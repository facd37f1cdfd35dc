"""Tokens against the reference that enumerates paths: random graphs with filters and mappings at their edges."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from routing.checker.content import sameness
from routing.checker.flow import Reference
from routing.checker.policies import granted, parse_delivery
from routing.checker.system import Event, System
from routing.errors import MappingFailed
from routing.filters import matches
from routing.mappings import apply, parse_mapping
from routing.scopes.boundaries import Boundaries, Crossing
from routing.scopes.trails import Way, Ways
from tests.systems import random_system
from tests.unit.test_places import graph_of
from udfs.chart import Chart, Party

Content = dict[str, Any]


class Version(NamedTuple):
    """A version on its way, and the flows that scopes which choose consumers have let down."""

    content: Content
    way: Way
    judges: tuple[tuple[str, Any], ...] = ()


def versions(ways: Ways, event: Event) -> Iterator[Version]:
    """All versions, by rounds of crossings: what the engine does with columns, here one by one."""
    content = {key: value for key, value in event.attributes.items() if value is not None}
    now = [Version(content, ways.start(ways.party(event.publisher, "publish")))]
    while now:
        yield from now
        beyond = [later for version in now for later in onwards(ways, version)]
        best: dict[object, Version] = {}
        for version in sorted(beyond, key=lambda version: version.way.order):
            best.setdefault((sameness(version.content), version.way.group, version.judges), version)
        now = list(best.values())


def onwards(ways: Ways, version: Version) -> Iterator[Version]:
    crossings = ways.boundaries.crossings
    held = [(Party(crossing.region, under=crossing.region), crossing.holds) for crossing in crossings]
    [seen] = Chart(ways.boundaries.places, held, [version.way.trail]).visible(np.array([0]))
    for number, crossing in enumerate(crossings):
        reached = seen[number >> 6] >> np.uint64(number & 63) & np.uint64(1)
        way = ways.moved(version.way, crossing) if reached else None
        content = crossed(version.content, crossing) if way else None
        if way and content is not None:
            flow = (crossing.judge, (sameness(version.content), version.way.flow))
            yield Version(content, way, version.judges + ((flow,) if crossing.judge else ()))


def crossed(content: Content, crossing: Crossing) -> Content | None:
    for gate in crossing.gates:
        if gate.filter is not None and not matches(gate.filter, content):
            return None
        try:
            content = apply(gate.mapping, content) if gate.mapping else content
        except MappingFailed:
            return None
    return {key: value for key, value in content.items() if value is not None}


class Row(NamedTuple):
    """A consumer that a version reached."""

    consumer: str
    content: Any
    path: tuple[str, ...]
    judges: tuple[tuple[str, Any], ...]


def delivered(ways: Ways, system: System, event: Event) -> set[tuple[str, Any, tuple[str, ...]]]:
    original = sameness({key: value for key, value in event.attributes.items() if value is not None})
    rows = list(reached(ways, system, event, original))
    first = dict[tuple[str, Any], tuple[str, ...]]()
    for row in judged(ways.boundaries, system, event, rows):
        known = first.get(row[:2], row.path)
        first[row[:2]] = min(known, row.path, key=lambda path: (not path, path))
    return {(name, same, path) for (name, same), path in first.items()}


def reached(ways: Ways, system: System, event: Event, original: Any) -> Iterator[Row]:
    names = sorted({subscription.consumer for subscription in system.subscriptions})
    parties = [ways.party(name, "subscribe") for name in names]
    found = list(versions(ways, event))
    chart = Chart(
        ways.boundaries.places, [(party, ways.held(party)) for party in parties], [one.way.trail for one in found]
    )
    seen = chart.visible(np.arange(len(found)))
    for number, version in enumerate(found):
        for subscription in system.subscriptions:
            name, same, trail = subscription.consumer, sameness(version.content), version.way.trail
            party = names.index(name)
            if not seen[number, party >> 6] >> np.uint64(party & 63) & np.uint64(1):
                continue
            own = trail.below is None and not trail.direct
            if name != event.publisher if own else name == event.publisher and same != original:
                continue
            if matches(subscription.filter, version.content):
                [path] = chart.paths(np.array([number]), np.array([party])).to_pylist()
                yield Row(name, same, tuple(path), version.judges)


def judged(boundaries: Boundaries, system: System, event: Event, rows: list[Row]) -> list[Row]:
    """Scope by scope, those further down first."""
    properties = {component.name: component.properties for component in system.components}
    texts = {scope.name: scope.delivery for scope in system.scopes}
    for scope in reversed(boundaries.graph.ordered):
        flows = {judge for row in rows for judge in row.judges if judge[0] == scope}
        chosen = {
            flow: granted(
                parse_delivery(texts[scope]),
                scope,
                event,
                {row.consumer for row in rows if flow in row.judges},
                lambda name: properties.get(name, {}),
            )
            for flow in flows
        }
        rows = [row for row in rows if all(row.consumer in chosen.get(flow, {row.consumer}) for flow in row.judges)]
    return rows


def without_publishing(system: System) -> System:
    return replace(system, scopes=tuple(replace(scope, publishing="forward") for scope in system.scopes))


@pytest.mark.parametrize("table", [0, 1 << 23])
def test_tokens_deliver_what_the_reference_delivers(monkeypatch: pytest.MonkeyPatch, table: int) -> None:
    monkeypatch.setattr("udfs.paths._TABLE", table)  # with a table of all paths, and without
    seen = 0
    for seed in range(0, 400, 1 if table else 4):
        run = random_system(random.Random(seed), "p-", world=seed % 2 == 0, policies=seed % 3 > 0, grants=seed % 5 > 1)
        system = without_publishing(run.system)
        reference = Reference(lambda text, content: apply(parse_mapping(text), content), parse_mapping)
        ways = Ways(Boundaries(graph_of(system)))
        events, clock = run.batches[0]
        outcome = reference.batch(system, events, clock)
        for event in events:
            wanted = {
                (n.consumer, sameness(n.content), n.path)
                for n in outcome.notifications
                if (n.publisher, n.event_id) == (event.publisher, event.id)
            }
            assert delivered(ways, system, event) == wanted, (seed, event)
            seen += len(wanted)
    assert seen > (1000 if table else 250)
