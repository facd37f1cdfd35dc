"""`sluice check`: the checker with the language of mappings in its hands."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from functools import cache, partial
from typing import Any

from routing.checker.audit import audited
from routing.checker.finding import Finding
from routing.checker.range import Options
from routing.checker.tree import Tree
from routing.config import Config
from routing.mappings import Mapping, apply, parse_mapping
from routing.tables import Tables


def check(tables: Tables, config: Config, options: Options | None = None) -> Iterator[Finding]:
    """What is known of each property, from the tables alone, one after the other."""
    mapped = partial(_mapped, tables.zone)
    return audited(tables, config, options or Options(), apply_mapping=mapped, parse_mapping=parse_mapping)


def _mapped(zone: tzinfo, text: str, content: Any) -> Tree:
    """The content after the mapping."""
    mapping = _parsed(text)
    after = apply(mapping, content, zone=zone)
    tree: Tree = content
    return tree.changed({one.attribute: after.get(one.attribute) for one in mapping.assignments})


@cache
def _parsed(text: str) -> Mapping:
    return parse_mapping(text)
