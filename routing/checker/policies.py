"""Transmission policies: whom a scope delivers to, and what it lets out (docs/scopes.md; SPEC §7).

Law: a policy is a text, read once; a text that is none of those in the tables is refused, and its scope is closed. The
choice among consumers looks at names and properties only, never at the content. What a publishing policy remembers
belongs to the scope and the policy together: another policy begins anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from functools import cache
from hashlib import md5

from routing.checker.content import same_value
from routing.checker.properties import number, satisfies
from routing.checker.system import Content, Event
from routing.errors import RoutingError
from routing.filters import parse

Properties = Callable[[str], dict[str, str]]

_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400}
_SHAPE = re.compile(r"\s*([a-z_]+)\s*(?:\((.*)\))?\s*", re.IGNORECASE | re.DOTALL)
_INTERVAL = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(second|minute|hour|day)s?", re.IGNORECASE)


class PolicyError(RoutingError):
    """A text that is no policy."""


@dataclass(frozen=True)
class Policy:
    """The name, and the arguments that policies of this name have."""

    name: str
    number: Decimal = Decimal(0)
    text: str = ""
    interval: Decimal = Decimal(0)


class Verdict(Enum):
    """What happens to a version that would leave a scope."""

    PASS = "pass"
    STOP = "stop"
    HOLD = "hold"


def granted(policy: Policy, scope: str, event: Event, eligible: Iterable[str], properties: Properties) -> set[str]:
    """Those of the eligible consumers to whom the scope delivers the event.

    >>> sale = Event("shop", "e1", {})
    >>> ranks = {"a": {"rank": "10"}, "b": {"rank": "2"}}
    >>> granted(parse_delivery("first_matching(rank)"), "desk", sale, ranks, ranks.__getitem__)
    {'b'}
    """
    hashed = sorted(
        eligible, key=lambda consumer: (_hash("deliver", scope, event.publisher, event.id, consumer), consumer)
    )
    match policy.name:
        case "all":
            return set(hashed)
        case "one_of_n":
            return set(hashed[:1])
        case "k_of_n":
            return set(hashed[: int(policy.number)])
        case "first_matching":
            # The sort is stable: ties stay in the order of the hash.
            return set(sorted(hashed, key=lambda consumer: _priority(properties(consumer).get(policy.text)))[:1])
        case _:
            return {name for name in hashed if satisfies(name, properties(name), parse(policy.text))}


@dataclass
class Publishing:
    """The publishing policies of all scopes, with what those that count remember from batch to batch."""

    let_through: dict[Hashable, int] = field(default_factory=dict)
    last: dict[Hashable, Decimal] = field(default_factory=dict)

    def judge(self, policy: Policy, scope: str, event: Event, content: Content, clock: Decimal) -> Verdict:
        """Whether this version of the event leaves the scope in this batch. Ask once for each version."""
        match policy.name:
            case "forward":
                passes = True
            case "discard":
                passes = False
            case "sample":
                digits = _hash("sample", scope, event.publisher, event.id)[:13]
                passes = int(digits, 16) < policy.number * 16**13
            case "rate_limit":
                passes = self._within_rate(policy, scope, clock)
            case "throttle":
                passes = self._is_first(policy, scope, content.get(policy.text), clock)
            case _:
                return Verdict.HOLD
        return Verdict.PASS if passes else Verdict.STOP

    def _within_rate(self, policy: Policy, scope: str, clock: Decimal) -> bool:
        window = (scope, policy, clock // policy.interval)
        passes = self.let_through.get(window, 0) < policy.number
        self.let_through[window] = self.let_through.get(window, 0) + passes
        return passes

    def _is_first(self, policy: Policy, scope: str, value: object, clock: Decimal) -> bool:
        key = (scope, policy, same_value(value))
        passes = key not in self.last or clock >= self.last[key] + policy.interval
        if passes:
            self.last[key] = clock
        return passes


@cache
def parse_delivery(text: str) -> Policy:
    """The delivery policy that the text says.

    >>> parse_delivery("k_of_n(2)").number
    Decimal('2')
    """
    match _shape(text):
        case ("all" | "one_of_n") as name, None:
            return Policy(name)
        case "k_of_n", str(k):
            return Policy("k_of_n", number=_count(k))
        case "first_matching", str(name) if name.strip():
            return Policy("first_matching", text=_name(name))
        case "filter", str(predicate):
            parse(predicate)
            return Policy("filter", text=predicate)
    raise PolicyError(
        f"not a delivery policy: {text!r} (all, one_of_n, k_of_n(k), first_matching(p), filter(predicate))"
    )


@cache
def parse_publishing(text: str) -> Policy:
    """The publishing policy that the text says.

    >>> parse_publishing("throttle(symbol, 5 minutes)").interval
    Decimal('300')
    """
    name, inside = _shape(text)
    first, comma, last = (inside or "").rpartition(",")
    match name:
        case "forward" | "discard" if inside is None:
            return Policy(name)
        case "sample" if inside is not None:
            return Policy(name, number=_probability(inside))
        case "delay" if inside is not None:
            return Policy(name, interval=_interval(inside))
        case "rate_limit" if comma:
            return Policy(name, number=_count(first), interval=_interval(last))
        case "throttle" if first.strip():
            return Policy(name, text=_name(first), interval=_interval(last))
    raise PolicyError(
        f"not a publishing policy: {text!r} (forward, discard, sample(p), rate_limit(n, interval), "
        "throttle(attribute, interval), delay(interval))"
    )


def _shape(text: str) -> tuple[str, str | None]:
    found = _SHAPE.fullmatch(text)
    return (found[1].lower(), found[2]) if found else ("", None)


def _name(text: str) -> str:
    name = text.strip()
    return name[1:-1].replace("``", "`") if len(name) > 2 and name[0] == name[-1] == "`" else name


def _count(text: str) -> Decimal:
    if not re.fullmatch(r"[0-9]+", text.strip()) or int(text) < 1:
        raise PolicyError(f"expected a whole number from 1 on, not {text.strip()!r}")
    return Decimal(text.strip())


def _probability(text: str) -> Decimal:
    share = number(text.strip())
    if share is None or not 0 <= share <= 1:
        raise PolicyError(f"expected a number from 0 to 1, not {text.strip()!r}")
    return share


def _interval(text: str) -> Decimal:
    found = _INTERVAL.fullmatch(text.strip())
    if not found or not Decimal(found[1]):
        raise PolicyError(f"expected an interval such as 10 seconds, not {text.strip()!r}")
    return Decimal(found[1]) * _SECONDS[found[2].lower()]


def _hash(*parts: str) -> str:
    return md5("\0".join(parts).encode()).hexdigest()


def _priority(value: str | None) -> tuple[int, Decimal, str]:
    """Numbers by value, then other texts by code point, then those that have none."""
    if value is None:
        return 2, Decimal(0), ""
    read = number(value)
    return (1, Decimal(0), value) if read is None else (0, read, "")
