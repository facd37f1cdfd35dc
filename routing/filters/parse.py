"""Text to filter: recursive descent over SPEC §3's grammar, and nothing beyond it.

    filter      :=  conjunction (OR conjunction)*
    conjunction :=  negation (AND negation)*
    negation    :=  NOT* predicate
    predicate   :=  "(" filter ")"  |  TRUE  |  FALSE  |  function "(" attribute "," string ")"
                 |  literal operator attribute  |  attribute [test]
    test        :=  operator literal  |  IS [NOT] NULL  |  ANY
                 |  [NOT] ( IN "(" literal ("," literal)* ")"  |  LIKE string  |  BETWEEN literal AND literal )

Law: any str gives a Filter or a FilterError that says what, where and what is allowed; work and recursion are bounded
by `Limits`, whatever the text.
"""

from __future__ import annotations

from datetime import UTC, tzinfo

from routing.errors import FilterError, FilterTooLarge
from routing.filters import literals
from routing.filters.ast import (
    Comparison,
    Constant,
    Filter,
    In,
    IsNull,
    Kind,
    Literal,
    Not,
    Operator,
    conjunction,
    disjunction,
)
from routing.filters.complaints import FUNCTIONS, OPERATORS, no_value, unknown_function
from routing.filters.cursor import Cursor
from routing.filters.like import like_filter, text_filter
from routing.filters.limits import DEFAULT, RAISE, Limits
from routing.filters.tokens import RESERVED, Lexeme, Token, tokenize

_TURNED = {Operator.LT: Operator.GT, Operator.LE: Operator.GE, Operator.GT: Operator.LT, Operator.GE: Operator.LE}


def parse(text: str, *, limits: Limits = DEFAULT, zone: tzinfo = UTC) -> Filter:
    """The filter that the text says; timestamps without a zone are read in `zone`.

    >>> parse("5 < x")
    Comparison(attribute='x', operator=<Operator.GT: '>'>, literal=Literal(kind=<Kind.NUMBER: 'number'>, value=5))
    >>> parse("x = NULL")
    Traceback (most recent call last):
    routing.errors.FilterError: column 5: nothing equals NULL (use IS NULL or IS NOT NULL)
    """
    if not isinstance(text, str):
        raise FilterError(f"a filter is text, not {type(text).__name__}", column=1, hint="x > 3")
    _check_length(text, limits.text_bytes)
    return _Parser(tokenize(text), limits, zone).whole()


def _check_length(text: str, most: int) -> None:
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) > most:
        column = len(encoded[:most].decode("utf-8", "ignore")) + 1
        raise FilterTooLarge(f"the text is longer than text_bytes = {most}", column=column, hint=RAISE)


