"""The words of a filter text, cut by one regular expression; what is not in the language is named here, with a hint.

Law: the tokens and the white space between them are the whole text, up to its end or to the first piece that is not
in the language. That piece is the last token and carries its error, so that errors come out in reading order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from routing.errors import FilterError

RESERVED = frozenset({"AND", "OR", "NOT", "IN", "LIKE", "BETWEEN", "IS", "NULL", "TRUE", "FALSE", "ANY"})


class Lexeme(Enum):
    """What a token is."""

    NAME = "a name"
    STRING = "text"
    NUMBER = "a number"
    SYMBOL = "a symbol"
    END = "the end"
    REFUSED = "not in the language"


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of the text.

    `word` is what the grammar asks for: a lone unquoted name in capitals, or a symbol; else it is empty. `value` is a
    string without its quotes, or a name without its backticks.
    """

    lexeme: Lexeme
    text: str
    column: int
    word: str = ""
    value: str = ""
    error: FilterError | None = None


_WORD = r"[A-Za-z_\x80-\U0010ffff][0-9A-Za-z_\x80-\U0010ffff]*"
_PART = rf"(?:{_WORD}|`(?:[^`]|``)*+`)"
_TOKEN = re.compile(
    rf"""(?P<space>   [ \t\r\n]+)
       | (?P<number>  [+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
       | (?P<string>  '(?:[^']|'')*+')
       | (?P<name>    {_PART}(?:\.{_PART})*)
       | (?P<refused> <=>|==|=<|=>|--|/\*|::|\|\||&&)
       | (?P<symbol>  <=|>=|<>|!=|[=<>(),])""",
    re.VERBOSE,
)
_PARTS = re.compile(_PART)
_SURROGATE = re.compile(r"[\ud800-\udfff]")

_ARITHMETIC = ("arithmetic is not allowed", "compare an attribute with a value: x > -3")
_COMMENT = ("comments are not allowed", "a filter is one predicate")
_QUOTES = "'single quotes' for text, `backticks` for names"
_REFUSED = {
    "<=>": ("'<=>' is not an operator here", "use = or IS NULL"),
    "==": ("'==' is not an operator", "use ="),
    "=<": ("'=<' is not an operator", "use <="),
    "=>": ("'=>' is not an operator", "use >="),
    "≤": ("'≤' is not an operator", "use <="),
    "≥": ("'≥' is not an operator", "use >="),
    "≠": ("'≠' is not an operator", "use <>"),
    "||": ("'||' is not an operator here", "use OR"),
    "&&": ("'&&' is not an operator here", "use AND"),
    "!": ("'!' is not an operator", "use NOT or <>"),
    "--": _COMMENT,
    "/*": _COMMENT,
    "#": _COMMENT,
    ";": ("';' is not allowed", "a filter is one predicate"),
    "::": ("casts are not allowed", "write a typed value: DATE '2026-01-31'"),
    '"': ("double quotes are not allowed", _QUOTES),
    "'": ("the text has no closing quote", "a quote inside text is doubled: 'it''s'"),
    "`": ("the name has no closing backtick", "a backtick inside a name is doubled"),
    ".": ("a name must stand on both sides of the dot", "`backticks` quote a part that is no plain word"),
    "\\": ("a backslash stands only inside a LIKE pattern", ""),
    **dict.fromkeys("“”„‘’‚«»", ("typographic quotes are not allowed", _QUOTES)),
    **dict.fromkeys("+-*/%^&|~−×÷", _ARITHMETIC),
}


def tokenize(text: str) -> list[Token]:
    """The tokens of the text; the last one is END or REFUSED.

    >>> [token.word or token.value for token in tokenize("a.`b c` >= 'it''s'")]
    ['a.b c', '>=', "it's", '']
    """
    tokens: list[Token] = []
    start = 0
    while start < len(text):
        match = _TOKEN.match(text, start)
        token = _token(text, start, match)
        if token:
            tokens.append(token)
            if token.error:
                return tokens
        start = match.end() if match else start + 1
    return [*tokens, Token(Lexeme.END, "", len(text) + 1)]


def _token(text: str, start: int, match: re.Match[str] | None) -> Token | None:
    if match is None:
        return _refuse(text[start], start)
    piece = match[0]
    surrogate = _SURROGATE.search(piece)
    if surrogate:
        return _refuse(surrogate[0], start + surrogate.start())
    match match.lastgroup:
        case "space":
            return None
        case "number":
            return _number(text, start, piece)
        case "string":
            return Token(Lexeme.STRING, piece, start + 1, value=piece[1:-1].replace("''", "'"))
        case "name":
            return _name(text, start, piece)
        case "symbol":
            return Token(Lexeme.SYMBOL, piece, start + 1, word=piece)
        case _:
            return _refuse(piece, start)


def _number(text: str, start: int, piece: str) -> Token:
    after = text[start + len(piece) : start + len(piece) + 1]
    if after and (after == "." or f"_{after}".isidentifier()):
        hint = (
            "numbers are 5, -0.5 or 1e9, without suffix, 0x or _; a name that begins with a digit goes into `backticks`"
        )
        return _error("not a number", start, hint)
    return Token(Lexeme.NUMBER, piece, start + 1)


def _name(text: str, start: int, piece: str) -> Token:
    """A path of parts; each is a quoted name or a plain word that is not reserved (alone it may be a keyword)."""
    values: list[str] = []
    for part in _PARTS.finditer(piece):
        at = start + part.start()
        if part[0].startswith("`"):
            if part[0] == "``":
                return _error("the name between the backticks is empty", at)
            values.append(part[0][1:-1].replace("``", "`"))
            continue
        if not part[0].isidentifier():
            wrong = next(i for i in range(len(part[0])) if not part[0][: i + 1].isidentifier())
            return _refuse(part[0][wrong], at + wrong)
        if keyword(part[0]) in RESERVED and part[0] != piece:
            return _error(f"{part[0]} is a reserved word", at, f"as a name it needs backticks: `{part[0]}`")
        values.append(part[0])
    end = start + len(piece)
    if text[end : end + 1] == ".":
        return _refuse(".", end)
    return Token(Lexeme.NAME, piece, start + 1, word=keyword(piece), value=".".join(values))


def keyword(name: str) -> str:
    """The plain word in capitals, else nothing. Only ASCII: 'ı' in capitals is 'I', and `ıs` is no keyword.

    >>> keyword("between"), keyword("`between`"), keyword("ıs")
    ('BETWEEN', '', '')
    """
    return name.upper() if name.isascii() and name.isidentifier() else ""


def _refuse(piece: str, start: int) -> Token:
    if piece in _REFUSED:
        return _error(_REFUSED[piece][0], start, _REFUSED[piece][1])
    if _SURROGATE.match(piece):
        return _error(f"U+{ord(piece):04X} is half a character", start, "text is Unicode without lone surrogates")
    if not piece.isprintable():
        return _error(
            f"U+{ord(piece):04X} is not allowed here", start, "only spaces, tabs and line ends separate words"
        )
    return _error(f"unexpected {piece}", start, "`backticks` quote a name that is no plain word")


def _error(message: str, start: int, hint: str = "") -> Token:
    return Token(Lexeme.REFUSED, "", start + 1, error=FilterError(message, column=start + 1, hint=hint))
