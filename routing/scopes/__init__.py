"""Scopes: who is where, what may cross from one place to another, and in which form. Spark only below `content`."""

from routing.scopes.graph import Edge, Graph, Scope, accept

__all__ = ["Edge", "Graph", "Scope", "accept"]
