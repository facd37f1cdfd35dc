"""The forest of covering filters against comparing everything with everything."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.errors import FilterError
from routing.filters import covers, satisfiable
from routing.filters.ast import Comparison, Filter, Kind, Literal, Operator
from routing.filters.forest import Forest
from tests.strategies import filters


def uncovered(members: dict[int, Filter | str]) -> list[set[int]]:
    """The filters that no other covers, by comparing all pairs; those that are identical stand together."""
    alive = {key: filter for key, filter in members.items() if satisfiable(filter)}
    above = {key: {other for other in alive if covers(alive[other], alive[key])} for key in alive}
    groups = {frozenset(other for other in above[key] if key in above[other]) for key in alive}
    return [set(group) for group in groups if all(above[key] <= group for key in group)]


def check(forest: Forest[int], members: dict[int, Filter | str]) -> None:
    roots = list(forest.roots())
    groups = uncovered(members)
    assert len(roots) == len(groups)
    assert all(len(group & set(roots)) == 1 for group in groups)
    assert len(forest) == len(members)
    for key, filter in members.items():
        parent = forest.parent(key)
        if parent is not None:
            assert covers(members[parent], filter)
            assert key in forest.children(parent)
        siblings = forest.children(parent) if parent is not None else roots
        if satisfiable(filter):
            assert key in siblings
            assert not any(covers(members[other], filter) for other in siblings if other != key)


@given(st.lists(filters(("i1", "s1", "v")), max_size=12), st.randoms(use_true_random=False))
def test_roots_are_what_comparing_all_gives(some: list[Filter], random: Random) -> None:
    members: dict[int, Filter | str] = {}
    forest: Forest[int] = Forest()
    for key, filter in enumerate(some):
        forest.add(key, filter)
        members[key] = filter
        if random.random() < 0.3:
            gone = random.choice(list(members))
            forest.remove(gone)
            del members[gone]
    check(forest, members)
    while members:
        gone = random.choice(list(members))
        forest.remove(gone)
        del members[gone]
        check(forest, members)


def conjunction(random: Random) -> str:
    return " AND ".join(predicate(random, name) for name in random.sample("abcdef", random.randint(1, 4)))


def predicate(random: Random, name: str) -> str:
    number = random.randrange(6)
    return random.choice(
        [
            f"{name} = {number}",
            f"{name} = {number}",
            f"{name} > {number}",
            f"{name} <= {number}",
            f"{name} BETWEEN {number} AND {number + random.randrange(3)}",
            f"{name} IN ({number}, {number + 1}, 'x{number}')",
            f"{name} LIKE 'x{number}%'",
            f"{name} LIKE '%{number}'",
            f"{name} ANY",
        ]
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_few_hundred_conjunctions_that_come_and_go(seed: int) -> None:
    random = Random(seed)
    members: dict[int, Filter | str] = {}
    forest: Forest[int] = Forest()
    for key in range(100):
        members[key] = conjunction(random)
        forest.add(key, members[key])
        if random.random() < 0.4:
            gone = random.choice(list(members))
            forest.remove(gone)
            del members[gone]
    check(forest, members)


def test_the_tree_goes_from_the_general_to_the_special() -> None:
    forest = Forest([("five", "x = 5"), ("all", "TRUE"), ("any", "x ANY"), ("high", "x > 3"), ("twin", "x > 3")])
    assert list(forest.roots()) == ["all"]
    assert forest.children("all") == ["any"]
    assert forest.children("any") == ["high"]
    assert forest.children("high") == ["twin"]
    assert forest.children("twin") == ["five"]
    forest.remove("high")
    assert forest.children("any") == ["twin"]
    assert forest.parent("five") == "twin"
    forest.remove("all")
    assert list(forest.roots()) == ["any"]


def test_what_matches_nothing_is_no_root() -> None:
    forest = Forest([("nothing", "x = 1 AND x = 2"), ("one", "x = 1")])
    assert list(forest.roots()) == ["one"]
    assert (forest.parent("nothing"), forest.children("nothing"), len(forest)) == (None, [], 2)
    forest.remove("nothing")
    assert "nothing" not in forest


def test_strings_that_begin_alike_and_numbers_beyond_doubles_are_told_apart() -> None:
    members: dict[int, Filter | str] = {
        0: "s = 'a-long-common-beginning-1'",
        1: "s = 'a-long-common-beginning-2'",
        2: "s LIKE 'a-long-common-beginning%'",
        3: "n > 9007199254740992",
        4: "n > 9007199254740993",
        5: Comparison("n", Operator.GT, Literal(Kind.NUMBER, 10**400)),
        6: Comparison("n", Operator.LT, Literal(Kind.NUMBER, -(10**400))),
        7: "n < 0",
        8: "d >= DATE '2026-01-31'",
        9: "d = DATE '2026-02-01'",
    }
    forest = Forest(members.items())
    check(forest, members)
    assert set(forest.roots()) == {2, 3, 7, 8}


def test_a_filter_too_large_to_write_out_has_its_place() -> None:
    wide = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(30))
    forest = Forest([("narrow", f"{wide} AND x = 1"), ("wide", wide)])
    assert list(forest.roots()) == ["wide"]
    assert forest.parent("narrow") == "wide"


def test_a_key_is_there_once_and_a_text_must_parse() -> None:
    forest = Forest([("a", "x = 1")])
    with pytest.raises(ValueError, match="'a' is in the forest"):
        forest.add("a", "x = 2")
    with pytest.raises(KeyError):
        forest.remove("b")
    with pytest.raises(FilterError):
        forest.add("b", "x =")
    assert len(forest) == 1
