"""A tree of conjunctions as tests that jump: no stack, and no more tests than needed.

Law: following the tests from the first, by what each finds, ends in ACCEPT exactly where the tree is true.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.matching.clauses import Tree
from routing.matching.predicates import HOLE, Predicates
from udfs.index import ACCEPT, REJECT, Test


class Jumps:
    """The tests of the trees so far. `starts` tells where the predicates of each conjunction begin."""

    ACCEPT, REJECT = ACCEPT, REJECT

    def __init__(self, predicates: Predicates, starts: NDArray[np.int64], text_slots: NDArray[np.int32]) -> None:
        self._predicates, self._starts, self._text_slots = predicates, starts, text_slots
        self._tests: list[tuple[int, ...]] = []

    def first(self, tree: Tree) -> int:
        """The first test of the tree, or ACCEPT or REJECT if it needs none."""
        return self._tree(tree, ACCEPT, REJECT)

    def shifted(self, by: int) -> NDArray[np.int32]:
        """All tests, as if so many came before them."""
        tests = np.array(self._tests, np.int32).reshape(-1, 8)
        tests[:, 4:6] += np.where(tests[:, 4:6] >= 0, by, 0)
        return tests

    def _tree(self, tree: Tree, then: int, otherwise: int) -> int:
        """Written from the back: each part knows where to go when it is settled."""
        if isinstance(tree, int):
            return self._conjunction(tree, then, otherwise)
        all_of_them, parts = tree
        for part in reversed(parts):
            if all_of_them:
                then = self._tree(part, then, otherwise)
            else:
                otherwise = self._tree(part, then, otherwise)
        return then if all_of_them else otherwise

    def _conjunction(self, number: int, then: int, otherwise: int) -> int:
        rows = self._predicates
        if rows.dead[number]:
            return otherwise
        for row in range(self._starts[number], self._starts[number + 1]):
            test, lane, a, b = int(rows.tests[row]), int(rows.lanes[row]), int(rows.a[row]), int(rows.b[row])
            where = int(self._text_slots[lane]) if test in (Test.HOLDS, Test.LACKS) else lane
            around = test in (Test.INTERVAL, HOLE)
            row_of = (Test.INTERVAL, where, a, b - a) if around else (test, where, a, b)
            self._tests.append((*row_of, then, otherwise, 0, 0))
            then = len(self._tests) - 1
        return then
