"""The tables of Sluice as constants: columns, comments, constraints. `tables(layout)` lists them all.

>>> [table.name for table in tables()][:3]
['subscriptions', 'advertisements', 'components']
"""

from __future__ import annotations

from schemas.control import CONTROL, SUBSCRIPTIONS
from schemas.delivery import DEAD_LETTERS, EVENTS, Layout, notifications
from schemas.engine import BATCHES, PATTERN_STATE, POLICY_STATE, REJECTIONS
from schemas.table import Table

__all__ = [
    "BATCHES",
    "CONTROL",
    "DEAD_LETTERS",
    "EVENTS",
    "REJECTIONS",
    "SUBSCRIPTIONS",
    "Layout",
    "Table",
    "notifications",
    "tables",
]


def tables(layout: Layout = "consumer") -> tuple[Table, ...]:
    """Every table, the control tables first."""
    return (*CONTROL, notifications(layout), EVENTS, DEAD_LETTERS, BATCHES, REJECTIONS, PATTERN_STATE, POLICY_STATE)
