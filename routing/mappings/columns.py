"""A mapping compiled for Spark: each attribute that it sets as typed columns, and where it fails.

Law: in every row the columns are what `routing.mappings.evaluate.apply` makes of the event, and `failure` is not NULL
iff it raises. Columns are built by functions alone, no text of SQL is ever made; and under ANSI mode nothing raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.errors import MappingTooLarge
from routing.filters import ast as filters
from routing.mappings import limits
from routing.mappings.arithmetic import absolute, arithmetic, negative, numbers, rounded, whole
from routing.mappings.ast import (
    Assign,
    Attribute,
    Binary,
    Call,
    Case,
    Cast,
    Expression,
    Literal,
    Mapping,
    Name,
    Negative,
    Null,
    Operator,
    walk,
)
from routing.mappings.casts import casted, spark_type
from routing.mappings.conditions import condition, constant
from routing.mappings.order import compares
from routing.mappings.texts import substring, text_function
from routing.mappings.typed import Attributes, Columns, Typed, attribute, united


@dataclass(frozen=True)
class Compiled:
    """The typed columns of each attribute that is set, none for one that is dropped; and NULL, or why it fails.

    In a row at most one of an attribute's columns is not NULL. Where `failure` is not NULL they mean nothing.
    """

    values: dict[str, list[tuple[Column, T.DataType]]]
    failure: Column


def compile_mapping(mapping: Mapping, attributes: Attributes, *, longest: int = limits.LONGEST) -> Compiled:
    """The mapping over the typed columns of a source; an attribute that is not there is absent.

    An attribute has a column for each type that its values may have, at most one of them not NULL in a row. No text
    that an expression makes has more than `longest` characters. Raises MappingTooLarge if types multiply too far.
    """
    compiler = _Compiler(attributes, longest)
    values: dict[str, list[tuple[Column, T.DataType]]] = {}
    failures: list[Column] = []
    for assignment in mapping.assignments:
        values[assignment.attribute] = []
        if isinstance(assignment, Assign):
            found = compiler.columns(assignment.expression)
            compiler.spend(found.size)
            values[assignment.attribute] = [(typed.column, typed.type) for typed in found.alternatives]
            reasons = _reasons(assignment.expression)
            if reasons:
                failures.append(F.when(found.present & found.without_value(), f"{assignment.attribute}: {reasons}"))
    return Compiled(values, F.coalesce(*failures, F.lit(None).cast(T.StringType())))


def _reasons(expression: Expression) -> str:
    """All that can go wrong in an expression: a row tells that it did, not which."""
    found: dict[str, None] = {}
    for node in walk(expression):
        match node:
            case Binary(Operator.DIVIDE | Operator.REMAINDER, _, _):
                found |= dict.fromkeys(["division by zero", "overflow", "wrong type"])
            case Binary() | Negative() | Call("ABS" | "ROUND" | "FLOOR" | "CEIL", _):
                found |= dict.fromkeys(["overflow", "wrong type"])
            case Cast():
                found["bad cast"] = None
            case Call("GREATEST" | "LEAST", _):
                found["values that do not compare"] = None
            case Call("CONCAT" | "REPLACE" | "UPPER" | "LOWER" | "TRIM" | "LTRIM" | "RTRIM", _):
                found |= dict.fromkeys(["wrong type", "text too long"])
            case Call("SUBSTRING" | "LENGTH", _):
                found["wrong type"] = None
    return " or ".join(sorted(found))


@dataclass
class _Compiler:
    """One method for each kind of expression."""

    attributes: Attributes
    longest: int
    spent: int = 0

    def spend(self, size: int) -> None:
        """Before Spark sees them: the columns of a value of many types multiply with every operation."""
        self.spent += size
        if self.spent > limits.COLUMNS:
            hint = "CAST attributes of many types to one, or split the expression"
            raise MappingTooLarge("the mapping combines too many types", column=1, hint=hint)

    def columns(self, expression: Expression) -> Columns:
        found = self.of(expression)
        if found.size > limits.COLUMNS:
            self.spend(found.size)
        return found

    def of(self, expression: Expression) -> Columns:
        match expression:
            case Null():
                return Columns((), F.lit(False))
            case Literal():
                return Columns((_literal(expression),), F.lit(True))
            case Attribute(name):
                return attribute(name, self.attributes)
            case Negative(part):
                inner = self.columns(part)
                return _strict([negative(typed) for typed in numbers(inner)], inner)
            case Binary(operator, left, right):
                a, b = self.columns(left), self.columns(right)
                return _strict(arithmetic(operator, a, b), a, b)
            case Cast(part, type):
                inner = self.columns(part)
                return _strict([made for typed in inner.alternatives if (made := casted(typed, type))], inner)
            case Case(branches, otherwise):
                return self.case(branches, otherwise)
            case Call(function, arguments):
                return self.call(function, [self.columns(argument) for argument in arguments], arguments)

    def call(self, function: str, found: list[Columns], arguments: tuple[Expression, ...]) -> Columns:
        match function:
            case "COALESCE":
                whens = [(columns.present, columns.present_size, columns) for columns in found]
                return _first(whens)
            case "NULLIF":
                return _null_if(*found)
            case "GREATEST" | "LEAST":
                return _extreme(function, found)
            case "ABS" | "ROUND" | "FLOOR" | "CEIL":
                digits = arguments[1].value if len(arguments) > 1 and isinstance(arguments[1], Literal) else 0
                assert isinstance(digits, int)
                return _strict([_numeric(function, typed, digits) for typed in numbers(found[0])], *found)
            case "SUBSTRING":
                places = [columns.of(Name.BIGINT) for columns in found[1:]]
                made = [substring(t, [p[0] for p in places]) for t in found[0].of(Name.STRING) if all(places)]
                return _strict(made, *found)
        texts = [columns.of(Name.STRING) for columns in found]
        if not all(texts):
            return _strict([], *found)
        if function == "LENGTH":
            (text,) = texts[0]
            length = F.char_length(text.column).cast(T.LongType())
            return _strict([Typed(length, T.LongType(), text.size + 2)], *found)
        return _strict([text_function(function, [text[0] for text in texts], self.longest)], *found)

    def case(self, branches: tuple[tuple[filters.Filter, Expression], ...], otherwise: Expression) -> Columns:
        whens = [
            (condition(when, self.attributes), self.condition_size(when), self.columns(then)) for when, then in branches
        ]
        return _first([*whens, (F.lit(True), 1, self.columns(otherwise))])

    def condition_size(self, filter: filters.Filter) -> int:
        match filter:
            case filters.And(parts) | filters.Or(parts):
                return 1 + sum(map(self.condition_size, parts))
            case filters.Not(part):
                return 1 + self.condition_size(part)
            case filters.Constant():
                return 1
        literals = len(filter.literals) if isinstance(filter, filters.In) else 1
        return 6 * literals * max(1, len(self.attributes.get(filter.attribute, ())))


def _literal(literal: Literal) -> Typed:
    type = spark_type(literal.type)
    match literal.type.name:
        case Name.DATE | Name.TIMESTAMP:
            return Typed(constant(literal.value), type)
        case Name.DECIMAL:
            return Typed(F.lit(f"{literal.value:f}").cast(type), type)
        case _:
            return Typed(F.lit(literal.value).cast(type), type)


def _strict(made: list[Typed], *operands: Columns) -> Columns:
    """An operation that is present where all its operands are."""
    present = reduce(and_, (operand.present for operand in operands))
    return Columns(united(made), present, len(operands) + sum(operand.present_size for operand in operands))


def _numeric(function: str, typed: Typed, digits: int) -> Typed:
    match function:
        case "ABS":
            return absolute(typed)
        case "ROUND":
            return rounded(typed, digits)
        case "FLOOR":
            return whole(typed, F.floor)
        case _:
            return whole(typed, F.ceil)


def _first(whens: list[tuple[Column, int, Columns]]) -> Columns:
    """The value of the first whose condition is TRUE, in the type that it has."""
    size = sum(size for _, size, _ in whens)
    types = dict.fromkeys(typed.type for _, _, columns in whens for typed in columns.alternatives)
    alternatives = [_chain([(when, _of_type(columns, type)) for when, _, columns in whens], type) for type in types]
    present = _chain([(when, Typed(c.present, T.BooleanType(), c.present_size)) for when, _, c in whens], None)
    sized = [Typed(typed.column, typed.type, typed.size + size) for typed in alternatives]
    return Columns(tuple(sized), F.coalesce(present.column, F.lit(False)), present.size + size)


def _of_type(columns: Columns, type: T.DataType) -> Typed | None:
    return next((typed for typed in columns.alternatives if typed.type == type), None)


def _chain(whens: list[tuple[Column, Typed | None]], type: T.DataType | None) -> Typed:
    type = type or T.BooleanType()
    missing = F.lit(None).cast(type)
    (when, then), *others = whens
    column = F.when(when, then.column if then else missing)
    for when, then in others:
        column = column.when(when, then.column if then else missing)
    return Typed(column, type, sum(1 + (then.size if then else 1) for _, then in whens))


def _null_if(first: Columns, second: Columns) -> Columns:
    equal, size = compares(first, filters.Operator.EQ, second)
    kept = ~equal & (~second.present | ~second.without_value())
    more = size + second.size + 4
    alternatives = tuple(Typed(F.when(kept, t.column), t.type, t.size + more) for t in first.alternatives)
    return Columns(alternatives, first.present & ~equal, first.present_size + size + 2)


def _extreme(function: str, found: list[Columns]) -> Columns:
    """The first that comes before none of the others that are present; none if they do not all compare."""
    greatest = function == "GREATEST"
    over, least = (filters.Operator.GT, filters.Operator.GE) if greatest else (filters.Operator.LT, filters.Operator.LE)
    made: list[Typed] = []
    for place, columns in enumerate(found):
        wins, size = F.lit(True), 1
        for other, rival in enumerate(found):
            if other != place:
                beats, cost = compares(columns, over if other < place else least, rival)
                wins, size = wins & (~rival.present | beats), size + cost + rival.present_size + 3
        made += [Typed(F.when(wins, t.column), t.type, t.size + size) for t in columns.alternatives]
    present = reduce(or_, (columns.present for columns in found))
    return Columns(united(made), present, sum(columns.present_size + 1 for columns in found))
