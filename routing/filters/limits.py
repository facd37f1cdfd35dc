"""How large a filter may be.

Law: the parser checks a limit before it spends the work, so no text costs more than the limits allow.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from routing.errors import ConfigError

DEEPEST = 64  # every reader of a tree recurses as deep as the text nests, and Python's stack is finite
RAISE = "simplify it, or raise the limit"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes of UTF-8; nesting of parentheses, NOT and BETWEEN; nodes; values of one IN, repeated ones too.

    The nodes are the predicates, the NOTs and the groups of AND or OR; the values of an IN do not count. A filter at
    its limit may print a little longer than it was written: readers of printed text allow more `text_bytes`.

    >>> Limits(depth=8)
    Limits(text_bytes=4096, depth=8, nodes=256, in_literals=1000)
    """

    text_bytes: int = 4096
    depth: int = 32
    nodes: int = 256
    in_literals: int = 1000

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ConfigError(f"the filter limit {field.name} = {getattr(self, field.name)} must be at least 1")
        if self.depth > DEEPEST:
            raise ConfigError(f"the filter limit depth = {self.depth} must be at most {DEEPEST}")


DEFAULT = Limits()
