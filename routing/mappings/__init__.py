"""The mapping language: text to tree, tree to text, and what a tree makes of one event.

Pure Python, no Spark; `routing.mappings.columns` compiles a mapping for Spark.
"""

from routing.mappings.ast import Mapping
from routing.mappings.evaluate import apply
from routing.mappings.limits import Limits
from routing.mappings.parse import parse_mapping
from routing.mappings.printer import to_sql

__all__ = ["Limits", "Mapping", "apply", "parse_mapping", "to_sql"]
