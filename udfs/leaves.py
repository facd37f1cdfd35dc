"""One leaf of a filter, over all rows of a column at once.

Law: a leaf is true only of comparable rows, and so is its negation: `x < 5` and its negation `x >= 5` are both false
where x is null, NaN or of another type (SPEC §3). So a negated leaf is "comparable, and not", never a plain "not", and
the boolean code above the leaves needs no third truth value.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from udfs.columns import Bools, Column

_FEW = 8  # up to so many values, comparing with each beats the binary search


class Test(IntEnum):
    """What a leaf asks of a value. The six comparisons are EQUAL, LESS and their negations; cut points do the rest."""

    __test__ = False  # no test class, whatever pytest thinks of the name

    NOTHING = 0
    EQUAL = 1
    AMONG = 2
    LESS = 3
    PREFIX = 4
    SUFFIX = 5
    SUBSTRING = 6
    REGEX = 7
    NULL = 8


TEXT_OPERANDS = frozenset({Test.LESS, Test.PREFIX, Test.SUFFIX, Test.SUBSTRING, Test.REGEX})
"""The tests whose operand, on a text column, is a text; the others have vocabulary codes."""


def holds(column: Column, test: Test, negated: bool, operands: Any) -> Bools:
    """The rows of which the leaf is true. The result may be shared: do not write into it.

    `operands` is a sorted array of the column's own numbers (for wide decimals all their words), or one text.

    >>> column = Column(np.array([1, 2, 3]), np.array([True, True, False]))
    >>> holds(column, Test.LESS, True, np.array([2]))
    array([False,  True, False])
    """
    if test is Test.NULL:
        return column.values if negated else ~column.values
    if isinstance(operands, str):
        return _among_distinct(column, test, negated, operands)
    found = _compare(column.values, test, operands)
    if negated:
        np.logical_not(found, out=found)
    if column.comparable is not None:
        found &= column.comparable
    return found


def _compare(values: NDArray[Any], test: Test, operands: NDArray[Any]) -> Bools:
    """The test on numbers, comparable or not; always a new array."""
    if values.ndim == 2:
        return _compare_words(values, test, operands)
    found: Bools
    if test is Test.EQUAL:
        found = values == operands[0].item()  # a Python number: one of numpy's would widen all values to its own type
    elif test is Test.LESS:
        found = values < operands[0].item()
    elif test is Test.AMONG:
        found = _among(values, operands)
    else:
        found = np.zeros(len(values), np.bool_)
    return found


def _among(values: NDArray[Any], operands: NDArray[Any]) -> Bools:
    found: Bools
    if len(operands) <= _FEW:
        found = values == operands[0].item()
        for operand in operands[1:].tolist():
            found |= values == operand
    else:
        nearest = np.minimum(np.searchsorted(operands, values), len(operands) - 1)
        found = operands[nearest] == values
    return found


def _compare_words(values: NDArray[np.uint64], test: Test, operands: NDArray[Any]) -> Bools:
    """Numbers of several words: word by word, the most significant first."""
    found = np.zeros(values.shape[1], np.bool_)
    for operand in operands.view(np.uint64).reshape(-1, len(values)):
        less, equal = np.zeros_like(found), np.ones_like(found)
        for word, cut in zip(values, operand, strict=True):
            less |= equal & (word < cut)
            equal &= word == cut
        found |= less if test is Test.LESS else equal
    return found


def _among_distinct(column: Column, test: Test, negated: bool, operand: str) -> Bools:
    """A test on strings: asked once of each distinct one, then gathered. The last entry stands for null."""
    assert column.distinct is not None and column.codes is not None
    answer = np.zeros(len(column.distinct) + 1, np.bool_)
    answer[:-1] = _ask(column.distinct, test, operand).to_numpy(zero_copy_only=False)
    if negated:
        np.logical_not(answer[:-1], out=answer[:-1])
    return np.take(answer, column.codes)


def _ask(strings: pa.Array, test: Test, operand: str) -> pa.BooleanArray:
    if test is Test.LESS:
        return pc.less(strings, pa.scalar(operand, pa.string()))  # by bytes of UTF-8, so by code point
    if test is Test.PREFIX:
        return pc.starts_with(strings, pattern=operand)
    if test is Test.SUFFIX:
        return pc.ends_with(strings, pattern=operand)
    if test is Test.SUBSTRING:
        return pc.match_substring(strings, pattern=operand)
    return pc.match_substring_regex(strings, pattern=operand)  # RE2: no backtracking
