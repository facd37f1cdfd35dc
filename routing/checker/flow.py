"""Who is notified of what, in which form: the slow, obvious reference that the engine is tested against.

Law: an event goes up, turns once, and comes down; it is changed by every boundary it crosses, and whoever subscribes
judges what arrives (docs/scopes.md; SPEC §6, §7). All flows are enumerated: the cost is exponential, the text is short.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from heapq import heappop, heappush
from itertools import count, groupby

from routing.checker.content import Sameness, present, sameness
from routing.checker.crossing import ApplyMapping, Crossing, Flow
from routing.checker.delivery import Arrivals, Delivery
from routing.checker.graph import Graph, ParseMapping, accepted
from routing.checker.policies import Publishing, Verdict, parse_publishing
from routing.checker.system import Content, Dead, Event, Notification, Outcome, System
from routing.errors import RoutingError

FLOWS = 200_000  # steps of one event in one batch; a reference that runs for hours helps nobody


class Reference:
    """Batches one after the other, with what publishing policies remember and hold back between them.

    `apply_mapping` gives the content after a mapping, or raises a `RoutingError`; `parse_mapping` raises one for a
    text that is no mapping.

    >>> from routing.checker.system import Edge, Scope, Subscription
    >>> desk = System(
    ...     scopes=(Scope("desk"),),
    ...     edges=(Edge("ann", "desk"), Edge("bob", "desk")),
    ...     subscriptions=(Subscription("bob", "s1", "price > 100"), Subscription("eve", "s1", "TRUE")),
    ... )
    >>> outcome = Reference(lambda text, event: event).batch(desk, [Event("ann", "e1", {"price": 120})], clock=0)
    >>> [(n.consumer, n.path) for n in outcome.notifications]
    [('bob', ('desk',))]
    """

    def __init__(self, apply_mapping: ApplyMapping, parse_mapping: ParseMapping = str) -> None:
        self._apply, self._parse_mapping = apply_mapping, parse_mapping
        self._publishing = Publishing()
        self._held: list[Held] = []
        self._last: Graph | None = None
        self._batches = count()

    def batch(self, system: System, events: Iterable[Event], clock: float, source: str = "") -> Outcome:
        """What is delivered and recorded; what the source's batches held back and is due comes before new events."""
        graph = self._graph(system)
        now, number, outcome = Decimal(str(clock)), next(self._batches), Outcome()
        waits = {id(held): held.due > now or held.source != source for held in self._held}
        ripe = sorted((held for held in self._held if not waits[id(held)]), key=lambda held: held.order)
        self._held = [held for held in self._held if waits[id(held)]]
        runs = [(event, [held.flow for held in some]) for event, some in _by_event(ripe)]
        runs += [(Published.new(event), []) for event in events]
        for rank, (published, flows) in enumerate(runs):
            run = _Run(graph, self._apply, self._publishing, published, now, outcome)
            run.resume(flows) if flows else run.begin()
            self._held += [Held(due, (number, rank, flow.order), published, flow, source) for flow, due in run.held]
        return outcome

    def _graph(self, system: System) -> Graph:
        if self._last is None or self._last.system is not system:
            self._last, _ = accepted(system, self._parse_mapping)
        return self._last


@dataclass
class Published:
    """An event, and what is known of its versions from all batches: those there are, and who got which."""

    event: Event
    original: Content
    versions: set[Sameness] = field(default_factory=set)
    beyond: set[Sameness] = field(default_factory=set)
    delivered: dict[str, list[Sameness]] = field(default_factory=dict)

    @classmethod
    def new(cls, event: Event) -> Published:
        """The event with its attributes that are not NULL."""
        return cls(event, present(event.attributes))


@dataclass(frozen=True)
class Held:
    """A flow that a scope holds back."""

    due: Decimal
    order: tuple[int, int, object]
    published: Published
    flow: Flow
    source: str


def _by_event(due: list[Held]) -> list[tuple[Published, list[Held]]]:
    """Held flows by event, in the order of the first of each."""
    first = {id(held.published): place for place, held in reversed(list(enumerate(due)))}
    together = sorted(due, key=lambda held: first[id(held.published)])
    groups = [list(some) for _, some in groupby(together, key=lambda held: id(held.published))]
    return [(some[0].published, some) for some in groups]


class _Stage(Enum):
    """What a flow has done: nothing yet; gone up; been let out by the scope that held it; turned."""

    BEGUN, RISEN, RELEASED, TURNED = range(4)


