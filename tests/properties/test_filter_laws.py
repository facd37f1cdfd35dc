"""The laws of the filter algebra, as properties of random filters.

Where an answer is needed to say that a law is broken, it is the oracle's: an event of a grid.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from itertools import combinations, groupby, pairwise, permutations

import pytest
from hypothesis import given, settings

from routing.errors import FilterTooLarge
from routing.filters import (
    Filter,
    attributes,
    covers,
    identical,
    is_normal,
    merge,
    merge_perfectly,
    normalise,
    overlaps,
    parse,
    relation,
    satisfiable,
    size_of_normal,
    to_sql,
)
from routing.filters.ast import And, Constant, conjunction, disjunction
from tests.filter_families import FAMILIES
from tests.oracles import Grid
from tests.strategies import MIXED, TYPED, filters

GROUPS = 30
families = pytest.mark.parametrize("family", FAMILIES)
ordered = pytest.mark.parametrize("family", ["conjunctions", "disjunctions", "nested", "arithmetic"])  # no text tests


def groups(family: str, law: str, number: int = GROUPS, size: int = 5) -> Iterator[list[Filter]]:
    draw = random.Random(f"{law} {family}")
    return (FAMILIES[family].group(draw, size) for _ in range(number))


# One and two filters.


@families
def test_covers_is_reflexive(family: str) -> None:
    for f in (f for group in groups(family, "reflexive") for f in group):
        assert covers(f, f) and identical(f, f), to_sql(f)


@families
def test_covers_is_transitive(family: str) -> None:
    held = 0
    for f, g, h in (triple for group in groups(family, "transitive") for triple in permutations(group, 3)):
        if covers(f, g) and covers(g, h):
            assert relation(f, h).covers is not False, (to_sql(f), to_sql(g), to_sql(h))
            held += 1
    assert held > GROUPS


@families
def test_each_question_is_one_about_the_relation(family: str) -> None:
    for f, g in (pair for group in groups(family, "functions") for pair in combinations(group, 2)):
        there, back = relation(f, g), relation(g, f)
        assert (there.covers, there.covered, there.overlaps) == (back.covered, back.covers, back.overlaps)
        assert covers(f, g) is (there.covers is True)
        assert identical(f, g) is (there.covers is True and there.covered is True)
        assert overlaps(f, g) is (there.overlaps is not False)


@families
def test_what_covers_something_overlaps_it(family: str) -> None:
    for f, g in (pair for group in groups(family, "overlap") for pair in permutations(group, 2)):
        if covers(f, g):
            assert relation(f, g).overlaps in (None, satisfiable(g)), (to_sql(f), to_sql(g))


@families
def test_conjunction_and_disjunction_are_the_bounds(family: str) -> None:
    for f, g in (pair for group in groups(family, "bounds", number=10) for pair in combinations(group, 2)):
        both, either = conjunction([f, g]), disjunction([f, g])
        assert relation(f, both).covers is not False and relation(either, f).covers is not False, (to_sql(f), to_sql(g))
        assert relation(f, g).overlaps in (None, satisfiable(both)), (to_sql(f), to_sql(g))
        assert satisfiable(either) is (satisfiable(f) or satisfiable(g)), (to_sql(f), to_sql(g))


@families
def test_a_text_is_the_filter_it_says(family: str) -> None:
    for f, g in (pair for group in groups(family, "texts", number=5) for pair in combinations(group, 2)):
        said, meant = relation(to_sql(f), to_sql(g)), relation(f, g)
        assert (said.covers, said.covered, said.overlaps) == (meant.covers, meant.covered, meant.overlaps)


# The normal form.


@families
def test_normalise_keeps_the_meaning_and_every_relation(family: str) -> None:
    for group in groups(family, "normal"):
        for f, g in pairwise(group):
            normal = normal_or_none(f)
            if normal is None:
                continue
            check_normal(f, normal)
            before, after = relation(f, g), relation(normal, g)
            assert (before.covers, before.covered, before.overlaps) == (after.covers, after.covered, after.overlaps)


@pytest.mark.parametrize("names", [TYPED, MIXED], ids=["typed", "mixed"])
def test_normalise_by_hypothesis(names: tuple[str, ...]) -> None:
    @settings(max_examples=200)
    @given(filters(names))
    def run(f: Filter) -> None:
        normal = normal_or_none(f)
        if normal is not None:
            check_normal(f, normal)

    run()


def normal_or_none(f: Filter) -> Filter | None:
    """The normal form; none if it is too large, which is known before."""
    try:
        return normalise(f)
    except FilterTooLarge:
        assert size_of_normal(f) > 100
        return None


def check_normal(f: Filter, normal: Filter) -> None:
    grid = Grid([f, normal])
    assert grid.matched(f) == grid.matched(normal), (to_sql(f), to_sql(normal))
    assert is_normal(normal) and normalise(normal) == normal, (to_sql(f), to_sql(normal))
    assert parse(to_sql(normal)) == normal, to_sql(normal)
    assert is_normal(f) is (f == normal), (to_sql(f), to_sql(normal))
    assert isinstance(normal, Constant) or satisfiable(normal)


# Merging.


@families
def test_a_merge_covers_its_parts_and_is_perfect_if_it_is_no_more(family: str) -> None:
    perfect = imperfect = 0
    for parts in groups(family, "merge", size=3):
        merged = merge(parts)
        union = disjunction(parts)
        grid = Grid([merged.filter, *parts])
        more = grid.matched(merged.filter) & ~grid.matched(union)
        assert not grid.matched(union) & ~grid.matched(merged.filter), texts(parts, merged.filter)
        assert all(relation(merged.filter, part).covers is not False for part in parts), texts(parts, merged.filter)
        assert is_a_box(merged.filter), to_sql(merged.filter)
        assert (merged.added == 0.0) is merged.perfect and 0.0 <= merged.added <= 1.0, texts(parts, merged.filter)
        if merged.perfect:
            assert not more and identical(merged.filter, union), texts(parts, merged.filter)
        else:
            assert more or not grid.exact, texts(parts, merged.filter)
        perfect, imperfect = perfect + merged.perfect, imperfect + (not merged.perfect)
    assert perfect > 3 and (imperfect > 3 or family == "one kind of text test")


@ordered
def test_a_merge_is_perfect_wherever_one_exists(family: str) -> None:
    """A set of values per attribute makes a box; the least box around the union is that of its projections."""
    boxes = 0
    for parts in groups(family, "box", size=3):
        merged = merge(parts)
        grid = Grid([merged.filter, *parts])
        if not grid.exact:
            continue
        union = grid.matched(disjunction(parts))
        hull = grid.box({name: grid.project(union, name) for name in grid.columns})
        assert merged.perfect is (hull == union), texts(parts, merged.filter)
        assert grid.matched(merged.filter) == hull, texts(parts, merged.filter)
        boxes += hull == union
    assert boxes > 3


@families
def test_a_merge_into_one_interval_is_a_merge(family: str) -> None:
    for parts in groups(family, "interval", size=3):
        merged = merge(parts, intervals=1)
        grid = Grid([merged.filter, *parts])
        union, found = grid.matched(disjunction(parts)), grid.matched(merged.filter)
        assert not union & ~found, texts(parts, merged.filter)
        assert is_a_box(merged.filter), to_sql(merged.filter)
        assert (merged.added == 0.0) is merged.perfect and 0.0 <= merged.added <= 1.0, texts(parts, merged.filter)
        assert merged.perfect is (found == union) or not grid.exact, texts(parts, merged.filter)


def is_a_box(filter: Filter) -> bool:
    """Whether the filter is a conjunction of parts about one attribute each."""
    parts = filter.parts if isinstance(filter, And) else (filter,)
    return all(len(attributes(part)) <= 1 for part in parts)


@ordered
def test_a_merge_into_one_interval_has_one_for_each_attribute_and_kind_and_it_is_the_tightest(family: str) -> None:
    """No value between two that match fails; and both ends are values that the union has, too."""
    for parts in groups(family, "tight", size=3):
        merged = merge(parts, intervals=1)
        grid = Grid([merged.filter, *parts])
        union, found = grid.matched(disjunction(parts)), grid.matched(merged.filter)
        for name, column in grid.columns.items():
            inside, wanted = grid.project(found, name), grid.project(union, name)
            for line in lines(column.pool):
                places = [column.place(value) for value in line]
                runs = [list(run) for hit, run in groupby(places, inside.__contains__) if hit]
                assert len(runs) <= 1, (name, texts(parts, merged.filter))
                assert {place for run in runs for place in (run[0], run[-1])} <= wanted or not grid.exact, (
                    name,
                    texts(parts, merged.filter),
                )


def lines(pool: list[object]) -> Iterator[list[object]]:
    """The values that have an order, by kind."""
    for types in ((int, float, Decimal), (str,), (date,), (datetime,), (bool,)):
        yield sorted(value for value in pool if type(value) in types and value == value)


@families
def test_merging_perfectly_keeps_the_union_in_fewer_filters(family: str) -> None:
    fewer = 0
    for parts in groups(family, "perfectly"):
        merged = merge_perfectly(parts)
        grid = Grid([*merged, *parts])
        assert grid.matched(disjunction(merged)) == grid.matched(disjunction(parts)), texts(parts, *merged)
        assert len(merged) <= len(parts), texts(parts, *merged)
        assert not any(relation(f, g).covers for f, g in permutations(merged, 2)), texts(parts, *merged)
        fewer += len(merged) < len(parts)
    assert fewer > GROUPS // 2


def test_merging_perfectly_leaves_no_two_conjunctions_that_could_be_one() -> None:
    for parts in groups("conjunctions", "perfectly"):
        merged = merge_perfectly(parts)
        assert not any(merge(pair).perfect for pair in combinations(merged, 2)), texts(parts, *merged)


def texts(parts: list[Filter], *merged: Filter) -> str:
    return "  ;  ".join(map(to_sql, parts)) + "  =>  " + "  ;  ".join(map(to_sql, merged))
