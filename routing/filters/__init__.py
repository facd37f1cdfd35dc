"""The filter language: text to tree, tree to text, and what a tree means for one event. Pure Python, no Spark."""

from routing.filters.ast import Filter, attributes
from routing.filters.evaluate import evaluate, matches
from routing.filters.limits import Limits
from routing.filters.negation import push_negations
from routing.filters.parse import parse
from routing.filters.printer import to_sql

__all__ = ["Filter", "Limits", "attributes", "evaluate", "matches", "parse", "push_negations", "to_sql"]
