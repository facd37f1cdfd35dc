"""What a batch sees of the control tables, and what it hands out: plain values, a field for each column that matters.

Law: rows come in the order of their commits, so of several rows with one key the last counts. Events come in the order
of their rank. An attribute that is NULL is absent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

Content: TypeAlias = dict[str, object]
Path: TypeAlias = tuple[str, ...]

WORLD = "world"


@dataclass(frozen=True)
class Scope:
    """A row of `scopes`: its policies and its interface."""

    name: str
    delivery: str = "all"
    publishing: str = "forward"
    input_filter: str | None = None
    input_mapping: str | None = None
    output_filter: str | None = None
    output_mapping: str | None = None

    @property
    def plain(self) -> bool:
        """Whether the edges upwards from it are identity edges, unless they carry something of their own."""
        interface = (self.input_filter, self.input_mapping, self.output_filter, self.output_mapping)
        policies = (self.delivery.strip().lower(), self.publishing.strip().lower())
        return interface == (None,) * 4 and policies == ("all", "forward")


@dataclass(frozen=True)
class Edge:
    """A row of `scope_edges`: the child is in the parent."""

    child: str
    parent: str
    up_filter: str | None = None
    up_mapping: str | None = None
    down_filter: str | None = None
    down_mapping: str | None = None
    created_at: float = 0
    created_by: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Its name: child and parent."""
        return self.child, self.parent

    @property
    def plain(self) -> bool:
        """Whether it carries neither filter nor mapping."""
        return (self.up_filter, self.up_mapping, self.down_filter, self.down_mapping) == (None,) * 4


@dataclass(frozen=True)
class Component:
    """A row of `components`: properties are texts; `groups` holds names separated by commas."""

    name: str
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Grant:
    """A row of `grants`: the principal may, or may not, join, publish in or subscribe in the scope."""

    principal: str
    action: str
    object: str
    priority: int = 0
    allowed: bool = True


@dataclass(frozen=True)
class Subscription:
    """A row of `subscriptions` that is active in this batch."""

    consumer: str
    id: str
    filter: str


@dataclass(frozen=True)
class Event:
    """An admitted event."""

    publisher: str
    id: str
    attributes: Content


@dataclass(frozen=True)
class System:
    """The control tables that one batch pins, and the settings `scopes.unscoped` and `scopes.versions`."""

    scopes: tuple[Scope, ...] = ()
    edges: tuple[Edge, ...] = ()
    components: tuple[Component, ...] = ()
    grants: tuple[Grant, ...] = ()
    subscriptions: tuple[Subscription, ...] = ()
    unscoped: str = WORLD
    versions: int = 64


@dataclass(frozen=True)
class Problem:
    """What `rejections` would say: of which table, which row, and why."""

    table: str
    row: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Notification:
    """One version of one event for one consumer. Versions are numbered from 1."""

    consumer: str
    publisher: str
    event_id: str
    content: Content
    path: Path
    subscription_ids: tuple[str, ...]
    version: int


@dataclass(frozen=True)
class Dead:
    """What `dead_letters` would hold: `mapping`, `versions` or `refused`."""

    publisher: str
    event_id: str
    kind: str
    reason: str


@dataclass
class Outcome:
    """What one batch delivers and what it records."""

    notifications: list[Notification] = field(default_factory=list)
    dead: list[Dead] = field(default_factory=list)
