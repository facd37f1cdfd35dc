"""Who may join a scope, publish in it and subscribe in it (docs/scopes.md, Security).

Law: a scope that no grant names for an action is open for it; otherwise the grant of highest priority that names the
principal, one of its groups or `*` decides, among equals a prohibition; with none, the answer is no.
"""

from __future__ import annotations

from routing.checker.system import Edge, System

EVERYONE = "*"


def may(system: System, principal: str, action: str, scope: str) -> bool:
    """Whether the principal may do it.

    >>> from routing.checker.system import Grant
    >>> staff = System(grants=(Grant("ann", "publish", "desk"),))
    >>> may(staff, "ann", "publish", "desk"), may(staff, "bob", "publish", "desk"), may(staff, "bob", "join", "desk")
    (True, False, True)
    """
    return _open(system, action, scope) or decision(system, principal, action, scope) is True


def may_join(system: System, edge: Edge) -> bool:
    """Whether the child or the writer of the edge is allowed to join, and neither is forbidden to."""
    if _open(system, "join", edge.parent):
        return True
    decided = [decision(system, principal, "join", edge.parent) for principal in (edge.child, edge.created_by)]
    return True in decided and False not in decided


def may_act(system: System, user: str | None, consumer: str) -> bool:
    """Whether the user may subscribe for the consumer: it is allowed to, or is the consumer and not forbidden to."""
    if _open(system, "act_for", consumer):
        return True
    decided = decision(system, user or "", "act_for", consumer)
    return decided is True or (decided is None and user == consumer)


def decision(system: System, principal: str, action: str, scope: str) -> bool | None:
    """What the deciding grant says, or None if no grant names the principal."""
    names = _names(system, principal)
    grants = [g for g in system.grants if (g.action, g.object) == (action, scope) and g.principal in names]
    highest = max((grant.priority for grant in grants), default=0)
    return all(grant.allowed for grant in grants if grant.priority == highest) if grants else None


def _open(system: System, action: str, scope: str) -> bool:
    return not any((grant.action, grant.object) == (action, scope) for grant in system.grants)


def _names(system: System, principal: str) -> set[str]:
    """The principal, its groups and everyone; an edge that nobody is known to have written has no principal."""
    if not principal:
        return set()
    properties = {component.name: component.properties for component in system.components}.get(principal, {})
    groups = {name.strip() for name in properties.get("groups", "").split(",")} - {""}
    return {principal, EVERYONE} | groups
