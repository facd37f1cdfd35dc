"""Transmission policies as values: whom a scope delivers to, and what it lets out (docs/scopes.md; SPEC §7).

Law: a policy is read once, from a text; a text that is none of those in the tables of docs/scopes.md is refused with
what is allowed. Nothing is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from routing.errors import RoutingError
from routing.filters import Filter, parse

_SHAPE = re.compile(r"([a-z_]+)(?:\s*\((.*)\))?", re.IGNORECASE | re.DOTALL)
_INTERVAL = re.compile(r"(\d+(?:\.\d+)?)\s*(second|minute|hour|day)s?", re.IGNORECASE | re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)

_LONGEST_TEXT = 8192
_LONGEST = timedelta(days=36_525)


class PolicyError(RoutingError):
    """A text that is no policy."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """Among the consumers that a flow reaches: `most` of them by hash, or by a property first, or those of a filter."""

    most: int | None = None
    property: str | None = None
    filter: Filter | None = None


@dataclass(frozen=True, slots=True)
class Publishing:
    """What leaves upwards: a share, a number in each interval, one for each value in each interval, or later."""

    kind: str = "forward"
    share: Decimal = Decimal(1)
    most: int = 0
    attribute: str = ""
    interval: timedelta = timedelta()


ALL, FORWARD = Delivery(), Publishing()


def parse_delivery(text: str, read: Callable[[str], Filter] = parse) -> Delivery:
    """The delivery policy that a text says.

    >>> parse_delivery("k_of_n(2)")
    Delivery(most=2, property=None, filter=None)
    """
    match _shape(text):
        case "all", None:
            return ALL
        case "one_of_n", None:
            return Delivery(most=1)
        case "k_of_n", str(k):
            return Delivery(most=_count(k))
        case "first_matching", str(name) if name.strip():
            return Delivery(most=1, property=_name(name))
        case "filter", str(predicate):
            return Delivery(filter=read(predicate))
    allowed = "all, one_of_n, k_of_n(k), first_matching(property) and filter(predicate)"
    raise PolicyError(f"'{text}' is no delivery policy; there are {allowed}")


def parse_publishing(text: str) -> Publishing:
    """The publishing policy that a text says.

    >>> parse_publishing("rate_limit(100, 1 minute)").interval
    datetime.timedelta(seconds=60)
    """
    name, inside = _shape(text)
    first, comma, last = (inside or "").rpartition(",")
    match name:
        case "forward" | "discard" if inside is None:
            return Publishing(name)
        case "sample" if inside is not None:
            return Publishing(name, share=_share(inside))
        case "delay" if inside is not None:
            return Publishing(name, interval=_interval(inside))
        case "rate_limit" if comma:
            return Publishing(name, most=_count(first), interval=_interval(last))
        case "throttle" if first.strip():
            return Publishing(name, attribute=_name(first), interval=_interval(last))
    allowed = "forward, discard, sample(p), rate_limit(n, interval), throttle(attribute, interval) and delay(interval)"
    raise PolicyError(f"'{text}' is no publishing policy; there are {allowed}")


def _shape(text: str) -> tuple[str, str | None]:
    found = _SHAPE.fullmatch(text.strip())
    if len(text) > _LONGEST_TEXT and not (found and found[1].lower() == "filter"):  # filters have limits of their own
        raise PolicyError(f"a policy has at most {_LONGEST_TEXT:,} characters, not {len(text):,}")
    return (found[1].lower(), found[2]) if found else ("", None)


def _name(text: str) -> str:
    name = text.strip()
    quoted = len(name) > 2 and name[0] == name[-1] == "`"
    return name[1:-1].replace("``", "`") if quoted else name


def _count(text: str) -> int:
    if not re.fullmatch(r"0{0,9}[1-9][0-9]{0,8}", text.strip()):
        raise PolicyError(f"a whole number from 1 to 999,999,999 is needed, not '{text.strip()}'")
    return int(text)


def _share(text: str) -> Decimal:
    try:
        share = Decimal(text.strip()) if _NUMBER.fullmatch(text.strip()) else Decimal(-1)
    except ArithmeticError:
        share = Decimal(-1)
    if not 0 <= share <= 1:
        raise PolicyError(f"a number from 0 to 1 is needed, not '{text.strip()}'")
    return share


def _interval(text: str) -> timedelta:
    found = _INTERVAL.fullmatch(text.strip())
    try:
        interval = timedelta(**{f"{found[2].lower()}s": float(found[1])}) if found else timedelta()
    except OverflowError:
        interval = timedelta()
    if not timedelta() < interval <= _LONGEST:
        hint = "such as '10 seconds' or '5 minutes', at most 100 years,"
        raise PolicyError(f"an interval {hint} is needed, not '{text.strip()}'")
    return interval
