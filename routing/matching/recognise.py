"""The plain texts among many, read by compiled code: conjunctions of simple predicates, without a Python object each.

Law: a text is taken only if the parser would take it and give the same conjunction; whatever is doubtful is left to
the parser: OR, NOT, parentheses, quoted or non-ASCII names, doubled quotes, exponents, long numbers, dates, escapes
and wildcards inside a pattern, anything near a limit, and every error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.matching.clauses import STRING, Op
from routing.matching.lexemes import is_word, letter, literal, operator, packed, plain_name, space, word_end
from udfs.jit import compiled

_IN, _AT_LEAST, _AT_MOST = int(Op.IN), int(Op.AT_LEAST), int(Op.AT_MOST)
_PREFIX, _SUFFIX, _SUBSTRING, _TEXT = int(Op.PREFIX), int(Op.SUFFIX), int(Op.SUBSTRING), int(Op.TEXT)
_NULL, _NOT_NULL, _STRING = int(Op.NULL), int(Op.NOT_NULL), STRING
_W_AND, _W_ANY, _W_BETWEEN, _W_IN = (packed(word) for word in ("AND", "ANY", "BETWEEN", "IN"))
_W_IS, _W_LIKE, _W_NOT, _W_NULL = (packed(word) for word in ("IS", "LIKE", "NOT", "NULL"))
_W_STARTSWITH, _W_TH, _W_ENDSWITH, _W_CONTAINS = (packed(word) for word in ("STARTSWITH", "TH", "ENDSWITH", "CONTAINS"))


class Found(NamedTuple):
    """The predicates of the texts that were taken; names and strings as places in the data."""

    rows: NDArray[np.int64]
    """text, op, start and end of the name, end of its members"""
    members: NDArray[np.int64]
    """kind, then start and end of a string, or mantissa and scale of a number"""
    taken: NDArray[np.bool_]


def recognise(data: NDArray[np.uint8], starts: NDArray[np.int64], nodes: int, most_members: int, bytes: int) -> Found:
    """The predicates of the plain texts; the limits are those of the parser.

    >>> text = np.frombuffer(b"a = 1x > 2 OR y", np.uint8)
    >>> recognise(text, np.array([0, 5, 15]), 256, 1000, 4096).taken
    array([ True, False])
    """
    room = len(data) // 2 + 8
    rows, members = np.empty((len(data) // 4 + 8, 5), np.int64), np.empty((room, 3), np.int64)
    taken = np.zeros(len(starts) - 1, np.bool_)
    count, many = _texts(data, starts, nodes, most_members, bytes, rows, members, taken)
    return Found(rows[:count].copy(), members[:many].copy(), taken)


@compiled
def _texts(data: Any, starts: Any, nodes: int, most: int, bytes: int, rows: Any, members: Any, taken: Any) -> Any:
    count, many = 0, 0
    for text in range(len(taken)):
        if starts[text + 1] - starts[text] > bytes:
            continue
        row, member = _text(data, starts[text], starts[text + 1], text, nodes, most, rows, members, count, many)
        if row > 0:
            count, many, taken[text] = row, member, True
    return count, many


@compiled
def _text(
    data: Any, at: int, end: int, text: int, nodes: int, most: int, rows: Any, members: Any, count: int, many: int
) -> Any:
    """Append the rows of one text; returns the numbers of rows and members, or 0 if it is left to the parser."""
    first = count
    while True:
        before = many
        op, name, name_end, at, many = _predicate(data, at, end, members, many)
        if op < 0 or many - before > most:
            return 0, 0
        if op >= 100:  # BETWEEN: its members are those of two predicates
            rows[count] = (text, _AT_LEAST, name, name_end, many - 1)
            count, op = count + 1, _AT_MOST
        rows[count] = (text, op, name, name_end, many)
        count += 1
        if 2 * (count - first) + 1 > nodes:
            return 0, 0
        at = space(data, at, end)
        if at == end:
            return count, many
        word = word_end(data, at, end)
        if word - at != 3 or not is_word(data, at, word, _W_AND):
            return 0, 0
        at = word


@compiled
def _predicate(data: Any, at: int, end: int, members: Any, many: int) -> Any:
    """One predicate: its op or -1, its name, the place behind it, and the number of members."""
    no = (-1, 0, 0, at, many)
    name = space(data, at, end)
    name_end = plain_name(data, name, end)
    if name_end < 0:
        return no
    at = space(data, name_end, end)
    if at < end and data[at] == 40:
        return _function(data, name, name_end, at + 1, end, members, many)
    if at == end:
        return no
    if letter(data[at]):
        return _worded(data, name, name_end, at, end, members, many)
    op, at = operator(data, at, end)
    if op < 0:
        return no
    at, many = literal(data, at, end, members, many)
    return (op, name, name_end, at, many) if at >= 0 else no


@compiled
def _worded(data: Any, name: int, name_end: int, at: int, end: int, members: Any, many: int) -> Any:
    """A test that is a word: IS, ANY, IN, LIKE, BETWEEN."""
    no = (-1, 0, 0, at, many)
    word = word_end(data, at, end)
    if is_word(data, at, word, _W_ANY):
        return _NOT_NULL, name, name_end, word, many
    if is_word(data, at, word, _W_IS):
        at = space(data, word, end)
        word = word_end(data, at, end)
        op = _NULL
        if is_word(data, at, word, _W_NOT):
            at, op = space(data, word, end), _NOT_NULL
            word = word_end(data, at, end)
        return (op, name, name_end, word, many) if is_word(data, at, word, _W_NULL) else no
    if is_word(data, at, word, _W_LIKE):
        at, many = literal(data, word, end, members, many)
        if at < 0 or members[many - 1, 0] != _STRING:
            return no
        return _like(data, members, many - 1), name, name_end, at, many
    if is_word(data, at, word, _W_BETWEEN):
        at, many = literal(data, word, end, members, many)
        at = space(data, at, end) if at >= 0 else end
        word = word_end(data, at, end)
        if not is_word(data, at, word, _W_AND):
            return no
        at, many = literal(data, word, end, members, many)
        return (100, name, name_end, at, many) if at >= 0 else no
    if not is_word(data, at, word, _W_IN):
        return no
    at = space(data, word, end)
    if at == end or data[at] != 40:
        return no
    while True:
        at, many = literal(data, at + 1, end, members, many)
        at = space(data, at, end) if at >= 0 else end
        if at == end:
            return no
        if data[at] == 41:
            return _IN, name, name_end, at + 1, many
        if data[at] != 44:
            return no


@compiled
def _function(data: Any, name: int, name_end: int, at: int, end: int, members: Any, many: int) -> Any:
    """STARTSWITH, ENDSWITH or CONTAINS; `at` is behind the parenthesis."""
    no = (-1, 0, 0, at, many)
    if (
        name_end - name == 10
        and is_word(data, name, name_end, _W_STARTSWITH)
        and is_word(data, name + 8, name_end, _W_TH)
    ):
        op = _PREFIX
    elif name_end - name == 8 and is_word(data, name, name_end, _W_ENDSWITH):
        op = _SUFFIX
    elif name_end - name == 8 and is_word(data, name, name_end, _W_CONTAINS):
        op = _SUBSTRING
    else:
        return no
    name = space(data, at, end)
    name_end = plain_name(data, name, end)
    at = space(data, name_end, end) if name_end >= 0 else end
    if at == end or data[at] != 44:
        return no
    at, many = literal(data, at + 1, end, members, many)
    at = space(data, at, end) if at >= 0 else end
    if at == end or data[at] != 41 or members[many - 1, 0] != _STRING:
        return no
    if members[many - 1, 1] == members[many - 1, 2]:
        op = _TEXT
    return op, name, name_end, at + 1, many


@compiled
def _like(data: Any, members: Any, member: int) -> Any:
    """The op of a pattern without inner wildcards, whose text is left in the member; else -1."""
    start, stop = members[member, 1], members[member, 2]
    for at in range(start, stop):
        if data[at] == 92 or data[at] == 95:
            return -1
    first, last = start, stop
    while first < last and data[first] == 37:
        first += 1
    while last > first and data[last - 1] == 37:
        last -= 1
    for at in range(first, last):
        if data[at] == 37:
            return -1
    members[member, 1], members[member, 2] = first, last
    if first == start and last == stop:
        return _IN
    if first == last:
        return _TEXT
    if first == start:
        return _PREFIX
    return _SUFFIX if last == stop else _SUBSTRING
