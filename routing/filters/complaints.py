"""What the parser says about a text that is not in the language: what it expected, what it found, what to write.

Law: nothing here decides whether a text is accepted; it only finds the words, from the token and its neighbours.
"""

from __future__ import annotations

from routing.errors import FilterError, nearest
from routing.filters.ast import Operator, Text
from routing.filters.tokens import RESERVED, Lexeme, Token

FUNCTIONS = {test.value: test for test in (Text.PREFIX, Text.SUFFIX, Text.SUBSTRING)}
OPERATORS = {**{operator.value: operator for operator in Operator}, "!=": Operator.NE}

_ALLOWED_FUNCTIONS = "only STARTSWITH, ENDSWITH and CONTAINS exist"
_VALUES = "a value is 'text', 5, 1e9, TRUE, FALSE, DATE '2026-01-31' or TIMESTAMP '2026-01-31 10:00:00Z'"
_ARITHMETIC = "arithmetic is not allowed"
_HINTS = {
    "ILIKE": "LIKE minds the case; there is no ILIKE",
    "ESCAPE": "the escape in a LIKE pattern is always the backslash",
    **dict.fromkeys(
        ("RLIKE", "REGEXP", "REGEXP_LIKE", "SIMILAR", "GLOB"), "the only patterns are LIKE's, with % and _"
    ),
    **dict.fromkeys(("SELECT", "EXISTS", "WITH"), "subqueries are not allowed"),
    **dict.fromkeys(("CASE", "IF", "IIF", "COALESCE"), "combine predicates with AND, OR, NOT and IS NULL"),
    **dict.fromkeys(("CAST", "TRY_CAST"), "casts are not allowed: values carry their type, as in DATE '2026-01-31'"),
    **{name: f"write {name}(attribute, 'text')" for name in FUNCTIONS},
}


def unexpected(token: Token, before: Token | None, expected: str) -> FilterError:
    """The token where something else was expected.

    >>> x, like = Token(Lexeme.NAME, "x", 1, word="X"), Token(Lexeme.NAME, "ilike", 3, word="ILIKE")
    >>> print(unexpected(like, x, "AND, OR or the end"))
    column 3: expected AND, OR or the end, found ilike (LIKE minds the case; there is no ILIKE)
    """
    hint = _HINTS.get(token.word) or _HINTS.get(before.word if before else "") or _hint(token, before, expected)
    return FilterError(f"expected {expected}, found {_shown(token)}", column=token.column, hint=hint)


def _hint(token: Token, before: Token | None, expected: str) -> str:
    if token.word in RESERVED and expected in ("a name", "a predicate"):
        return f"{token.word} is reserved; as a name it needs `backticks`"
    if expected == "a predicate":
        return "such as x > 3, s LIKE 'a%', x IS NULL"
    if "NOT NULL" in expected:
        return "a truth value is compared with =: flag = TRUE"
    if expected == "IN, LIKE or BETWEEN":
        return "elsewhere NOT stands before the whole predicate: NOT x = 5"
    if before and before.lexeme is Lexeme.STRING and token.lexeme in (Lexeme.NAME, Lexeme.STRING):
        return "a quote inside text is doubled: 'it''s'"
    if token.lexeme is Lexeme.NUMBER and token.text[0] in "+-":
        return _ARITHMETIC
    if token.word in OPERATORS:
        return "one comparison at a time, joined with AND"
    if token.lexeme is Lexeme.STRING and before and before.lexeme is Lexeme.NAME:
        return _VALUES
    if token.word == ")" and "the end" in expected:
        return "no ( is open"
    return ""


def no_value(token: Token, after: Token) -> FilterError:
    """The token where a value was expected.

    >>> print(no_value(Token(Lexeme.NAME, "null", 5, word="NULL"), Token(Lexeme.END, "", 9)))
    column 5: nothing equals NULL (use IS NULL or IS NOT NULL)
    """
    if token.word == "NULL":
        return FilterError("nothing equals NULL", column=token.column, hint="use IS NULL or IS NOT NULL")
    if token.word == "SELECT" or after.word == "SELECT":
        return FilterError("subqueries are not allowed", column=token.column, hint=_VALUES)
    if token.lexeme is Lexeme.NAME and token.word not in RESERVED and after.word == "(":
        return unknown_function(token)
    if token.lexeme is Lexeme.NAME and after.lexeme is Lexeme.STRING:
        return FilterError(f"there are no {_shown(token)} values", column=token.column, hint=_VALUES)
    if token.lexeme is Lexeme.NAME and token.word not in RESERVED:
        hint = f"one side must be a value; text stands in single quotes: '{_shown(token)}'"
        return FilterError("two attributes cannot be compared", column=token.column, hint=hint)
    return FilterError(f"expected a value, found {_shown(token)}", column=token.column, hint=_VALUES)


def unknown_function(name: Token) -> FilterError:
    """A call of a function that is not in the language, or not in this place.

    >>> print(unknown_function(Token(Lexeme.NAME, "starts_with", 1, word="STARTS_WITH")))
    column 1: no function starts_with here (did you mean STARTSWITH? only STARTSWITH, ENDSWITH and CONTAINS exist)
    """
    close = nearest(name.word, FUNCTIONS)
    meant = f"did you mean {close}? " if close and close != name.word else ""
    hint = _HINTS.get(name.word) or f"{meant}{_ALLOWED_FUNCTIONS}"
    return FilterError(f"no function {_shown(name)} here", column=name.column, hint=hint)


def _shown(token: Token) -> str:
    if token.lexeme is Lexeme.END:
        return "the end"
    text = token.text if token.text.isprintable() else ascii(token.text)[1:-1]
    return text if len(text) <= 40 else f"{text[:39]}…"
