"""Boolean code over rows: what stands between the leaves and a filter.

Law: code is postfix and two-valued; negation lives in the leaves (`udfs/leaves.py`). A number ≥ 0 pushes the rows of
that leaf; AND and OR combine the two on top; ALL pushes every row; `UNLESS - d` goes on d places later if no row on top
is true: a conjunction stops at the part that leaves nothing. Empty code is never true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from udfs.columns import Bools

Code: TypeAlias = tuple[int, ...]

AND, OR, ALL = -1, -2, -3
UNLESS = -3  # so the shortest jump is -4

NEVER: Code = ()
ALWAYS: Code = (ALL,)


def all_of(parts: Iterable[Code]) -> Code:
    """The code that is true where all parts are; put first those that are cheap and rarely true.

    >>> all_of([(0,), (1,)]), all_of([(0,), ALWAYS]), all_of([(0,), NEVER]), all_of([])
    ((0, -5, 1, -1), (0,), (), (-3,))
    """
    kept = [part for part in parts if part != ALWAYS]
    if NEVER in kept or not kept:
        return NEVER if kept else ALWAYS
    code = list(kept[0])
    for part in kept[1:]:
        code += [UNLESS - len(part) - 1, *part, AND]
    return tuple(code)


def any_of(parts: Iterable[Code]) -> Code:
    """The code that is true where some part is.

    >>> any_of([(0,), (1,), NEVER]), any_of([(0,), ALWAYS]), any_of([])
    ((0, 1, -2), (-3,), ())
    """
    kept = [part for part in parts if part != NEVER]
    if ALWAYS in kept or not kept:
        return ALWAYS if kept else NEVER
    code = list(kept[0])
    for part in kept[1:]:
        code += [*part, OR]
    return tuple(code)


def run(code: Sequence[int], rows_of: Callable[[int], Bools], rows: int) -> Bools:
    """The rows of which the code is true, given those of each leaf. The result may be shared: do not write into it.

    >>> leaves = [np.array([True, True, False]), np.array([True, False, False])]
    >>> run(all_of([(0,), (1,)]), leaves.__getitem__, 3)
    array([ True, False, False])
    """
    stack: list[Bools] = []
    at = 0
    while at < len(code):
        operation = code[at]
        at += 1
        if operation >= 0:
            stack.append(rows_of(operation))
        elif operation == AND:
            top = stack.pop()
            stack[-1] = stack[-1] & top
        elif operation == OR:
            top = stack.pop()
            stack[-1] = stack[-1] | top
        elif operation == ALL:
            stack.append(np.ones(rows, np.bool_))
        elif not np.count_nonzero(stack[-1]):
            at += UNLESS - operation
    return stack[0] if stack else np.zeros(rows, np.bool_)
