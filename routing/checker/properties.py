"""What a predicate means for the properties of a component (delivery policy `filter`).

Law: properties are texts; one that reads as a number is compared with number literals as that number and with all
others as its text. `component` is the name of the component.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

from routing.filters import Filter, evaluate
from routing.filters.ast import And, Comparison, In, Kind, Not, Or

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_AS_NUMBER = "\0number"  # no property can be written so in a filter


def satisfies(component: str, properties: Mapping[str, str], predicate: Filter) -> bool:
    """Whether the component satisfies the predicate.

    >>> from routing.filters import parse
    >>> satisfies("ann", {"level": "10"}, parse("level > 9 AND level < '2' AND component = 'ann'"))
    True
    """
    texts = {**properties, "component": component}
    numbers = {name + _AS_NUMBER: number(text) for name, text in texts.items() if text is not None}
    return evaluate(_both_ways(predicate), {**texts, **numbers}) is True


def number(text: str) -> Decimal | None:
    """The number that the text reads as, if it does.

    >>> number("-2.50"), number("two")
    (Decimal('-2.50'), None)
    """
    return Decimal(text) if NUMBER.fullmatch(text) else None


def _both_ways(predicate: Filter) -> Filter:
    """The predicate with comparisons with numbers asking for the number of a property."""
    match predicate:
        case And(parts):
            return And(tuple(map(_both_ways, parts)))
        case Or(parts):
            return Or(tuple(map(_both_ways, parts)))
        case Not(part):
            return Not(_both_ways(part))
        case Comparison(attribute, operator, literal) if literal.kind is Kind.NUMBER:
            return Comparison(attribute + _AS_NUMBER, operator, literal)
        case In(attribute, literals):
            numbers = tuple(literal for literal in literals if literal.kind is Kind.NUMBER)
            others = tuple(literal for literal in literals if literal.kind is not Kind.NUMBER)
            some = [In(attribute + _AS_NUMBER, numbers)] if numbers else []
            some += [In(attribute, others)] if others else []
            return some[0] if len(some) == 1 else Or(tuple(some))
        case _:
            return predicate
