"""Many filter texts to clauses. A text that is not in the language is no error here: it is told, and matches nothing.

Law: the clauses are those of the texts parsed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, tzinfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from routing.errors import FilterError
from routing.filters import Filter, Limits, parse
from routing.filters.ast import Constant
from routing.matching.batch import clauses_of
from routing.matching.clauses import Clauses, Tree

_DEFAULT = Limits()


def lower_texts(
    texts: pa.Array, *, limits: Limits = _DEFAULT, zone: tzinfo = UTC, skip: Mapping[int, FilterError] | None = None
) -> tuple[Clauses, list[tuple[int, FilterError]]]:
    """The clauses of the texts, by place; and the places of those that do not parse, or are to be skipped, with why."""
    errors = dict(skip or {})
    found = texts.to_pylist()
    for place in errors:
        found[place] = "FALSE"

    def parsed(place: int) -> Filter:
        try:
            return parse(found[place], limits=limits, zone=zone)
        except FilterError as error:
            errors[place] = error
            return Constant(False)

    return clauses_of(found, limits, parsed), sorted(errors.items())


def owners_of(clauses: Clauses, name: str) -> NDArray[np.int64]:
    """The places of the filters that name an attribute."""
    if name not in clauses.names:
        return np.empty(0, np.int64)
    rows = clauses.attributes == list(clauses.names).index(name)
    conjunctions = np.unique(clauses.conjunctions[rows])
    named = set(conjunctions.tolist())
    in_trees = [owner for owner, tree in clauses.trees if any(leaf in named for leaf in leaves(tree))]
    owners = clauses.owners[conjunctions]
    return np.union1d(owners[owners >= 0], np.array(in_trees, np.int64)).astype(np.int64)


def leaves(tree: Tree) -> Iterator[int]:
    """The conjunctions that a tree is made of."""
    if isinstance(tree, int):
        yield tree
    else:
        for part in tree[1]:
            yield from leaves(part)
