"""Tokens against the reference that enumerates paths: random graphs with filters and mappings at their edges."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from routing.checker.content import sameness
from routing.checker.flow import Reference
from routing.checker.policies import granted, parse_delivery
from routing.checker.system import Event, System
from routing.errors import MappingFailed
from routing.filters import matches
from routing.mappings import apply, parse_mapping
from routing.scopes.boundaries import NOWHERE, Boundaries, Crossing
from routing.scopes.graph import Edge
from tests.systems import random_system
from tests.unit.test_places import graph_of

Content = dict[str, Any]


class Version(NamedTuple):
    """A version on its way: what it is, what it carries, which boundaries it ascended, and how it came down."""

    content: Content
    carries: frozenset[str]
    ascended: frozenset[Edge]
    above: frozenset[str]
    below: str
    path: tuple[str, ...]
    judges: tuple[tuple[str, Any], ...] = ()
    refusing: frozenset[str] = frozenset()


def versions(boundaries: Boundaries, event: Event) -> Iterator[Version]:
    """All versions, by rounds of crossings: what the engine does with columns, here one by one."""
    content = {key: value for key, value in event.attributes.items() if value is not None}
    above = boundaries.places.closure(event.publisher)
    waiting = [Version(content, boundaries.published(event.publisher), frozenset(), above, "", ())]
    while waiting:
        version = waiting.pop()
        yield version
        for crossing in boundaries.crossings:
            refused = crossing.enters and not boundaries.graph.grants.may(event.publisher, "publish", crossing.enters)
            echo = not crossing.upwards and crossing.edge in version.ascended
            if crossing.holds & version.carries and not refused and not echo:
                beyond = crossed(version.content, crossing)
                if beyond is not None:
                    waiting.append(moved(boundaries, version, crossing, beyond))


def crossed(content: Content, crossing: Crossing) -> Content | None:
    for gate in crossing.gates:
        if gate.filter is not None and not matches(gate.filter, content):
            return None
        try:
            content = apply(gate.mapping, content) if gate.mapping else content
        except MappingFailed:
            return None
    return {key: value for key, value in content.items() if value is not None}


def moved(boundaries: Boundaries, version: Version, crossing: Crossing, content: Content) -> Version:
    places, edge = boundaries.places, crossing.edge
    if crossing.upwards:
        above = places.above.get(edge.parent, frozenset())
        ascended = version.ascended | ({edge} if crossing.boundary else set())
        return Version(content, crossing.carries, ascended, above, "", ())
    first = version.below or min(version.above & places.above[edge.parent])
    path = version.path + places.approach(first, edge.parent)
    flow = (crossing.judge, (sameness(version.content), version.ascended, version.refusing))
    judges = version.judges + ((flow,) if crossing.judge else ())
    refusing = version.refusing | ({crossing.refuses} if crossing.refuses else set())
    return Version(content, crossing.carries, version.ascended, frozenset(), edge.child, path, judges, refusing)


class Row(NamedTuple):
    """A consumer that a version reached."""

    consumer: str
    content: Any
    path: tuple[str, ...]
    judges: tuple[tuple[str, Any], ...]


def delivered(boundaries: Boundaries, system: System, event: Event) -> set[tuple[str, Any, tuple[str, ...]]]:
    original = sameness({key: value for key, value in event.attributes.items() if value is not None})
    rows = list(reached(boundaries, system, event, original))
    first = dict[tuple[str, Any], tuple[str, ...]]()
    for row in judged(boundaries, system, event, rows):
        first[row[:2]] = min(first.get(row[:2], row.path), row.path)
    for subscription in system.subscriptions:
        if subscription.consumer == event.publisher and matches(subscription.filter, event.attributes):
            first.setdefault((event.publisher, original), ())
    return {(name, same, path) for (name, same), path in first.items()}


def reached(boundaries: Boundaries, system: System, event: Event, original: Any) -> Iterator[Row]:
    places = boundaries.places
    for version in versions(boundaries, event):
        for subscription in system.subscriptions:
            name, same = subscription.consumer, sameness(version.content)
            if not version.carries & boundaries.held(name) or not matches(subscription.filter, version.content):
                continue
            if name == event.publisher and same != original:
                continue
            if not all(boundaries.graph.grants.may(name, "subscribe", scope) for scope in version.refusing):
                continue
            if version.below in (name, NOWHERE) and version.path:
                path = version.path
            else:
                start = version.below or min(version.above & places.closure(name))
                path = version.path + places.descent(start, name)
            yield Row(name, same, path, version.judges)


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


def test_tokens_deliver_what_the_reference_delivers() -> None:
    seen = 0
    for seed in range(400):
        run = random_system(random.Random(seed), "p-", world=seed % 2 == 0, policies=seed % 3 > 0, grants=seed % 5 > 1)
        system = without_publishing(run.system)
        reference = Reference(lambda text, content: apply(parse_mapping(text), content), parse_mapping)
        boundaries = Boundaries(graph_of(system))
        events, clock = run.batches[0]
        outcome = reference.batch(system, events, clock)
        for event in events:
            wanted = {
                (n.consumer, sameness(n.content), n.path)
                for n in outcome.notifications
                if (n.publisher, n.event_id) == (event.publisher, event.id)
            }
            assert delivered(boundaries, system, event) == wanted, (seed, event)
            seen += len(wanted)
    assert seen > 1000
