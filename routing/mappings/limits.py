"""How large a mapping may be, and how large what it makes.

Law: the parser checks a limit before it spends the work; the compiler checks one before Spark sees the columns; and
no chain of mappings makes a text longer than `LONGEST`, whatever the events hold.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from routing.errors import ConfigError
from routing.filters.limits import DEEPEST

LONGEST = 1 << 20  # characters of a text that an expression makes
PRECISION, SCALE = 37, 18  # of a decimal that is computed: 19 digits before the point hold every 64-bit integer
NUMBER_CHARACTERS = 100  # of a text that is cast to a number: reading digits takes time in the square of their number
FAR = 1 << 30  # a place in a text further away counts as this one
MOST_CALLS = 12  # nested: Spark's analyzer takes some six of its 100 rounds for each
COLUMNS = 50_000  # nodes of all columns of one compiled mapping


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes of UTF-8; depth of the tree; depth of calls and CASTs alone; nodes; attributes set or dropped;
    arguments of one call or branches of one CASE; and values of one IN in a condition.

    The nodes are the expressions, and what a filter counts as nodes in each condition.

    >>> Limits(depth=8)
    Limits(text_bytes=16384, depth=8, calls=10, nodes=512, assignments=256, arguments=32, in_literals=100)
    """

    text_bytes: int = 16384
    depth: int = 32
    calls: int = 10
    nodes: int = 512
    assignments: int = 256
    arguments: int = 32
    in_literals: int = 100

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ConfigError(f"the mapping limit {field.name} = {getattr(self, field.name)} must be at least 1")
        if self.depth > DEEPEST:
            raise ConfigError(f"the mapping limit depth = {self.depth} must be at most {DEEPEST}")
        if self.calls > MOST_CALLS:
            raise ConfigError(f"the mapping limit calls = {self.calls} must be at most {MOST_CALLS}")


DEFAULT = Limits()
