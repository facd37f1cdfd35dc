"""Subscriptions as rules of event-ruler, in its JSON: equalities, prefixes and ranges, one field each.

Law: a rule matches exactly the events that its filter matches. What these three cannot say has no rule. event-ruler
compares numbers up to 5e9 with six decimals; the workload's are smaller and have two.
"""

from __future__ import annotations

import json
import re
from typing import Any

from benchmarks import workload
from routing.filters import parse
from routing.filters.ast import And, Comparison, Filter, Kind, Operator, Text, TextTest

_NEVER = re.compile(r"LIKE '%|ENDSWITH|<>|IS NOT NULL")
_RANGE = re.compile(r"[<>]|BETWEEN")
_RANGES = (Operator.GT, Operator.GE, Operator.LT, Operator.LE)
"""Lower ends before upper ones, as event-ruler wants them."""


def rules(size: int, *, ranges: bool) -> list[tuple[str, str]]:
    """The first so many of the workload's subscriptions that have a rule: (filter text, rule)."""
    drawn = (2 if ranges else 6) * size + 1_000  # two in three have a rule, and one in five without ranges
    texts = [text for _, text in workload.subscriptions(drawn) if not _NEVER.search(text)]
    kept = [text for text in texts if ranges or not _RANGE.search(text)][:size]
    made = [(text, found) for text in kept if (found := rule(parse(text))) is not None]
    assert len(made) == size, f"{len(made)} of {size} filters have a rule"
    return made


def rule(filter: Filter) -> str | None:
    """The filter as a rule, if it has one.

    >>> rule(parse("symbol LIKE 'D%' AND price BETWEEN 2 AND 7.5"))
    '{"symbol": [{"prefix": "D"}], "price": [{"numeric": [">=", 2, "<=", 7.5]}]}'
    >>> rule(parse("symbol <> 'DIS'")) is None
    True
    """
    fields: dict[str, list[Comparison | TextTest]] = {}
    for part in filter.parts if isinstance(filter, And) else (filter,):
        if not isinstance(part, Comparison | TextTest):
            return None
        fields.setdefault(part.attribute, []).append(part)
    patterns = {name: _pattern(parts) for name, parts in fields.items()}
    return json.dumps({name: [pattern] for name, pattern in patterns.items()}) if all(patterns.values()) else None


def _pattern(parts: list[Comparison | TextTest]) -> Any:
    match parts:
        case [TextTest(_, Text.PREFIX, text)]:
            return {"prefix": text} if text else None
        case [Comparison(_, Operator.EQ, literal)] if literal.kind is Kind.STRING:
            return literal.value
        case [Comparison(_, Operator.EQ, literal)] if literal.kind is Kind.NUMBER:
            return {"numeric": ["=", _number(literal.value)]}
    return _range(parts)


def _range(parts: list[Comparison | TextTest]) -> Any:
    """One end or two; two equal ends are an equality, which event-ruler does not take for a range."""
    ends: list[tuple[Operator, Any]] = []
    for part in parts:
        if not isinstance(part, Comparison) or part.operator not in _RANGES or part.literal.kind is not Kind.NUMBER:
            return None
        ends.append((part.operator, _number(part.literal.value)))
    ends.sort(key=lambda end: _RANGES.index(end[0]))
    match ends:
        case [(operator, value)]:
            return {"numeric": [operator.value, value]}
        case [(Operator.GE, low), (Operator.LE, high)] if low == high:
            return {"numeric": ["=", low]}
        case [(Operator.GT | Operator.GE as above, low), (Operator.LT | Operator.LE as below, high)] if low < high:
            return {"numeric": [above.value, low, below.value, high]}
    return None


def _number(value: Any) -> int | float:
    return value if isinstance(value, int) else float(value)
