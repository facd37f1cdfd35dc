"""What is known of one property."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOLDS, VIOLATED, UNKNOWN = "holds", "violated", "not checked"
SHOWN = 20


@dataclass(frozen=True)
class Finding:
    """The verdict, of how many rows, and the first of those that offend."""

    property: str
    verdict: str
    words: str
    checked: int = 0
    offending: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0


def shown(rows: DataFrame) -> list[dict[str, Any]]:
    """The first few rows."""
    return rows.limit(SHOWN).toArrow().to_pylist()  # type: ignore[no-any-return]


def found(name: str, words: str, checked: int, offending: DataFrame) -> Finding:
    """A property that these rows violate, if there are any."""
    rows = shown(offending)
    return judged(name, words, checked, rows, offending.count() if len(rows) == SHOWN else len(rows))


def judged(name: str, words: str, checked: int, rows: list[dict[str, Any]], count: int | None = None) -> Finding:
    """A property that so many rows violate, of which these are the first."""
    offending = len(rows) if count is None else count
    return Finding(name, VIOLATED if offending else HOLDS, words, checked, offending, rows[:SHOWN])
