"""The filter algebra against its oracles: 20,000 pairs of filters, and no wrong answer.

`make prove-filters` and `make prove-filters-z3` do the same for many more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from itertools import combinations

import pytest
from hypothesis import given, settings

from routing.filters import Filter, evaluate, matches, relation, to_sql
from routing.filters.ast import Not, conjunction, disjunction
from tests.filter_families import FAMILIES
from tests.oracles import Arithmetic, Grid, counterexample_to_cover
from tests.prove_filters import BY_SAMPLING, BY_Z3, PAIRS, Report, Sampled, compare, prove, z3
from tests.strategies import MIXED, TYPED, filters

SAMPLED, SOLVED, DRAWN = 100, 50, 200  # groups of 28 pairs of each family, and examples of 6 pairs
KNOWN = 0.95  # of the answers are known by the oracle, too; the others only have no counterexample in the sample


def test_these_are_20_000_pairs() -> None:
    assert (len(BY_SAMPLING) * SAMPLED + len(BY_Z3) * SOLVED) * PAIRS + 2 * DRAWN * 6 >= 20_000


@pytest.mark.parametrize("family", BY_SAMPLING)
def test_by_sampling(family: str, record_property: Callable[[str, object], None]) -> None:
    report = prove(FAMILIES[family], random.Random(f"sampling {family}"), SAMPLED, Sampled)
    check(report, record_property)
    assert not FAMILIES[family].promised or not report.undecided()


@pytest.mark.parametrize("family", BY_Z3)
def test_by_z3(family: str, record_property: Callable[[str, object], None]) -> None:
    report = prove(FAMILIES[family], random.Random(f"z3 {family}"), SOLVED, lambda filters: z3())
    check(report, record_property)
    assert not FAMILIES[family].promised or not report.undecided()


@pytest.mark.parametrize("names", [TYPED, MIXED], ids=["typed", "mixed"])
def test_by_hypothesis(names: tuple[str, ...], record_property: Callable[[str, object], None]) -> None:
    total = Report()

    @settings(max_examples=DRAWN)
    @given(filters(names), filters(names))
    def run(f: Filter, g: Filter) -> None:
        nonlocal total
        report, related = Report(), [f, g, conjunction([f, g]), disjunction([Not(f), g])]
        compare(report, "everything", related, Sampled(related))
        assert not report.wrong, report.wrong
        total += report

    run()
    check(total, record_property, known=0.5)


def check(report: Report, record_property: Callable[[str, object], None], known: float = KNOWN) -> None:
    """No wrong answer; and the pairs tell something: each question is answered both ways, and the truth is known."""
    counts: dict[str, int] = {}
    for (_, question, said), count in report.answers.items():
        counts[f"{question} {said}"] = counts.get(f"{question} {said}", 0) + count
    for name, value in counts.items():
        record_property(name, value)
    print(f"{report.pairs.total()} pairs:", counts)
    assert not report.wrong, "\n".join(report.wrong[:5])
    for question in ("covers", "covered", "overlaps", "satisfiable"):
        decided = counts[f"{question} true"] + counts[f"{question} false"]
        assert min(counts[f"{question} true"], counts[f"{question} false"]) > 0.02 * decided
        assert counts.get(f"{question} unchecked", 0) <= (1 - known) * decided


@pytest.mark.parametrize("family", ["disjunctions", "everything"])
@pytest.mark.parametrize("budget", [0, 1, 10, 100, 1000])
def test_a_small_budget_gives_fewer_answers_and_no_other(family: str, budget: int) -> None:
    draw, report = random.Random(f"{family} {budget}"), Report()
    for _ in range(20):
        group = FAMILIES[family].group(draw)
        compare(report, family, group, Sampled(group), partial(relation, budget=budget))
        assert all(relation(f, f, budget=budget).covers for f in group)
    assert not report.wrong, report.wrong[:5]


# The oracles themselves.


@pytest.mark.parametrize("family", FAMILIES)
def test_the_grid_says_what_the_evaluator_says(family: str) -> None:
    draw = random.Random(family)
    for _ in range(5):
        group = FAMILIES[family].group(draw)
        grid = Grid(group)
        for number in draw.choices(range(grid.events), k=50):
            event = grid.first(1 << number)
            assert event is not None
            for filter in group:
                true, false = (bool(mask >> number & 1) for mask in grid.truth(filter))
                assert evaluate(filter, event) is (True if true else False if false else None), (to_sql(filter), event)


@pytest.mark.parametrize("family", BY_Z3)
def test_z3_and_the_grid_say_the_same(family: str) -> None:
    draw, compared = random.Random(f"both {family}"), 0
    for group in (FAMILIES[family].group(draw) for _ in range(20)):
        grid = Grid(group)
        for f, g in combinations(group if grid.exact else [], 2):
            found = Arithmetic().counterexample_to_cover(f, g)
            assert found is None or (matches(g, found) and not matches(f, found)), (to_sql(f), to_sql(g), found)
            assert (found is None) is (counterexample_to_cover(f, g, grid) is None), (to_sql(f), to_sql(g))
            compared += 1
    assert compared > 200