class _Parser(Cursor):
    """One method for each rule of the grammar, from the top."""

    def __init__(self, tokens: list[Token], limits: Limits, zone: tzinfo) -> None:
        super().__init__(tokens, limits)
        self.zone = zone

    def whole(self) -> Filter:
        if self.at_end():
            raise FilterError("the filter is empty", column=1, hint="TRUE matches every event")
        found = self.disjunction()
        if not self.at_end():
            raise self.unexpected("AND, OR or the end")
        return found

    def disjunction(self) -> Filter:
        parts = [self.conjunction()]
        while self.take("OR"):
            self.count(1 if len(parts) == 1 else 0)
            parts.append(self.conjunction())
        return disjunction(parts)

    def conjunction(self) -> Filter:
        parts = [self.negation()]
        while self.take("AND"):
            self.count(1 if len(parts) == 1 else 0)
            parts.append(self.negation())
        return conjunction(parts)

    def negation(self) -> Filter:
        if self.now.word != "NOT":
            return self.predicate()
        self.enter()
        self.take("NOT")
        found = self.negated(self.negation())
        self.leave()
        return found

    def predicate(self) -> Filter:
        word = self.now.word
        if word == "(":
            return self.group()
        if word in ("TRUE", "FALSE") and self.after.word not in OPERATORS:
            self.count()
            self.take(word)
            return Constant(word == "TRUE")
        if self.at_literal() or word == "NULL":
            return self.literal_first()
        if self.now.lexeme is Lexeme.NAME and word and word not in RESERVED and self.after.word == "(":
            return self.function()
        return self.attribute_test()

    def group(self) -> Filter:
        self.enter()
        self.take("(")
        found = self.disjunction()
        self.expect(")", "AND, OR or )")
        self.leave()
        return found

    def function(self) -> Filter:
        name = self.now
        if name.word not in FUNCTIONS:
            raise unknown_function(name)
        self.count()
        self.take(name.word)
        self.expect("(")
        attribute = self.attribute("a name")
        self.expect(",", "a comma")
        text = self.string()
        self.expect(")")
        return text_filter(attribute, FUNCTIONS[name.word], text.value)

    def literal_first(self) -> Filter:
        start = self.now
        literal = self.literal()
        operator = OPERATORS.get(self.now.word)
        if operator is None:
            raise FilterError("a value stands alone", column=start.column, hint="compare it with an attribute: 5 < x")
        self.take(self.now.word)
        if self.at_literal():
            raise FilterError("two values are compared", column=start.column, hint="one side must be an attribute")
        if self.now.word == "NULL":
            raise no_value(self.now, self.after)
        self.count()
        return Comparison(self.attribute("a name"), _TURNED.get(operator, operator), literal)

    def attribute_test(self) -> Filter:
        attribute = self.attribute("a predicate")
        self.count()
        operator = OPERATORS.get(self.now.word)
        if operator:
            self.take(self.now.word)
            return Comparison(attribute, operator, self.literal())
        if self.take("IS"):
            return self.null_test(attribute)
        if self.take("ANY"):
            return self.negated(IsNull(attribute))
        if self.now.word == "NOT":
            return self.negated_test(attribute)
        if self.now.word in ("IN", "LIKE", "BETWEEN"):
            return self.set_test(attribute)
        return Comparison(attribute, Operator.EQ, Literal(Kind.BOOLEAN, True))

    def null_test(self, attribute: str) -> Filter:
        negative = self.take("NOT")
        self.expect("NULL", "NULL or NOT NULL")
        return self.negated(IsNull(attribute)) if negative else IsNull(attribute)

    def negated_test(self, attribute: str) -> Filter:
        self.enter()
        self.take("NOT")
        found = self.negated(self.set_test(attribute))
        self.leave()
        return found

    def set_test(self, attribute: str) -> Filter:
        if self.take("IN"):
            return In(attribute, self.members())
        if self.take("LIKE"):
            return self.like(attribute)
        self.expect("BETWEEN", "IN, LIKE or BETWEEN")
        return self.between(attribute)

    def members(self) -> tuple[Literal, ...]:
        self.expect("(")
        members = [self.literal()]
        while self.take(","):
            if len(members) == self.limits.in_literals:
                raise self.too_large(f"the IN list is longer than in_literals = {self.limits.in_literals}")
            members.append(self.literal())
        self.expect(")", "a comma or )")
        return tuple(dict.fromkeys(members))

    def like(self, attribute: str) -> Filter:
        pattern = self.string()
        try:
            return like_filter(attribute, pattern.value)
        except FilterError as error:
            quotes = pattern.value[: error.column - 1].count("'")
            column = pattern.column + error.column + quotes
            raise FilterError(error.message, column=column, hint=error.hint) from None

    def between(self, attribute: str) -> Filter:
        # A level of its own: printed under a NOT, the AND that it means needs parentheses.
        self.enter()
        self.count(2)
        low = self.literal()
        self.expect("AND")
        high = self.literal()
        self.leave()
        return conjunction((Comparison(attribute, Operator.GE, low), Comparison(attribute, Operator.LE, high)))

    def negated(self, part: Filter) -> Filter:
        self.count()
        return Not(part)

    def attribute(self, expected: str) -> str:
        token = self.now
        if token.lexeme is not Lexeme.NAME or token.word in RESERVED:
            raise self.unexpected(expected)
        self.at += 1
        return token.value

    def string(self) -> Token:
        token = self.now
        if token.lexeme is not Lexeme.STRING:
            raise self.unexpected("text in single quotes")
        self.at += 1
        return token

    def literal(self) -> Literal:
        token = self.now
        if not self.at_literal():
            raise no_value(token, self.after)
        if token.lexeme is Lexeme.STRING:
            return Literal(Kind.STRING, self.string().value)
        self.at += 1
        if token.lexeme is Lexeme.NUMBER:
            return literals.number(token.text, token.column)
        if token.word in ("TRUE", "FALSE"):
            return Literal(Kind.BOOLEAN, token.word == "TRUE")
        text = self.string()
        if token.word == "DATE":
            return literals.day(text.value, text.column)
        return literals.instant(text.value, text.column, self.zone)

    def at_literal(self) -> bool:
        """Whether a value comes next; DATE and TIMESTAMP are names unless a string follows."""
        token = self.now
        if token.word in ("DATE", "TIMESTAMP"):
            return self.after.lexeme is Lexeme.STRING
        return token.lexeme in (Lexeme.STRING, Lexeme.NUMBER) or token.word in ("TRUE", "FALSE")
