"""The words of a mapping text: those of a filter, and the operators of arithmetic and `||`.

Law: the filter's tokenizer cuts; where it refuses an operator that a mapping has, this one takes the operator and lets
the other go on behind it. A sign is a symbol of its own, for `a -1` is a subtraction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from routing.errors import FilterError
from routing.filters import tokens as filter_tokens
from routing.filters.tokens import RESERVED as FILTER_RESERVED
from routing.filters.tokens import Lexeme, Token

RESERVED = FILTER_RESERVED | {"CASE", "WHEN", "THEN", "ELSE", "END", "DROP"}

_OPERATORS = ("||", "+", "-", "*", "/", "%")
_COMMENTS = ("--", "/*")
_REWORDED = {"a filter is one predicate": "a mapping is a list of assignments", "use OR": "texts are joined by ||"}


def tokenize(text: str) -> list[Token]:
    """The tokens of the text; the last one is END or REFUSED.

    >>> [token.text for token in tokenize("x = a-1, y = b||'!'")]
    ['x', '=', 'a', '-', '1', ',', 'y', '=', 'b', '||', "'!'", '']
    """
    found: list[Token] = []
    start = 0
    while True:
        piece = [_moved(token, start) for token in filter_tokens.tokenize(text[start:])]
        at = piece[-1].column - 1
        operator = _operator(text, at) if piece[-1].error else ""
        found += piece[:-1] if operator else piece
        if not operator:
            return [token for whole in found for token in _signed(whole)]
        found.append(Token(Lexeme.SYMBOL, operator, at + 1, word=operator))
        start = at + len(operator)


def _operator(text: str, at: int) -> str:
    if text.startswith(_COMMENTS, at):
        return ""
    return next((operator for operator in _OPERATORS if text.startswith(operator, at)), "")


def _moved(token: Token, by: int) -> Token:
    error = token.error
    if error:
        hint = _REWORDED.get(error.hint, error.hint)
        error = FilterError(error.message, column=error.column + by, hint=hint)
    return replace(token, column=token.column + by, error=error) if by or error else token


def _signed(token: Token) -> Iterator[Token]:
    if token.lexeme is not Lexeme.NUMBER or token.text[0] not in "+-":
        yield token
        return
    yield Token(Lexeme.SYMBOL, token.text[0], token.column, word=token.text[0])
    yield Token(Lexeme.NUMBER, token.text[1:], token.column + 1)
