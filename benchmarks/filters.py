"""The filter algebra: how fast two filters are compared, and how fast the forest of 100,000 takes one more."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from itertools import pairwise

from rich.console import Console
from rich.progress import track

from benchmarks.harness import compare, report
from benchmarks.workload import subscriptions
from routing.filters import Filter, covers, matches, parse
from routing.filters.ast import And
from routing.filters.forest import Forest
from routing.filters.region import Region, region
from routing.filters.relation import region_covers

MEMBERS = 100_000
ROUNDS = 25
PAIRS = 10_000


def main() -> None:
    made = [text for _, text in subscriptions(MEMBERS + ROUNDS + 1)]
    pairs = _pairs(made)
    comparing = compare(
        f"{len(pairs):,} pairs of conjunctions of 4 constraints",
        {
            "matches, one event": lambda turn: [matches(f, {"s1": "bacada", "i1": 1}) for f, _ in pairs],
            "covers, parsed": lambda turn: [covers(f, g) for f, g in pairs],
        },
        baseline="matches, one event",
    )
    forest, built, inserted = _forest(made[:MEMBERS])
    members = [forest.region(key) for key in range(MEMBERS)]
    fresh = [_region(text) for text in made[MEMBERS:]]
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


def _pairs(texts: list[str]) -> list[tuple[Filter, Filter]]:
    """Conjunctions of 4 constraints, each with itself turned round and with itself but for one constraint."""
    fours = [tree.parts for tree in map(parse, texts) if isinstance(tree, And) and len(tree.parts) == 4]
    found: list[tuple[Filter, Filter]] = []
    for one, other in pairwise(fours):
        found.append((And(one), And((*one[:3], other[3]))))
        found.append((And(one), And(tuple(reversed(one)))))
    return found[:PAIRS]


if __name__ == "__main__":
    main()
