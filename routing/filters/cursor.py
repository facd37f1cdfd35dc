"""A place in the tokens of a filter text, and how much of the limits has been spent on the way to it.

Law: the cursor never moves past the last token, which is the end or carries an error.
"""

from __future__ import annotations

from routing.errors import FilterError, FilterTooLarge
from routing.filters.complaints import unexpected
from routing.filters.limits import RAISE, Limits
from routing.filters.tokens import Lexeme, Token


class Cursor:
    """Moves forward over the tokens, counts depth and nodes, and complains where it stands."""

    def __init__(self, tokens: list[Token], limits: Limits) -> None:
        self.tokens, self.limits = tokens, limits
        self.at = self.depth = self.nodes = 0

    @property
    def now(self) -> Token:
        """The token at the cursor; a piece that is not in the language is raised when it is reached."""
        token = self.tokens[self.at]
        if token.error:
            raise token.error
        return token

    @property
    def after(self) -> Token:
        """The one behind it."""
        return self.tokens[min(self.at + 1, len(self.tokens) - 1)]

    def at_end(self) -> bool:
        """Whether the whole text is read."""
        return self.now.lexeme is Lexeme.END

    def take(self, word: str) -> bool:
        """Step over the word if it is next."""
        found = self.now.word == word
        self.at += found
        return found

    def expect(self, word: str, expected: str = "") -> None:
        """Step over the word, which must be next."""
        if not self.take(word):
            raise self.unexpected(expected or word)

    def unexpected(self, expected: str) -> FilterError:
        """What to say if the token at the cursor does not belong there."""
        return unexpected(self.now, self.tokens[self.at - 1] if self.at else None, expected)

    def enter(self) -> None:
        """One level deeper; whoever enters also leaves."""
        self.depth += 1
        if self.depth > self.limits.depth:
            raise self.too_large(f"the filter nests deeper than depth = {self.limits.depth}")

    def leave(self) -> None:
        """One level up."""
        self.depth -= 1

    def count(self, nodes: int = 1) -> None:
        """So many nodes more."""
        self.nodes += nodes
        if self.nodes > self.limits.nodes:
            raise self.too_large(f"the filter is larger than nodes = {self.limits.nodes}")

    def too_large(self, message: str) -> FilterTooLarge:
        """What to say if a limit is exceeded here."""
        return FilterTooLarge(message, column=self.tokens[self.at].column, hint=RAISE)
