"""The words of a plain filter text, as compiled code reads them: bytes, from a place to the next.

Law: each function reads exactly what the tokenizer (`routing.filters.tokens`) would read there, or refuses. Words are
compared as numbers, the capitals of their first eight letters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from routing.filters.ast import Kind
from routing.filters.tokens import RESERVED
from routing.matching.clauses import KINDS, Op
from udfs.jit import compiled

_IN, _NOT_IN, _LESS, _AT_LEAST = int(Op.IN), int(Op.NOT_IN), int(Op.LESS), int(Op.AT_LEAST)
_AT_MOST, _MORE = int(Op.AT_MOST), int(Op.MORE)
_STRING, _NUMBER, _BOOLEAN = (KINDS.index(kind) for kind in (Kind.STRING, Kind.NUMBER, Kind.BOOLEAN))
_DIGITS = 15


def packed(word: str) -> int:
    """A keyword as `is_word` takes it.

    >>> packed("OR") == (79 << 8 | 82)
    True
    """
    return int.from_bytes(word[:8].encode(), "big")


_TRUE, _FALSE = packed("TRUE"), packed("FALSE")
_RESERVED = np.array([packed(word) for word in sorted(RESERVED | {"DATE", "TIMESTAMP"})], np.int64)


@compiled
def operator(data: Any, at: int, end: int) -> Any:
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
def literal(data: Any, at: int, end: int, members: Any, many: int) -> Any:
    """Append a string, number, TRUE or FALSE; returns the place behind it, or -1, and the number of members."""
    at = space(data, at, end)
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
    if letter(data[at]):
        word = word_end(data, at, end)
        true = is_word(data, at, word, _TRUE)
        if not true and not is_word(data, at, word, _FALSE):
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
    if at < end and (data[at] == 46 or data[at] >= 128 or letter(data[at]) or 48 <= data[at] <= 57):
        return -1, many
    while scale > 0 and mantissa % 10 == 0:
        mantissa //= 10
        scale -= 1
    members[many] = (_NUMBER, -mantissa if negative else mantissa, scale)
    return at, many + 1


@compiled
def space(data: Any, at: int, end: int) -> Any:
    """The place behind the white space."""
    while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 10 or data[at] == 13):
        at += 1
    return at


@compiled
def letter(byte: Any) -> Any:
    """Whether a plain word may begin so."""
    return 65 <= byte <= 90 or 97 <= byte <= 122 or byte == 95


@compiled
def word_end(data: Any, at: int, end: int) -> Any:
    """The end of a plain word; 0 letters if there is none, or if it goes on as no plain word does."""
    start = at
    if at < end and letter(data[at]):
        while at < end and (letter(data[at]) or 48 <= data[at] <= 57):
            at += 1
        if at < end and (data[at] >= 128 or data[at] == 46):
            return start
    return at


@compiled
def plain_name(data: Any, at: int, end: int) -> Any:
    """The end of a plain name, words with dots between them, or -1 if it is none or may be a keyword."""
    while True:
        start = at
        if at == end or not letter(data[at]):
            return -1
        while at < end and (letter(data[at]) or 48 <= data[at] <= 57):
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
def is_word(data: Any, start: int, end: int, word: int) -> Any:
    """Whether the bytes are this keyword, in any case; only its first eight letters count."""
    return _pack(data, start, end) == word


@compiled
def _pack(data: Any, start: int, end: int) -> Any:
    """The capitals of a word's first eight letters as one number; 0 for no word."""
    packed = np.int64(0)
    for place in range(start, min(end, start + 8)):
        packed = packed << 8 | (np.int64(data[place]) & 0xDF)
    return packed
