"""Who may join a scope, publish in it and subscribe in it (docs/scopes.md, Security).

Law: a scope that no grant names for an action is open for it. Otherwise, of the grants that name the principal, one of
its groups or `*`, that of the highest priority decides, among equals a prohibition; with none, the answer is no.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

EVERYONE = "*"

ANYONE = "\0"
"""Stands for whoever no table names; nothing may be called so."""


@dataclass(frozen=True)
class Grants:
    """The grants on scopes, by action and scope: for each principal the priority and the verdict that decides."""

    verdicts: Mapping[tuple[str, str], Mapping[str, tuple[int, bool]]] = field(default_factory=dict)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def guards(self, action: str, scope: str) -> bool:
        """Whether some grant on the scope is about the action."""
        return (action, scope) in self.verdicts

    def may(self, principal: str, action: str, scope: str) -> bool:
        """Whether the principal may do it.

        >>> staff = grants([{"principal": "ann", "action": "publish", "object": "desk"}], [])
        >>> [staff.may(who, what, "desk") for who, what in [("ann", "publish"), ("bob", "publish"), ("bob", "join")]]
        [True, False, True]
        """
        return not self.guards(action, scope) or self.decision(principal, action, scope) is True

    def may_join(self, child: str, writer: str, parent: str) -> bool:
        """Whether the child or whoever wrote the edge is allowed to join, and neither is forbidden to."""
        if not self.guards("join", parent):
            return True
        decided = {self.decision(principal, "join", parent) for principal in (child, writer)}
        return True in decided and False not in decided

    def decision(self, principal: str, action: str, scope: str) -> bool | None:
        """What the deciding grant says, or None if no grant names the principal."""
        known = self.verdicts.get((action, scope), {})
        names = {principal, EVERYONE, *self.groups.get(principal, ())} if principal else ()
        found = [known[name] for name in names if name in known]
        highest = max((priority for priority, _ in found), default=0)
        return all(allowed for priority, allowed in found if priority == highest) if found else None


OPEN = Grants()
"""No grants: everything is allowed."""


def grants(rows: Iterable[Mapping[str, object]], components: Iterable[Mapping[str, object]]) -> Grants:
    """The grants of these rows; the groups of a component are its property `groups`, names separated by commas."""
    verdicts: dict[tuple[str, str], dict[str, tuple[int, bool]]] = {}
    for row in rows:
        on = verdicts.setdefault((str(row["action"]), str(row["object"])), {})
        if row["principal"] == ANYONE:
            continue
        priority, allowed = int(str(row.get("priority") or 0)), row.get("allowed", True) is True
        before = on.get(str(row["principal"]), (priority, True))
        on[str(row["principal"])] = max(before, (priority, allowed), key=lambda verdict: (verdict[0], not verdict[1]))
    named = [row for row in components if row["component"] != ANYONE]
    return Grants(verdicts, {str(row["component"]): groups for row in named if (groups := _groups(row))})


def _groups(component: Mapping[str, object]) -> frozenset[str]:
    properties = component.get("properties")
    text = properties.get("groups", "") if isinstance(properties, Mapping) else ""
    return frozenset(name.strip() for name in str(text or "").split(",")) - {""}
