"""The filter algebra: how fast two filters are compared, and how fast the forest of 100,000 takes one more."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from random import Random

from rich.console import Console
from rich.progress import track

from benchmarks.harness import compare, report
from routing.filters import Filter, covers, matches, parse
from routing.filters.forest import Forest
from routing.filters.region import Region, region
from routing.filters.relation import region_covers

MEMBERS = 100_000
ROUNDS = 25
PAIRS = 10_000
TEXTS, NUMBERS = [f"s{at}" for at in range(10)], [f"n{at}" for at in range(10)]


def main() -> None:
    random = Random(4)
    pairs = [_pair(random) for _ in range(PAIRS)]
    comparing = compare(
        f"{len(pairs):,} pairs of conjunctions of 4 constraints",
        {
            "matches, one event": lambda turn: [matches(f, {"s1": "v1", "n1": 1}) for f, _ in pairs],
            "covers, parsed": lambda turn: [covers(f, g) for f, g in pairs],
        },
        baseline="matches, one event",
    )
    forest, built, inserted = _forest([_subscription(random) for _ in range(MEMBERS)])
    members = [forest.region(key) for key in range(MEMBERS)]
    fresh = [_region(_subscription(random)) for _ in range(ROUNDS + 1)]
    inserting = compare(
        f"one more filter for {MEMBERS:,}",
        {
            "into the forest": lambda turn: forest.add(MEMBERS + turn, fresh[turn]),
            "compare with every member": lambda turn: _compare_all(fresh[turn], members),
            "out of the forest": lambda turn: forest.remove(turn * 37),
        },
        baseline="into the forest",
        rounds=ROUNDS,
    )
    report(
        comparing,
        inserting,
        covers_true=sum(covers(f, g) for f, g in pairs),
        covers_per_second=round(len(pairs) / comparing.seconds["covers, parsed"]),
        forest_seconds=round(built, 1),
        forest_roots=sum(1 for _ in forest.roots()),
        insertion_median_ms=round(statistics.median(inserted[-10_000:]) * 1000, 3),
        faster_than_comparing_all=round(inserting.ratios["compare with every member"]),
    )


def _forest(texts: Iterable[str]) -> tuple[Forest[int], float, list[float]]:
    """The forest of the filters, which are parsed beforehand; the seconds that it took, in all and for each."""
    members = [_region(text) for text in texts]
    forest: Forest[int] = Forest()
    taken = []
    progress = track(enumerate(members), "building the forest", MEMBERS, console=Console(stderr=True), transient=True)
    for key, part in progress:
        started = time.perf_counter()
        forest.add(key, part)
        taken.append(time.perf_counter() - started)
    return forest, sum(taken), taken


def _compare_all(part: Region, members: list[Region]) -> int:
    """Who covers it, and whom it covers."""
    return sum(region_covers(other, part) is True or region_covers(part, other) is True for other in members)


def _region(text: str) -> Region:
    return region(parse(text))


def _pair(random: Random) -> tuple[Filter, Filter]:
    """Two conjunctions of 4 constraints on the same attributes, of which all or all but one are the same."""
    names = random.sample(TEXTS + NUMBERS, 4)
    some = [_predicate(name, random) for name in names]
    others = [*some[:3], random.choice((some[3], _predicate(names[3], random)))]
    random.shuffle(others)
    return parse(" AND ".join(some)), parse(" AND ".join(others))


def _subscription(random: Random) -> str:
    names = random.sample(TEXTS + NUMBERS, random.randint(2, 5))
    return " AND ".join(_predicate(name, random) for name in names)


def _predicate(name: str, random: Random) -> str:
    """55 % equality, 30 % ranges, the rest prefix, suffix, substring, any, not equal."""
    shape, number = random.random(), int(random.paretovariate(0.8)) % 1000
    value = f"'v{number:03d}'" if name in TEXTS else str(number)
    if shape < 0.55:
        return f"{name} = {value}"
    if shape < 0.75:
        return f"{name} {random.choice(('<', '<=', '>', '>='))} {value}"
    if shape < 0.85:
        high = f"'v{number + 50:03d}'" if name in TEXTS else str(number + 50)
        return f"{name} BETWEEN {value} AND {high}"
    if name in NUMBERS or shape < 0.88:
        return random.choice((f"{name} ANY", f"{name} <> {value}"))
    text = f"{number % 100:02d}"
    return random.choice((f"{name} LIKE 'v{text}%'", f"{name} LIKE '%{text}'", f"{name} LIKE '%{text}%'"))


if __name__ == "__main__":
    main()
