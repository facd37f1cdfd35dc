"""Tokens against the reference that enumerates paths: random graphs with filters and mappings at their edges."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from routing.checker.content import sameness
from routing.checker.flow import Reference
from routing.checker.system import Event, System
from routing.errors import MappingFailed
from routing.filters import matches
from routing.mappings import apply, parse_mapping
from routing.scopes.boundaries import Boundaries, Crossing
from routing.scopes.graph import Edge
from tests.systems import random_system
from tests.unit.test_places import graph_of

Content = dict[str, Any]
OPTIONS = {"policies": False, "grants": False, "mistakes": True}


class Version(NamedTuple):
    """A version on its way: what it is, what it carries, which boundaries it ascended, and how it came down."""

    content: Content
    carries: frozenset[str]
    ascended: frozenset[Edge]
    above: frozenset[str]
    below: str
    path: tuple[str, ...]


def versions(boundaries: Boundaries, event: Event) -> Iterator[Version]:
    """All versions, by rounds of crossings: what the engine does with columns, here one by one."""
    content = {key: value for key, value in event.attributes.items() if value is not None}
    above = boundaries.places.closure(event.publisher)
    waiting = [Version(content, boundaries.published(event.publisher), frozenset(), above, "", ())]
    while waiting:
        version = waiting.pop()
        yield version
        for crossing in boundaries.crossings:
            if crossing.holds & version.carries and (crossing.upwards or crossing.edge not in version.ascended):
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
        return Version(content, crossing.carries, version.ascended | {edge}, above, "", ())
    first = version.below or min(version.above & places.above[edge.parent])
    path = version.path + places.approach(first, edge.parent)
    return Version(content, crossing.carries, version.ascended, frozenset(), edge.child, path)


def delivered(boundaries: Boundaries, system: System, event: Event) -> set[tuple[str, Any, tuple[str, ...]]]:
    places, first = boundaries.places, dict[tuple[str, Any], tuple[str, ...]]()
    original = sameness({key: value for key, value in event.attributes.items() if value is not None})
    for version in versions(boundaries, event):
        for subscription in system.subscriptions:
            name, same = subscription.consumer, sameness(version.content)
            if not version.carries & boundaries.held(name) or not matches(subscription.filter, version.content):
                continue
            if name == event.publisher and same != original:
                continue
            if version.below == name:
                path = version.path
            else:
                start = version.below or min(version.above & places.closure(name))
                path = version.path + places.descent(start, name)
            first[name, same] = min(first.get((name, same), path), path)
    for subscription in system.subscriptions:
        if subscription.consumer == event.publisher and matches(subscription.filter, event.attributes):
            first.setdefault((event.publisher, original), ())
    return {(name, same, path) for (name, same), path in first.items()}


def test_tokens_deliver_what_the_reference_delivers() -> None:
    seen = 0
    for seed in range(400):
        run = random_system(random.Random(seed), "p-", world=seed % 2 == 0, **OPTIONS)
        reference = Reference(lambda text, content: apply(parse_mapping(text), content), parse_mapping)
        boundaries = Boundaries(graph_of(run.system))
        events, clock = run.batches[0]
        outcome = reference.batch(run.system, events, clock)
        for event in events:
            wanted = {
                (n.consumer, sameness(n.content), n.path)
                for n in outcome.notifications
                if (n.publisher, n.event_id) == (event.publisher, event.id)
            }
            assert delivered(boundaries, run.system, event) == wanted, (seed, event)
            seen += len(wanted)
    assert seen > 1000
