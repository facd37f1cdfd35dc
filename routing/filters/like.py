r"""SQL LIKE: `%` is any run of characters, `_` one code point, and a backslash makes `%`, `_` and itself plain.

Law: matching takes time proportional to text × pattern, whatever they are. A pattern that is an equality, a prefix, a
suffix or a substring *is* that filter; only the others stay LIKE.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeAlias

from routing.errors import FilterError
from routing.filters.ast import Comparison, Filter, Kind, Literal, Operator, Text, TextTest


class Wildcard(Enum):
    """The two wildcards of LIKE."""

    MANY = "%"
    ONE = "_"


Piece: TypeAlias = str | Wildcard

_PIECES = re.compile(r"(?P<many>%+)|(?P<one>_)|(?P<plain>(?:[^%_\\]|\\[%_\\])+)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def compile_like(pattern: str) -> tuple[Piece, ...]:
    r"""The pieces of a pattern: plain text (never empty, escapes resolved), `MANY` (never twice in a row) and `ONE`.

    The column of an error counts within the pattern.

    >>> compile_like(r"50\%%%_")
    ('50%', <Wildcard.MANY: '%'>, <Wildcard.ONE: '_'>)
    """
    pieces: list[Piece] = []
    start = 0
    while start < len(pattern):
        found = _PIECES.match(pattern, start)
        if not found:
            raise FilterError(
                "a LIKE pattern escapes only %, _ and the backslash itself",
                column=start + 1,
                hint=r"\%, \_ and \\ stand for %, _ and \ ",
            )
        start = found.end()
        if found["plain"]:
            pieces.append(_ESCAPE.sub(r"\1", found["plain"]))
        else:
            pieces.append(Wildcard.MANY if found["many"] else Wildcard.ONE)
    return tuple(pieces)


def like(pieces: tuple[Piece, ...], text: str) -> bool:
    """Whether the whole text is matched by the pieces.

    It returns only to the last `MANY`: what an earlier one could swallow more, the last one can too. So no blow-up.

    >>> like(compile_like("a%_c"), "abc"), like(compile_like("a%_c"), "ac")
    (True, False)
    """
    piece, at = 0, 0
    after_many, retry = -1, 0
    while piece < len(pieces) or at < len(text):
        now = pieces[piece] if piece < len(pieces) else None
        if now is Wildcard.MANY:
            piece += 1
            after_many, retry = piece, at
        elif now is Wildcard.ONE and at < len(text):
            piece, at = piece + 1, at + 1
        elif isinstance(now, str) and text.startswith(now, at):
            piece, at = piece + 1, at + len(now)
        elif after_many < 0 or retry == len(text):
            return False
        else:
            retry += 1
            piece, at = after_many, retry
    return True


def like_filter(attribute: str, pattern: str) -> Filter:
    """The filter that `attribute LIKE pattern` is.

    >>> like_filter("s", "%abc")
    TextTest(attribute='s', test=<Text.SUFFIX: 'ENDSWITH'>, text='abc')
    """
    match compile_like(pattern):
        case ():
            return Comparison(attribute, Operator.EQ, Literal(Kind.STRING, ""))
        case (str(text),):
            return Comparison(attribute, Operator.EQ, Literal(Kind.STRING, text))
        case (Wildcard.MANY,):
            return text_filter(attribute, Text.PREFIX, "")
        case (str(text), Wildcard.MANY):
            return text_filter(attribute, Text.PREFIX, text)
        case (Wildcard.MANY, str(text)):
            return text_filter(attribute, Text.SUFFIX, text)
        case (Wildcard.MANY, str(text), Wildcard.MANY):
            return text_filter(attribute, Text.SUBSTRING, text)
        case pieces:
            return TextTest(attribute, Text.LIKE, "".join(map(_spelled, pieces)))


def text_filter(attribute: str, test: Text, text: str) -> Filter:
    """The filter that STARTSWITH, ENDSWITH or CONTAINS is; with the empty text all three are "any string".

    >>> text_filter("s", Text.SUBSTRING, "")
    TextTest(attribute='s', test=<Text.PREFIX: 'STARTSWITH'>, text='')
    """
    return TextTest(attribute, test if text else Text.PREFIX, text)


def escaped(text: str) -> str:
    r"""The pattern that matches exactly this text.

    >>> print(escaped("50%"))
    50\%
    """
    return re.sub(r"([%_\\])", r"\\\1", text)


def _spelled(piece: Piece) -> str:
    return escaped(piece) if isinstance(piece, str) else piece.value