class _Run:
    """One event in one batch."""

    def __init__(
        self,
        graph: Graph,
        apply: ApplyMapping,
        publishing: Publishing,
        published: Published,
        clock: Decimal,
        outcome: Outcome,
    ) -> None:
        self.graph, self.publishing, self.published = graph, publishing, published
        self.clock, self.outcome = clock, outcome
        self.crossing = Crossing(graph, apply, lambda reason: self._record("mapping", reason))
        self.verdicts: dict[tuple[str, Sameness], Verdict] = {}
        self.held: list[tuple[Flow, Decimal]] = []

    def begin(self) -> None:
        """Publish the event; its publisher, if it subscribes, gets it whatever becomes of it."""
        publisher = self.published.event.publisher
        supers = [edge.parent for edge in self.graph.up(publisher)]
        if supers and not any(self.graph.admits(publisher, scope) for scope in supers):
            self._record("refused", f"{publisher} may not publish in {', '.join(supers)}")
        start = Flow(publisher, self.published.original)
        arrivals = self._arrivals([(start, _Stage.BEGUN)])
        if publisher not in arrivals:
            arrivals |= self._delivery().at(start, ())
        self._notify(arrivals)

    def resume(self, flows: list[Flow]) -> None:
        """Let flows out of the scopes that held them, which have judged them already."""
        there = [flow for flow in flows if flow.node in self.graph.scopes]
        self._notify(self._arrivals([(flow, _Stage.RELEASED) for flow in there]))

    def _arrivals(self, starts: list[tuple[Flow, _Stage]]) -> Arrivals:
        # All versions are counted before any is delivered: the limit does not depend on who subscribes.
        turns = self._explore(starts)
        delivery = self._delivery()
        found: Arrivals = {}
        for flow in turns:
            for consumer, some in delivery.below(flow, (flow.node,)).items():
                found.setdefault(consumer, []).extend(some)
        return found

    def _delivery(self) -> Delivery:
        published = self.published
        return Delivery(self.graph, self.crossing, published.event, sameness(published.original), published.versions)

    def _explore(self, starts: list[tuple[Flow, _Stage]]) -> list[Flow]:
        """Follow all flows, those that crossed fewer boundaries first; returns those that may turn where they are."""
        turns, seen, number = [], set(), count()
        waiting = [(flow.order, next(number), flow, stage) for flow, stage in sorted(starts, key=lambda s: s[0].order)]
        while waiting:
            _, taken, flow, stage = heappop(waiting)
            if taken > FLOWS:
                raise RoutingError(f"more than {FLOWS} flows of one event: this reference is for small graphs")
            state = (stage, flow.node, repr(sorted(flow.content.items())), flow.ascended)
            if state in seen or not self._is_version(flow.content):
                continue
            seen.add(state)
            if stage is _Stage.RISEN and self.graph.is_open(flow.node):
                turns.append(flow)
            for following, next_stage in self._next(flow, stage):
                heappush(waiting, (following.order, next(number), following, next_stage))
        return turns

    def _next(self, flow: Flow, stage: _Stage) -> list[tuple[Flow, _Stage]]:
        ups = [] if stage is _Stage.TURNED else self._ups(flow, released=stage is _Stage.RELEASED)
        downs = self._delivery().downs(flow) if stage in (_Stage.RISEN, _Stage.TURNED) else []
        return [(up, _Stage.RISEN) for up in ups] + [(down, _Stage.TURNED) for down in downs]

    def _ups(self, flow: Flow, *, released: bool) -> list[Flow]:
        admits, publisher = self.graph.admits, self.published.event.publisher
        edges = [edge for edge in self.graph.up(flow.node) if admits(publisher, edge.parent)]
        if not edges or flow.node in self.graph.closed or not (released or self._leaves(flow)):
            return []
        ups = [self.crossing.up(flow, edge) for edge in edges]
        return [up for up in ups if up]

    def _leaves(self, flow: Flow) -> bool:
        """Whether the scope where the flow is lets it out, now; judged once for each version."""
        scope = self.graph.scopes.get(flow.node)
        if scope is None:
            return True
        if not self.crossing.lets_out(flow):
            return False
        policy, version = parse_publishing(scope.publishing), (scope.name, sameness(flow.content))
        if version not in self.verdicts:
            self.verdicts[version] = self.publishing.judge(
                policy, scope.name, self.published.event, flow.content, self.clock
            )
        if self.verdicts[version] is Verdict.HOLD:
            self.held.append((flow, self.clock + policy.interval))
        return self.verdicts[version] is Verdict.PASS

    def _is_version(self, content: Content) -> bool:
        """Whether it is one of the versions that the event may have; one that is new takes a place if there is one."""
        version, published = sameness(content), self.published
        if version in published.versions:
            return True
        if len(published.versions) < self.graph.system.versions:
            published.versions.add(version)
            return True
        if version not in published.beyond:
            published.beyond.add(version)
            self._record("versions", f"the event has {self.graph.system.versions} versions already")
        return False

    def _notify(self, arrivals: Arrivals) -> None:
        """Each distinct content once, with its first path; of one path that which crossed fewer boundaries."""
        event = self.published.event
        for consumer, some in sorted(arrivals.items()):
            got = self.published.delivered.setdefault(consumer, [])
            for arrival in sorted(some, key=lambda arrival: (arrival.path, arrival.flow.order)):
                content, path, ids = arrival.flow.content, arrival.path, arrival.subscription_ids
                if sameness(content) not in got:
                    got.append(sameness(content))
                    self.outcome.notifications.append(
                        Notification(consumer, event.publisher, event.id, content, path, ids, len(got))
                    )

    def _record(self, kind: str, reason: str) -> None:
        dead = Dead(self.published.event.publisher, self.published.event.id, kind, reason)
        if kind == "versions" or dead not in self.outcome.dead:
            self.outcome.dead.append(dead)
