"""When two contents are one version: the same attributes that are not NULL, with equal values.

Law: all numeric types are one domain, so 100 equals 100.0 (SPEC §2); values of different kinds are never equal. NaN is
here the same as NaN, or else one event would have as many versions as paths.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeAlias

from routing.checker.system import Content
from routing.filters.exact import canonical

Sameness: TypeAlias = frozenset[tuple[str, Hashable]]


def present(content: Mapping[str, object]) -> Content:
    """The content without the attributes that are NULL.

    >>> present({"a": 1, "b": None})
    {'a': 1}
    """
    if isinstance(content, dict) and None not in content.values():
        return content
    return {name: value for name, value in content.items() if value is not None}


def sameness(content: Mapping[str, object]) -> Sameness:
    """What equal contents have in common, and no others.

    >>> sameness({"price": 100, "note": None}) == sameness({"price": 100.0})
    True
    >>> sameness({"price": 1}) == sameness({"price": True})
    False
    """
    return frozenset((name, same_value(value)) for name, value in content.items() if value is not None)


def same_value(value: object) -> Hashable:
    """What equal values have in common."""
    match value:
        case bool():
            return "boolean", value
        case int() | float() | Decimal():
            return "number", _number(value)
        case datetime():
            # Without a zone it is read in the session's, by default UTC.
            return "timestamp", value if value.tzinfo else value.replace(tzinfo=UTC)
        case date():
            return "date", value
        case str() | None:
            return "text", value
        case dict():
            return "object", frozenset((name, same_value(inner)) for name, inner in value.items() if inner is not None)
        case list():
            return "list", tuple(map(same_value, value))
        case _:
            return "other", repr(value)


def _number(value: int | float | Decimal) -> Hashable:
    finite = isinstance(value, int) or Decimal(value).is_finite()
    return canonical(value) if finite else str(float(value))
