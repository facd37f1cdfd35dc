"""Re-derives what should have been delivered, sharing nothing with matching and routing but the language of filters.

`flow` is the reference for scopes, mappings and policies. Pure Python, no Spark.
"""

from routing.checker.flow import Reference
from routing.checker.graph import Graph, accepted, visible
from routing.checker.system import (
    Component,
    Dead,
    Edge,
    Event,
    Grant,
    Notification,
    Outcome,
    Problem,
    Scope,
    Subscription,
    System,
)

__all__ = [
    "Component",
    "Dead",
    "Edge",
    "Event",
    "Grant",
    "Graph",
    "Notification",
    "Outcome",
    "Problem",
    "Reference",
    "Scope",
    "Subscription",
    "System",
    "accepted",
    "visible",
]
