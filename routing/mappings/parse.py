"""Text to mapping: recursive descent over this grammar, and nothing beyond it.

    mapping    :=  assignment ("," assignment)*
    assignment :=  attribute "=" expression  |  DROP attribute
    expression :=  sum ("||" sum)*
    sum        :=  product (("+" | "-") product)*
    product    :=  factor (("*" | "/" | "%") factor)*
    factor     :=  "-" factor  |  "(" expression ")"  |  literal  |  NULL  |  attribute
                |  function "(" expression ("," expression)* ")"  |  CAST "(" expression AS type ")"
                |  CASE (WHEN filter THEN expression)+ [ELSE expression] END

Law: any str gives a Mapping or a MappingError that says what, where and what is allowed; work and recursion are bounded
by `Limits`, whatever the text. A condition is read by the filter's own parser.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, tzinfo
from decimal import Decimal

from routing.errors import FilterError, FilterTooLarge, MappingError, MappingTooLarge, nearest
from routing.filters import ast as filters
from routing.filters import literals, parse
from routing.filters.complaints import unexpected
from routing.filters.cursor import Cursor
from routing.filters.limits import RAISE
from routing.filters.limits import Limits as FilterLimits
from routing.filters.tokens import Lexeme, Token
from routing.mappings.ast import (
    Assign,
    Attribute,
    Binary,
    Call,
    Case,
    Cast,
    Drop,
    Expression,
    Literal,
    Mapping,
    Name,
    Negative,
    Null,
    Operator,
    Type,
    parts,
)
from routing.mappings.functions import FUNCTIONS, MANY, MOST_DIGITS
from routing.mappings.limits import DEFAULT, Limits
from routing.mappings.tokens import RESERVED, tokenize

_SUM = {"+": Operator.ADD, "-": Operator.SUBTRACT}
_PRODUCT = {"*": Operator.MULTIPLY, "/": Operator.DIVIDE, "%": Operator.REMAINDER}
_TYPES = {name.value.upper(): name for name in Name}
_ALLOWED_TYPES = "the types are string, boolean, bigint, double, decimal(p, s), date and timestamp"
_ALLOWED = f"the functions are {', '.join(FUNCTIONS)}, CAST and CASE"
_INTEGERS = range(-(1 << 63), 1 << 63)
_DIGITS = [Literal(Type(Name.BIGINT), digits) for digits in range(MOST_DIGITS + 1)]


def parse_mapping(text: str, *, limits: Limits = DEFAULT, zone: tzinfo = UTC) -> Mapping:
    """The mapping that the text says; timestamps without a zone are read in `zone`.

    >>> parse_mapping("label = upper(name), DROP internal_id").assignments[1]
    Drop(attribute='internal_id')
    >>> parse_mapping("x = uper(name)")
    Traceback (most recent call last):
    routing.errors.MappingError: column 5: no function uper (did you mean UPPER? the functions are UPPER, LOWER, TRIM, \
LTRIM, RTRIM, CONCAT, SUBSTRING, REPLACE, LENGTH, ABS, ROUND, FLOOR, CEIL, COALESCE, NULLIF, GREATEST, LEAST, CAST and \
CASE)
    """
    if not isinstance(text, str):
        raise MappingError(f"a mapping is text, not {type(text).__name__}", column=1, hint="x = y * 2")
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > limits.text_bytes:
        raise MappingTooLarge(f"the text is longer than text_bytes = {limits.text_bytes}", column=1, hint=RAISE)
    try:
        return _Parser(text, limits, zone).whole()
    except FilterTooLarge as error:
        raise MappingTooLarge(error.message, column=error.column, hint=error.hint) from None
    except FilterError as error:
        raise MappingError(error.message, column=error.column, hint=error.hint) from None


class _Parser(Cursor):
    """One method for each rule of the grammar, from the top. It complains as filters do; `parse_mapping` translates."""

    def __init__(self, text: str, limits: Limits, zone: tzinfo) -> None:
        super().__init__(tokenize(text), FilterLimits(depth=limits.depth, nodes=limits.nodes))
        self.text, self.bounds, self.zone = text, limits, zone

    def whole(self) -> Mapping:
        if self.at_end():
            raise FilterError("the mapping is empty", column=1, hint="x = y * 2, DROP z")
        found: dict[str, Assign | Drop] = {}
        while True:
            if len(found) == self.bounds.assignments:
                raise self.too_large(f"more than assignments = {self.bounds.assignments}")
            start = self.now
            made = self.assignment()
            if made.attribute in found:
                raise FilterError(
                    f"{_shown(made.attribute)} is set or dropped twice",
                    column=start.column,
                    hint="every expression sees the event before the mapping",
                )
            found[made.attribute] = made
            if self.at_end():
                return Mapping(tuple(found.values()))
            self.expect(",", "an operator, a comma or the end")

    def assignment(self) -> Assign | Drop:
        self.count()
        if self.take("DROP"):
            return Drop(self.name("a name to drop"))
        attribute = self.name("a name to set, or DROP")
        self.expect("=")
        found = self.expression()
        if _height(found) > self.bounds.depth:  # a chain of operators nests deeper than its text
            raise self.too_large(f"the mapping nests deeper than depth = {self.bounds.depth}")
        if _calls(found) > self.bounds.calls:
            raise self.too_large(f"calls nest deeper than calls = {self.bounds.calls}")
        return Assign(attribute, found)

    def expression(self) -> Expression:
        found = [self.sum()]
        while self.take("||"):
            self.room_for_argument(found)
            found.append(self.sum())
        if len(found) == 1:
            return found[0]
        self.count()
        return Call("CONCAT", tuple(found))

    def sum(self) -> Expression:
        return self.chain(self.product, _SUM)

    def product(self) -> Expression:
        return self.chain(self.factor, _PRODUCT)

    def chain(self, operand: Callable[[], Expression], operators: dict[str, Operator]) -> Expression:
        """Operands from left to right; the tree that they form leans to the left."""
        found = operand()
        while self.now.word in operators:
            operator = operators[self.now.word]
            self.count()
            self.take(operator.value)
            found = Binary(operator, found, operand())
        return found

    def factor(self) -> Expression:
        """One operand, a level deeper than what it stands in."""
        self.enter()
        self.count()
        found = self.operand()
        self.leave()
        return found

    def operand(self) -> Expression:
        word = self.now.word
        if word in ("-", "+"):
            return self.sign(word)
        if self.take("("):
            found = self.expression()
            self.expect(")", "an operator or )")
            return found
        if self.take("NULL"):
            return Null()
        if word == "CASE":
            return self.case()
        if self.at_literal():
            return self.literal()
        if self.now.lexeme is Lexeme.NAME and word and word not in RESERVED and self.after.word == "(":
            return self.cast() if word == "CAST" else self.call()
        return Attribute(self.name("an expression"))

    def sign(self, word: str) -> Expression:
        self.take(word)
        if self.now.lexeme is Lexeme.NUMBER:
            return self.number("-" if word == "-" else "")
        if word == "+":
            raise self.unexpected("a number")
        return Negative(self.factor())

    def call(self) -> Expression:
        name = self.now
        if name.word not in FUNCTIONS:
            raise _unknown_function(name)
        self.take(name.word)
        self.expect("(")
        arguments: list[Expression] = []
        if not self.take(")"):
            arguments.append(self.expression())
            while self.take(","):
                self.room_for_argument(arguments)
                arguments.append(self.expression())
            self.expect(")", "an operator, a comma or )")
        return _checked(Call(name.word, tuple(arguments)), name)

    def room_for_argument(self, found: list[Expression]) -> None:
        if len(found) == self.bounds.arguments:
            raise self.too_large(f"more than arguments = {self.bounds.arguments}")

    def cast(self) -> Expression:
        self.take("CAST")
        self.expect("(")
        part = self.expression()
        self.expect("AS", "an operator or AS")
        found = Cast(part, self.type())
        self.expect(")")
        return found

    def type(self) -> Type:
        token = self.now
        name = _TYPES.get(token.word)
        if name is None:
            meant = nearest(token.word, _TYPES)
            hint = (f"did you mean {meant.lower()}? " if meant else "") + _ALLOWED_TYPES
            raise FilterError("expected a type", column=token.column, hint=hint)
        self.take(token.word)
        if name is not Name.DECIMAL:
            return Type(name)
        self.expect("(", "( and the digits of the decimal")
        precision = self.digits(1, literals.DIGITS)
        scale = self.digits(0, precision) if self.take(",") else 0
        self.expect(")")
        return Type(name, precision, scale)

    def digits(self, least: int, most: int) -> int:
        token = self.now
        if token.lexeme is not Lexeme.NUMBER:
            raise self.unexpected("a number of digits")
        if not token.text.isdigit() or len(token.text) > 2 or not least <= int(token.text) <= most:
            raise FilterError("not a number of digits", column=token.column, hint=f"it is {least} to {most} here")
        self.at += 1
        return int(token.text)

    def case(self) -> Expression:
        self.take("CASE")
        branches: list[tuple[filters.Filter, Expression]] = []
        while self.now.word == "WHEN" or not branches:
            if len(branches) == self.bounds.arguments:
                raise self.too_large(f"a CASE has more branches than arguments = {self.bounds.arguments}")
            self.expect("WHEN", "WHEN")
            condition = self.condition()
            self.expect("THEN")
            branches.append((condition, self.expression()))
        otherwise = self.expression() if self.take("ELSE") else Null()
        self.expect("END", "an operator, WHEN, ELSE or END")
        return Case(tuple(branches), otherwise)

    def condition(self) -> filters.Filter:
        """What stands before the next THEN, or all the rest, read as a filter."""
        start, end = self.now, self.at
        while end < len(self.tokens) - 1 and self.tokens[end].word != "THEN":
            end += 1
        closed = self.tokens[end].word == "THEN"
        piece = self.text[start.column - 1 : self.tokens[end].column - 1 if closed else len(self.text)]
        try:
            found = parse(piece, limits=self.limits_of_condition(), zone=self.zone)
        except FilterError as error:
            message = error.message.replace("the end", "THEN") if closed else error.message
            column = start.column + error.column - 1
            raise type(error)(message, column=column, hint=error.hint) from None
        if not closed:
            raise FilterError("the condition has no THEN", column=len(self.text) + 1, hint="WHEN filter THEN value")
        self.count(_nodes(found))
        self.at = end
        return found

    def limits_of_condition(self) -> FilterLimits:
        return FilterLimits(
            text_bytes=self.bounds.text_bytes,
            depth=max(1, self.bounds.depth - self.depth),
            nodes=max(1, self.bounds.nodes - self.nodes),
            in_literals=self.bounds.in_literals,
        )

    def name(self, expected: str) -> str:
        token = self.now
        if token.lexeme is not Lexeme.NAME or token.word in RESERVED:
            raise self.unexpected(expected)
        self.at += 1
        return token.value

    def literal(self) -> Literal:
        token = self.now
        if token.lexeme is Lexeme.NUMBER:
            return self.number("")
        self.at += 1
        if token.lexeme is Lexeme.STRING:
            return Literal(Type(Name.STRING), token.value)
        if token.word in ("TRUE", "FALSE"):
            return Literal(Type(Name.BOOLEAN), token.word == "TRUE")
        text = self.now
        self.at += 1
        if token.word == "DATE":
            return Literal(Type(Name.DATE), literals.day(text.value, text.column).value)
        return Literal(Type(Name.TIMESTAMP), literals.instant(text.value, text.column, self.zone).value)

    def number(self, sign: str) -> Literal:
        token = self.now
        self.at += 1
        literals.number(token.text, token.column)  # complains of what is out of range
        return _number(sign + token.text, token.column)

    def at_literal(self) -> bool:
        """Whether a value comes next; DATE and TIMESTAMP are names unless a string follows."""
        token = self.now
        if token.word in ("DATE", "TIMESTAMP"):
            return self.after.lexeme is Lexeme.STRING
        return token.lexeme in (Lexeme.STRING, Lexeme.NUMBER) or token.word in ("TRUE", "FALSE")

    def unexpected(self, expected: str) -> FilterError:
        token = self.now
        plain = unexpected(token, None, expected)
        hint = ""
        if token.word in RESERVED and ("name" in expected or expected == "an expression"):
            hint = f"{token.word} is reserved; as a name it needs `backticks`"
        elif expected == "an expression":
            hint = "such as price * 0.92, UPPER(name) || '!', CASE WHEN x > 3 THEN 'high' END"
        elif token.word == ")" and "the end" in expected:
            hint = "no ( is open"
        return FilterError(plain.message, column=plain.column, hint=hint)

    def too_large(self, message: str) -> FilterTooLarge:
        return super().too_large(message.replace("the filter", "the mapping"))


def _unknown_function(name: Token) -> FilterError:
    close = nearest(name.word, [*FUNCTIONS, "CAST"])
    meant = f"did you mean {close}? " if close else ""
    return FilterError(f"no function {_shown(name.text)}", column=name.column, hint=f"{meant}{_ALLOWED}")


def _checked(call: Call, name: Token) -> Call:
    least, most = FUNCTIONS[call.function]
    if not least <= len(call.arguments) <= most:
        wanted = f"{least} or more" if most == MANY else " or ".join(map(str, range(least, most + 1)))
        found = len(call.arguments)
        raise FilterError(f"{name.word} takes {wanted} arguments, found {found}", column=name.column)
    if call.function == "ROUND" and len(call.arguments) == 2 and call.arguments[1] not in _DIGITS:
        hint = "they decide the type of the result, so they are written out"
        raise FilterError(f"ROUND's digits are a number from 0 to {MOST_DIGITS}", column=name.column, hint=hint)
    return call


def _number(text: str, column: int) -> Literal:
    """With an exponent a double; with a point, or beyond 64 bits, a decimal of as many digits; else an integer."""
    if "e" in text.lower():
        double = float(text)
        assert math.isfinite(double)
        return Literal(Type(Name.DOUBLE), double)
    value = Decimal(text)
    if "." not in text and int(value) in _INTEGERS:
        return Literal(Type(Name.BIGINT), int(value))
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = -exponent
    if scale > literals.DIGITS:
        hint = f"at most {literals.DIGITS} digits after the point"
        raise FilterError(f"{text[:40]} is out of range", column=column, hint=hint)
    return Literal(Type(Name.DECIMAL, max(len(digits), scale), scale), value if value else abs(value))


def _height(expression: Expression) -> int:
    height, level = 0, [expression]
    while level:
        height += 1
        level = [part for node in level for part in parts(node)]
    return height


def _calls(expression: Expression) -> int:
    """How many calls and CASTs stand inside each other; the height is bounded already."""
    return isinstance(expression, Call | Cast) + max(map(_calls, parts(expression)), default=0)


def _nodes(filter: filters.Filter) -> int:
    waiting, nodes = [filter], 0
    while waiting:
        node = waiting.pop()
        nodes += 1
        if isinstance(node, filters.And | filters.Or):
            waiting.extend(node.parts)
        elif isinstance(node, filters.Not):
            waiting.append(node.part)
    return nodes


def _shown(text: str) -> str:
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 40 else f"{text[:39]}…"
