"""The filter language: text to tree, tree to text, what a tree means for one event, and how filters relate.

Pure Python, no Spark.
"""

from routing.filters.ast import Filter, attributes
from routing.filters.evaluate import evaluate, matches
from routing.filters.limits import Limits
from routing.filters.merge import Merge, merge, merge_perfectly
from routing.filters.negation import push_negations
from routing.filters.normal import is_normal, normalise, size_of_normal
from routing.filters.parse import parse
from routing.filters.printer import to_sql
from routing.filters.relation import Relation, covers, identical, overlaps, relation, satisfiable

__all__ = [
    "Filter",
    "Limits",
    "Merge",
    "Relation",
    "attributes",
    "covers",
    "evaluate",
    "identical",
    "is_normal",
    "matches",
    "merge",
    "merge_perfectly",
    "normalise",
    "overlaps",
    "parse",
    "push_negations",
    "relation",
    "satisfiable",
    "size_of_normal",
    "to_sql",
]
