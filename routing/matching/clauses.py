"""Filters as columns: a row per predicate, grouped into conjunctions, with names and constants numbered.

Law: a subscription matches iff one of its conjunctions does, or its tree. A predicate with several members is one of
them (IN) or none (NOT_IN, of one kind); other predicates have one member, a prefix two: itself and the first bytes
that sort after everything that begins with it. No Python object per subscription: a million of them are a few arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from routing.filters.ast import Kind
from routing.matching.numbers import NumberTable

KINDS = tuple(Kind)
STRING = KINDS.index(Kind.STRING)
"""The kinds by number; a member's value is a number of the texts if its kind is this one, else of the numbers."""


class Op(IntEnum):
    """What a predicate asks of its attribute. A text test and its negation differ in the lowest bit."""

    IN = 0
    NOT_IN = 1
    LESS = 2
    AT_LEAST = 3
    AT_MOST = 4
    MORE = 5
    PREFIX = 6
    NOT_PREFIX = 7
    SUFFIX = 8
    NOT_SUFFIX = 9
    SUBSTRING = 10
    NOT_SUBSTRING = 11
    LIKE = 12
    NOT_LIKE = 13
    TEXT = 14
    """Any string."""
    NULL = 16
    NOT_NULL = 17


@dataclass(frozen=True, slots=True)
class Texts:
    """Distinct byte strings, end to end."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]

    def __getitem__(self, number: int) -> bytes:
        return self.data[self.starts[number] : self.starts[number + 1]].tobytes()


Tree: TypeAlias = "int | tuple[bool, tuple[Tree, ...]]"
"""A conjunction by its number, or (all of them?, parts): what is too large for a disjunction of conjunctions."""


@dataclass(frozen=True, slots=True)
class Clauses:
    """The predicates of many filters. Rows are sorted by conjunction; a conjunction without rows is true."""

    owners: NDArray[np.int32]
    """The subscription of each conjunction; -1 if it is a leaf of a tree."""
    conjunctions: NDArray[np.int32]
    attributes: NDArray[np.int32]
    ops: NDArray[np.int8]
    member_starts: NDArray[np.int64]
    """Row r has the members from `member_starts[r]` to `member_starts[r + 1]`."""
    kinds: NDArray[np.int8]
    values: NDArray[np.int32]
    names: Sequence[str]
    numbers: NumberTable
    texts: Texts
    trees: Sequence[tuple[int, Tree]] = ()
    """(subscription, tree)"""

    @property
    def member_rows(self) -> NDArray[Any]:
        """The row of each member."""
        return np.repeat(np.arange(len(self.ops), dtype=np.int32), np.diff(self.member_starts))
