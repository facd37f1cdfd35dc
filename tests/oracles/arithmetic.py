"""z3: exact answers for filters over numbers, booleans, dates and timestamps.

Law: the formulas say SPEC §2 and §3 and nothing else. An attribute is absent, or has one kind and a value of it, or is
anything else (NaN, text, a list). A filter has two formulas, of being TRUE and of being FALSE; where neither holds it is
UNKNOWN. Numbers are reals, days and microseconds integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne
from typing import Any

import z3

from routing.filters import Filter
from routing.filters.ast import And, Comparison, Constant, In, IsNull, Kind, Literal, Not, Operator, Or, TextTest
from tests.oracles.grid import Event, leaves

COMPARE = {Operator.EQ: eq, Operator.NE: ne, Operator.LT: lt, Operator.LE: le, Operator.GT: gt, Operator.GE: ge}
EPOCH, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
FIRST, LAST = (end.replace(tzinfo=UTC) - EPOCH for end in (datetime.min, datetime.max))


@dataclass(frozen=True)
class Variable:
    """An attribute: what it is, and its value as each kind."""

    absent: z3.BoolRef
    is_a: dict[Kind, z3.BoolRef]
    value: dict[Kind, z3.ArithRef]


class Arithmetic:
    """One solver for many questions."""

    def __init__(self) -> None:
        self.solver = z3.SimpleSolver()
        self.variables: dict[str, Variable] = {}
        self._truths: dict[Filter, tuple[z3.BoolRef, z3.BoolRef]] = {}

    @staticmethod
    def understands(*filters: Filter) -> bool:
        """Whether the filters compare with numbers, booleans, dates and timestamps only."""
        return not any(_textual(leaf) for filter in filters for leaf in leaves(filter))

    def covers(self, f: Filter, g: Filter) -> bool:
        """Whether f matches all that g matches.

        >>> from routing.filters import parse
        >>> Arithmetic().covers(parse("x < 5 OR x >= 5"), parse("y = 1"))
        False
        """
        return not self._possible(self.truth(g)[0], z3.Not(self.truth(f)[0]))

    def overlaps(self, f: Filter, g: Filter) -> bool:
        """Whether some event is matched by both."""
        return self._possible(self.truth(f)[0], self.truth(g)[0])

    def satisfiable(self, f: Filter) -> bool:
        """Whether some event is matched."""
        return self._possible(self.truth(f)[0])

    def counterexample_to_cover(self, f: Filter, g: Filter) -> Event | None:
        """An event that g matches and f does not."""
        return self._model(self.truth(g)[0], z3.Not(self.truth(f)[0]))

    def truth(self, filter: Filter) -> tuple[z3.BoolRef, z3.BoolRef]:
        """That the filter is TRUE, and that it is FALSE."""
        found = self._truths.get(filter)
        if found is None:
            found = self._truths[filter] = self._formulas(filter)
        return found

    def _formulas(self, filter: Filter) -> tuple[z3.BoolRef, z3.BoolRef]:
        match filter:
            case Constant(value):
                return z3.BoolVal(value), z3.BoolVal(not value)
            case Not(part):
                true, false = self.truth(part)
                return false, true
            case And(parts):
                truths = [self.truth(part) for part in parts]
                return z3.And([true for true, _ in truths]), z3.Or([false for _, false in truths])
            case Or(parts):
                truths = [self.truth(part) for part in parts]
                return z3.Or([true for true, _ in truths]), z3.And([false for _, false in truths])
            case IsNull(attribute):
                absent = self.variable(attribute).absent
                return absent, z3.Not(absent)
            case Comparison(attribute, operator, literal):
                return self._comparison(self.variable(attribute), operator, literal)
            case In(attribute, literals):
                variable = self.variable(attribute)
                truths = [self._comparison(variable, Operator.EQ, literal) for literal in literals]
                return z3.Or([true for true, _ in truths]), z3.And([false for _, false in truths])
        raise TypeError(f"z3 is not asked about {filter}")

    def _comparison(self, x: Variable, operator: Operator, literal: Literal) -> tuple[z3.BoolRef, z3.BoolRef]:
        holds = COMPARE[operator](x.value[literal.kind], _constant(literal))
        return z3.And(x.is_a[literal.kind], holds), z3.And(x.is_a[literal.kind], z3.Not(holds))

    def variable(self, name: str) -> Variable:
        """The attribute; what holds of every attribute is asserted once, under all questions."""
        if name not in self.variables:
            kinds = [Kind.NUMBER, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP]
            is_a = {kind: z3.Bool(f"{name} is a {kind.value}") for kind in kinds}
            value = {kind: z3.Int(f"{name} as {kind.value}") for kind in kinds}
            value[Kind.NUMBER] = z3.Real(f"{name} as number")
            absent = z3.Bool(f"{name} is absent")
            self.solver.add(z3.AtMost(absent, *is_a.values(), 1))
            self.solver.add(value[Kind.BOOLEAN] >= 0, value[Kind.BOOLEAN] <= 1)
            self.variables[name] = Variable(absent, is_a, value)
        return self.variables[name]

    def _possible(self, *formulas: z3.BoolRef) -> bool:
        self.solver.push()
        self.solver.add(*formulas)
        answer = self.solver.check()
        self.solver.pop()
        assert answer != z3.unknown, "z3 has given up"
        return answer == z3.sat

    def _model(self, *formulas: z3.BoolRef) -> Event | None:
        self.solver.push()
        self.solver.add(*formulas)
        found = self.solver.model() if self.solver.check() == z3.sat else None
        self.solver.pop()
        return None if found is None else {name: value for name, value in self._read(found) if value is not None}

    def _read(self, model: z3.ModelRef) -> list[tuple[str, object]]:
        def value(variable: Variable) -> object:
            if z3.is_true(model.eval(variable.absent)):
                return None
            for kind, is_a in variable.is_a.items():
                if z3.is_true(model.eval(is_a)):
                    return _python(kind, model.eval(variable.value[kind], model_completion=True))
            return [1]

        return [(name, value(variable)) for name, variable in self.variables.items()]


def _textual(leaf: object) -> bool:
    match leaf:
        case TextTest():
            return True
        case Comparison(_, _, literal):
            return literal.kind is Kind.STRING
        case In(_, literals):
            return any(literal.kind is Kind.STRING for literal in literals)
    return False


def _constant(literal: Literal) -> Any:
    match literal.value:
        case bool(truth):
            return z3.IntVal(int(truth))
        case datetime() as moment:
            return z3.IntVal((moment - EPOCH) // MICROSECOND)
        case date() as day:
            return z3.IntVal(day.toordinal())
        case number:
            exactly = Fraction(number)
            return z3.RatVal(exactly.numerator, exactly.denominator)


def _python(kind: Kind, value: Any) -> object:
    match kind:
        case Kind.BOOLEAN:
            return value.as_long() == 1
        case Kind.DATE:  # what cannot be said in Python is as good as the first or the last day
            return date.fromordinal(min(max(value.as_long(), 1), date.max.toordinal()))
        case Kind.TIMESTAMP:
            return EPOCH + min(max(value.as_long() * MICROSECOND, FIRST), LAST)
        case _:
            number = value.as_fraction()
            return Context(prec=2000).divide(Decimal(number.numerator), Decimal(number.denominator))
