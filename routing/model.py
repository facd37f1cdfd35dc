"""The values that the rooms hand to each other. Frozen; no Spark, no tables, no clocks in them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

# As a partition value either of these reads back as NULL.
UNUSABLE_NAMES = ("", "__HIVE_DEFAULT_PARTITION__")


@dataclass(frozen=True)
class Problem:
    """What is wrong with a control row. An error skips the row, a warning does not."""

    severity: str
    table: str
    owner: str
    id: str
    text: str
    reason: str
    position: int | None = None


@dataclass(frozen=True)
class Opening:
    """What a batch depends on, as pinned in the ledger before anything was computed. `retry`: it was pinned before."""

    ordinal: int
    key: str
    source: str
    clock: datetime
    control: Mapping[str, int]
    outputs: Mapping[str, int]
    schema: str
    offsets: str | None = None
    unfinished: frozenset[int] = frozenset()
    retry: bool = False

    @property
    def tag(self) -> str:
        """What this batch's commits carry, so that a retry knows them."""
        return f"sluice batch {self.ordinal} {self.key}"


@dataclass(frozen=True)
class Report:
    """How a batch went."""

    ordinal: int
    source: str
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    retry: bool = False

    def __str__(self) -> str:
        counts = " ".join(f"{name}={count}" for name, count in self.counts.items())
        return f"batch={self.ordinal} source={self.source} {counts} seconds={self.seconds:.2f}" + (
            " retry=true" if self.retry else ""
        )


def effective_id(owner: str, text: str, id: str | None = None) -> str:
    """The id of a control row: its own, or a 128-bit hash of who and what, so that the same pair twice is one row.

    >>> effective_id("alice", "x > 3") == effective_id("alice", "x > 3", None) != effective_id("bob", "x > 3")
    True
    """
    return (
        id if id is not None else hashlib.md5(f"{len(owner)}:{owner}{text}".encode(errors="surrogatepass")).hexdigest()
    )


EFFECTIVE_ID_SQL = "coalesce(id, md5(concat(cast(length(consumer) AS STRING), ':', consumer, filter)))"
