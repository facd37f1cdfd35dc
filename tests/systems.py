"""Random systems of scopes, with events and edits: small, and rich in diamonds, boundaries, policies and mistakes.

Every name bears the prefix, so many systems can be packed into one snapshot and stay apart. They would meet in `world`
only: unless `world` is asked for, every component is in a scope of its own system.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from hypothesis import strategies as st

from routing.checker import Component, Edge, Event, Grant, Scope, Subscription, System, accepted
from routing.checker.system import WORLD, Content
from routing.errors import RoutingError

FILTERS = ["TRUE", "a = 1", "a > 1", "b IS NULL", "price >= 4", "price < 10", "tag = 'x'", "tag LIKE '%x'", "NOT a = 2"]
MAPPINGS = ["a = 1", "a = b", "price = price * 2", "tag = CONCAT(tag, 'x')", "DROP a", "a = b, b = a", "DROP b, a = 2"]
FAILING = "bad = 1 / zero"
NOT_A_FILTER, NOT_A_MAPPING, NOT_A_POLICY = "price >", "a = = 1", "sometimes"
DELIVERY = ["one_of_n", "k_of_n(2)", "first_matching(rank)", "filter(rank > 2)", "filter(region = 'eu' OR rank = '1')"]
PUBLISHING = [
    "discard",
    "sample(0.5)",
    "rate_limit(1, 10 seconds)",
    "rate_limit(3, 1 minute)",
    "throttle(a, 20 seconds)",
    "throttle(tag, 1 minute)",
    "delay(10 seconds)",
    "delay(1 minute)",
]
GROUPS = ["red", "blue"]


class Run(NamedTuple):
    """A system, its batches with their clocks, and what the system has become before each later batch."""

    system: System
    batches: list[tuple[list[Event], float]]
    edits: list[System]

    @property
    def systems(self) -> list[System]:
        """The system that each batch sees."""
        return [self.system, *self.edits]


def random_system(
    rng: random.Random,
    prefix: str,
    *,
    world: bool = False,
    filters: bool = True,
    mappings: bool = True,
    policies: bool = True,
    grants: bool = True,
    mistakes: bool = True,
) -> Run:
    """A system of 3 to 12 nodes with 1 to 3 batches; the options say what it may hold.

    >>> run = random_system(random.Random(1), "p1.")
    >>> all(edge.child.startswith("p1.") for edge in run.system.edges), len(run.systems) == len(run.batches)
    (True, True)
    """
    maker = _Maker(rng, prefix, world, filters, mappings, policies, grants, mistakes)
    system = maker.system()
    number = rng.choice([1, 2, 2, 3])
    edits = [system]
    for _ in range(number - 1):
        edits.append(maker.edit(edits[-1]))
    clocks = [1000.0]
    for _ in range(number - 1):
        clocks.append(clocks[-1] + rng.choice([1, 5, 10, 20, 60]))
    return Run(system, [(maker.events(batch), clock) for batch, clock in enumerate(clocks)], edits[1:])


@st.composite
def systems(draw: st.DrawFn, /, **options: bool) -> Run:
    """`random_system` as a strategy, without a prefix."""
    return random_system(draw(st.randoms(use_true_random=False)), "", **options)


@dataclass
class _Maker:
    rng: random.Random
    prefix: str
    world: bool
    filters: bool
    mappings: bool
    policies: bool
    grants: bool
    mistakes: bool

    def __post_init__(self) -> None:
        self.scopes = [f"{self.prefix}S{i}" for i in range(self.rng.randint(1, 7))]
        self.components = [f"{self.prefix}C{i}" for i in range(self.rng.randint(2, 5))]
        self.busy = self.rng.choice([0.0, 0.15, 0.4, 0.7])  # how many edges and scopes are boundaries
        self.guarded = self.rng.choice([0.0, 0.0, 0.3])

    def system(self) -> System:
        scopes = tuple(self.scope(name) for name in self.scopes)
        if self.world and self.chance(0.3):
            scopes += (self.scope(WORLD),)
        system = System(
            scopes,
            tuple(self.edges()),
            tuple(self.component(name) for name in self.components if self.chance(0.8)),
            tuple(self.grant() for _ in range(self.rng.randint(1, 4))) if self.grants and self.guarded else (),
            tuple(self.subscriptions()),
        )
        return self.housed(system)

    def edit(self, system: System) -> System:
        """One to three changes of the graph, each of which touches a scope, an edge or a subscription."""
        for _ in range(self.rng.randint(1, 3)):
            match self.rng.randrange(6):
                case 0 if system.edges:
                    gone = self.rng.choice(system.edges)
                    system = replace(system, edges=tuple(edge for edge in system.edges if edge != gone))
                case 1 if system.edges:
                    old = self.rng.choice(system.edges)
                    new = self.edge(old.child, old.parent)
                    system = replace(system, edges=tuple(new if edge == old else edge for edge in system.edges))
                case 2 if len(system.scopes) > 1:
                    drop = self.rng.choice(system.scopes)
                    system = replace(system, scopes=tuple(scope for scope in system.scopes if scope != drop))
                case 3 if system.scopes:
                    was = self.rng.choice(system.scopes)
                    now = self.scope(was.name)
                    system = replace(system, scopes=tuple(now if scope == was else scope for scope in system.scopes))
                case 4:
                    new = self.edge(self.rng.choice(self.components), self.rng.choice(self.scopes))
                    others = tuple(edge for edge in system.edges if edge.key != new.key)
                    system = replace(system, edges=(*others, new))
                case _:
                    system = replace(system, subscriptions=tuple(self.subscriptions()))
        return self.housed(system)

    def housed(self, system: System) -> System:
        """The system with every component that would be in `world` in a lobby, unless `world` is wanted."""
        if self.world:
            return system
        graph, _ = accepted(system, parse_mapping)
        homeless = [name for name in self.components if not any(edge.child == name for edge in graph.edges)]
        if not homeless:
            return system
        lobby = f"{self.prefix}lobby"
        known = any(scope.name == lobby for scope in system.scopes)
        inside = tuple(Edge(name, lobby, created_at=9, created_by=f"{self.prefix}janitor") for name in homeless)
        kept = tuple(edge for edge in system.edges if edge.parent != lobby or edge.child not in homeless)
        return replace(
            system, scopes=system.scopes if known else (*system.scopes, Scope(lobby)), edges=(*kept, *inside)
        )

    def scope(self, name: str) -> Scope:
        scope = Scope(name)
        if self.policies and self.chance(self.busy / 2):
            scope = replace(scope, delivery=self.rng.choice(DELIVERY))
        if self.policies and self.chance(self.busy / 2):
            scope = replace(scope, publishing=self.rng.choice(PUBLISHING))
        if self.policies and self.mistakes and self.chance(0.02):
            scope = replace(scope, **{self.rng.choice(["delivery", "publishing"]): NOT_A_POLICY})
        if self.chance(self.busy / 2):
            scope = replace(scope, input_filter=self.filter(), input_mapping=self.mapping())
        if self.chance(self.busy / 2):
            scope = replace(scope, output_filter=self.filter(), output_mapping=self.mapping())
        return scope

    def edges(self) -> list[Edge]:
        """Scopes lie in scopes with higher numbers, with now and then an edge that closes a cycle or leads nowhere."""
        found = []
        for i, name in enumerate(self.scopes):
            above = self.scopes[i + 1 :]
            found += [(name, parent) for parent in self.rng.sample(above, min(len(above), self.rng.randint(0, 2)))]
        for name in self.components:
            low = self.world and self.chance(0.3)
            number = self.rng.randint(0 if low else 1, min(3, len(self.scopes)))
            found += [(name, parent) for parent in self.rng.sample(self.scopes, number)]
        if self.mistakes and self.chance(0.1):
            found.append((self.rng.choice(self.scopes), self.rng.choice(self.scopes + self.components)))
        if self.world and self.chance(0.2):
            found.append((self.rng.choice(self.scopes + self.components), WORLD))
        return [self.edge(child, parent) for child, parent in dict.fromkeys(found)]

    def edge(self, child: str, parent: str) -> Edge:
        by = self.rng.choice([f"{self.prefix}boss", f"{self.prefix}clerk"])
        edge = Edge(child, parent, created_at=self.rng.randint(0, 3), created_by=by)
        if self.chance(self.busy / 2):
            edge = replace(edge, up_filter=self.filter(), up_mapping=self.mapping())
        if self.chance(self.busy / 2):
            edge = replace(edge, down_filter=self.filter(), down_mapping=self.mapping())
        return edge

    def filter(self) -> str | None:
        if not self.filters or self.chance(0.6):
            return None
        return NOT_A_FILTER if self.mistakes and self.chance(0.03) else self.rng.choice(FILTERS)

    def mapping(self) -> str | None:
        if not self.mappings or self.chance(0.3):
            return None
        if self.mistakes and self.chance(0.03):
            return NOT_A_MAPPING
        return FAILING if self.chance(0.1) else self.rng.choice(MAPPINGS)

    def component(self, name: str) -> Component:
        wanted = {
            "rank": self.rng.choice(["1", "2", "10", "2.0", "high", "low"]),
            "region": self.rng.choice(["eu", "us"]),
            "groups": ", ".join(self.prefix + group for group in GROUPS if self.chance(0.5)),
        }
        return Component(name, {key: value for key, value in wanted.items() if self.chance(0.7)})

    def grant(self) -> Grant:
        groups = [self.prefix + group for group in GROUPS]
        people = [*self.components, *groups, "*", "*", f"{self.prefix}boss"]
        action = self.rng.choice(["join", "publish", "subscribe"])
        scope = self.rng.choice([*self.scopes, WORLD] if self.world else self.scopes)
        return Grant(self.rng.choice(people), action, scope, self.rng.randint(0, 2), self.chance(0.7))

    def subscriptions(self) -> list[Subscription]:
        return [
            Subscription(name, f"s{i}", "TRUE" if self.chance(0.5) else self.rng.choice(FILTERS))
            for name in self.components
            for i in range(self.rng.choice([0, 1, 1, 1, 2]))
        ]

    def events(self, batch: int) -> list[Event]:
        return [
            Event(self.rng.choice(self.components), f"{self.prefix}e{batch}.{i}", self.attributes())
            for i in range(self.rng.randint(2, 5))
        ]

    def attributes(self) -> Content:
        wanted: Content = {
            "a": self.rng.randint(1, 2),
            "b": self.rng.randint(1, 2),
            "price": self.rng.choice([1, 4, 10]),
            "tag": self.rng.choice(["", "x"]),
            "zero": 0,
        }
        return {name: value for name, value in wanted.items() if self.chance(0.8)}

    def chance(self, share: float) -> bool:
        return self.rng.random() < share


class StandInFailed(RoutingError):
    """A mapping that failed, or a text that is none."""


_NAME = re.compile(r"[a-z_]+")


def parse_mapping(text: str) -> list[tuple[str, str]]:
    """The assignments of a mapping of the small family: attribute and right-hand side, NULL for DROP.

    >>> parse_mapping("a = b, DROP c")
    [('a', 'b'), ('c', 'NULL')]
    """
    found = []
    for part in re.split(r",\s*(?![^(]*\))", text):
        dropped = re.fullmatch(r"DROP ([a-z_]+)", part)
        assigned = re.fullmatch(r"([a-z_]+) = (.+)", part)
        if dropped:
            found.append((dropped[1], "NULL"))
        elif assigned and not assigned[2].startswith("="):
            found.append((assigned[1], assigned[2]))
        else:
            raise StandInFailed(f"not a mapping: {part}")
    return found


def apply_mapping(text: str, event: Content) -> Content:
    """The content after a mapping of the small family; what is computed from an absent attribute is absent.

    >>> apply_mapping("a = b, b = a, tag = CONCAT(tag, 'x'), price = price * 2", {"b": 1, "tag": "", "price": 4})
    {'tag': 'x', 'price': 8, 'a': 1}
    """
    changed = {name: _value(side, event) for name, side in parse_mapping(text)}
    return {name: value for name, value in {**event, **changed}.items() if value is not None}


def failing(text: str, event: Content) -> Content:
    """A mapping that always fails."""
    raise StandInFailed(f"{text} fails")


def _value(side: str, event: Content) -> object:
    if re.fullmatch(r"-?[0-9]+", side):
        return int(side)
    if text := re.fullmatch(r"'([^']*)'", side):
        return text[1]
    if side == "NULL":
        return None
    if joined := re.fullmatch(r"CONCAT\(([a-z_]+), '([^']*)'\)", side):
        left = event.get(joined[1])
        return None if left is None else f"{left}{joined[2]}"
    if computed := re.fullmatch(r"([a-z_]+|[0-9]+) ([*/]) ([a-z_]+|[0-9]+)", side):
        return _arithmetic(_value(computed[1], event), computed[2], _value(computed[3], event))
    return event.get(side)


def _arithmetic(left: object, operator: str, right: object) -> object:
    if left is None or right is None:
        return None
    if not isinstance(left, int) or not isinstance(right, int):
        raise StandInFailed("not a number")
    if operator == "*":
        return left * right
    if right == 0:
        raise StandInFailed("division by zero")
    return left / right
