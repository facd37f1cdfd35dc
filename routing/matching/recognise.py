"""The plain texts among many, read by compiled code: conjunctions of simple predicates, without a Python object each.

Law: a text is taken only if the parser would take it and give the same conjunction; whatever is doubtful is left to
the parser: OR, NOT, parentheses, quoted or non-ASCII names, doubled quotes, exponents, long numbers, dates, escapes
and wildcards inside a pattern, anything near a limit, and every error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.filters.ast import Kind
from routing.filters.tokens import RESERVED
from routing.matching.clauses import KINDS, Op
from udfs.jit import compiled

_IN, _NOT_IN, _LESS, _AT_LEAST = int(Op.IN), int(Op.NOT_IN), int(Op.LESS), int(Op.AT_LEAST)
_AT_MOST, _MORE = int(Op.AT_MOST), int(Op.MORE)
_PREFIX, _SUFFIX, _SUBSTRING, _TEXT = int(Op.PREFIX), int(Op.SUFFIX), int(Op.SUBSTRING), int(Op.TEXT)
_NULL, _NOT_NULL = int(Op.NULL), int(Op.NOT_NULL)
_STRING, _NUMBER, _BOOLEAN = (KINDS.index(kind) for kind in (Kind.STRING, Kind.NUMBER, Kind.BOOLEAN))
_DIGITS = 15


def _packed(word: str) -> int:
    return int.from_bytes(word[:8].encode(), "big")


_W_AND = _packed("AND")
_W_ANY = _packed("ANY")
_W_BETWEEN = _packed("BETWEEN")
_W_CONTAINS = _packed("CONTAINS")
_W_ENDSWITH = _packed("ENDSWITH")
_W_FALSE = _packed("FALSE")
_W_IN = _packed("IN")
_W_IS = _packed("IS")
_W_LIKE = _packed("LIKE")
_W_NOT = _packed("NOT")
_W_NULL = _packed("NULL")
_W_STARTSWITH, _W_TH = _packed("STARTSWITH"), _packed("TH")
_W_TRUE = _packed("TRUE")
_RESERVED = np.array([_packed(word) for word in sorted(RESERVED | {"DATE", "TIMESTAMP"})], np.int64)


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
        at = _space(data, at, end)
        if at == end:
            return count, many
        word = _word(data, at, end)
        if word - at != 3 or not _is(data, at, word, _W_AND):
            return 0, 0
        at = word


@compiled
def _predicate(data: Any, at: int, end: int, members: Any, many: int) -> Any:
    """One predicate: its op or -1, its name, the place behind it, and the number of members."""
    no = (-1, 0, 0, at, many)
    name = _space(data, at, end)
    name_end = _name(data, name, end)
    if name_end < 0:
        return no
    at = _space(data, name_end, end)
    if at < end and data[at] == 40:
        return _function(data, name, name_end, at + 1, end, members, many)
    if at == end:
        return no
    if _letter(data[at]):
        return _worded(data, name, name_end, at, end, members, many)
    op, at = _operator(data, at, end)
    if op < 0:
        return no
    at, many = _literal(data, at, end, members, many)
    return (op, name, name_end, at, many) if at >= 0 else no


@compiled
def _worded(data: Any, name: int, name_end: int, at: int, end: int, members: Any, many: int) -> Any:
    """A test that is a word: IS, ANY, IN, LIKE, BETWEEN."""
    no = (-1, 0, 0, at, many)
    word = _word(data, at, end)
    if _is(data, at, word, _W_ANY):
        return _NOT_NULL, name, name_end, word, many
    if _is(data, at, word, _W_IS):
        at = _space(data, word, end)
        word = _word(data, at, end)
        op = _NULL
        if _is(data, at, word, _W_NOT):
            at, op = _space(data, word, end), _NOT_NULL
            word = _word(data, at, end)
        return (op, name, name_end, word, many) if _is(data, at, word, _W_NULL) else no
    if _is(data, at, word, _W_LIKE):
        at, many = _literal(data, word, end, members, many)
        if at < 0 or members[many - 1, 0] != _STRING:
            return no
        return _like(data, members, many - 1), name, name_end, at, many
    if _is(data, at, word, _W_BETWEEN):
        at, many = _literal(data, word, end, members, many)
        at = _space(data, at, end) if at >= 0 else end
        word = _word(data, at, end)
        if not _is(data, at, word, _W_AND):
            return no
        at, many = _literal(data, word, end, members, many)
        return (100, name, name_end, at, many) if at >= 0 else no
    if not _is(data, at, word, _W_IN):
        return no
    at = _space(data, word, end)
    if at == end or data[at] != 40:
        return no
    while True:
        at, many = _literal(data, at + 1, end, members, many)
        at = _space(data, at, end) if at >= 0 else end
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
    if name_end - name == 10 and _is(data, name, name_end, _W_STARTSWITH) and _is(data, name + 8, name_end, _W_TH):
        op = _PREFIX
    elif name_end - name == 8 and _is(data, name, name_end, _W_ENDSWITH):
        op = _SUFFIX
    elif name_end - name == 8 and _is(data, name, name_end, _W_CONTAINS):
        op = _SUBSTRING
    else:
        return no
    name = _space(data, at, end)
    name_end = _name(data, name, end)
    at = _space(data, name_end, end) if name_end >= 0 else end
    if at == end or data[at] != 44:
        return no
    at, many = _literal(data, at + 1, end, members, many)
    at = _space(data, at, end) if at >= 0 else end
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


@compiled
def _operator(data: Any, at: int, end: int) -> Any:
    """The op of a comparison and the place behind it, or -1."""
    sign, then = data[at], data[at + 1] if at + 1 < end else np.uint8(0)
    after = data[at + 2] if at + 2 < end else np.uint8(0)
    if sign == 61:
        return (-1, at) if then == 60 or then == 61 or then == 62 else (_IN, at + 1)
    if sign == 60:
        if then == 61:
            return (-1, at) if after == 62 else (_AT_MOST, at + 2)
        return (_NOT_IN, at + 2) if then == 62 else (_LESS, at + 1)
    if sign == 62:
        return (_AT_LEAST, at + 2) if then == 61 else (_MORE, at + 1)
    return (_NOT_IN, at + 2) if sign == 33 and then == 61 else (-1, at)


@compiled
def _literal(data: Any, at: int, end: int, members: Any, many: int) -> Any:
    """Append a string, number, TRUE or FALSE; returns the place behind it, or -1, and the number of members."""
    at = _space(data, at, end)
    if at == end:
        return -1, many
    if data[at] == 39:
        start = at + 1
        at = start
        while at < end and data[at] != 39:
            at += 1
        if at == end or (at + 1 < end and data[at + 1] == 39):
            return -1, many
        members[many] = (_STRING, start, at)
        return at + 1, many + 1
    if _letter(data[at]):
        word = _word(data, at, end)
        true = _is(data, at, word, _W_TRUE)
        if not true and not _is(data, at, word, _W_FALSE):
            return -1, many
        members[many] = (_BOOLEAN, 1 if true else 0, 0)
        return word, many + 1
    return _number(data, at, end, members, many)


@compiled
def _number(data: Any, at: int, end: int, members: Any, many: int) -> Any:
    """Digits, with or without a sign and a fraction; few enough for a mantissa that a double keeps."""
    negative = data[at] == 45
    if negative or data[at] == 43:
        at += 1
    mantissa, scale, digits = np.int64(0), 0, 0
    start = at
    while at < end and 48 <= data[at] <= 57:
        mantissa = 10 * mantissa + (np.int64(data[at]) - 48)
        at += 1
        digits += 1
    if at == start or digits > _DIGITS:
        return -1, many
    if at < end and data[at] == 46:
        at += 1
        start = at
        while at < end and 48 <= data[at] <= 57 and digits <= _DIGITS:
            mantissa = 10 * mantissa + (np.int64(data[at]) - 48)
            at += 1
            digits += 1
            scale += 1
        if at == start or digits > _DIGITS:
            return -1, many
    if at < end and (data[at] == 46 or data[at] >= 128 or _letter(data[at]) or 48 <= data[at] <= 57):
        return -1, many
    while scale > 0 and mantissa % 10 == 0:
        mantissa //= 10
        scale -= 1
    members[many] = (_NUMBER, -mantissa if negative else mantissa, scale)
    return at, many + 1


@compiled
def _space(data: Any, at: int, end: int) -> Any:
    while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 10 or data[at] == 13):
        at += 1
    return at


@compiled
def _letter(byte: Any) -> Any:
    return 65 <= byte <= 90 or 97 <= byte <= 122 or byte == 95


@compiled
def _word(data: Any, at: int, end: int) -> Any:
    """The end of a plain word; 0 letters if there is none, or if it goes on as no plain word does."""
    start = at
    if at < end and _letter(data[at]):
        while at < end and (_letter(data[at]) or 48 <= data[at] <= 57):
            at += 1
        if at < end and (data[at] >= 128 or data[at] == 46):
            return start
    return at


@compiled
def _name(data: Any, at: int, end: int) -> Any:
    """The end of a plain name, words with dots between them, or -1 if it is none or may be a keyword."""
    while True:
        start = at
        if at == end or not _letter(data[at]):
            return -1
        while at < end and (_letter(data[at]) or 48 <= data[at] <= 57):
            at += 1
        if (at < end and data[at] >= 128) or _reserved(data, start, at):
            return -1
        if at == end or data[at] != 46:
            return at
        at += 1


@compiled
def _reserved(data: Any, start: int, end: int) -> Any:
    """Whether a word is a keyword or begins a typed literal; a name that only looks like one costs nothing but time."""
    packed = _pack(data, start, end)
    found = False
    for place in range(len(_RESERVED)):
        found |= packed == _RESERVED[place]
    return found


@compiled
def _is(data: Any, start: int, end: int, word: int) -> Any:
    """Whether the bytes are this keyword, in any case; only its first eight letters count."""
    return _pack(data, start, end) == word


@compiled
def _pack(data: Any, start: int, end: int) -> Any:
    """The capitals of a word's first eight letters as one number; 0 for no word."""
    packed = np.int64(0)
    for place in range(start, min(end, start + 8)):
        packed = packed << 8 | (np.int64(data[place]) & 0xDF)
    return packed
