"""Filters of hostile size: every question comes back, with an answer or undecided, after a bounded number of steps.

A step is a line of Python run, so the bound holds on any machine. An answer, if there is one, is the right one.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

import pytest

from routing.errors import FilterTooLarge
from routing.filters import (
    Filter,
    Limits,
    is_normal,
    merge,
    merge_perfectly,
    normalise,
    parse,
    relation,
    satisfiable,
    size_of_normal,
    to_sql,
)
from routing.filters.ast import Not, conjunction, disjunction
from tests.filter_families import KINDS, Vocabulary, anything, ordered, textual
from tests.oracles import Grid, counterexample_to_cover, witness_of_overlap

T = TypeVar("T")

MOST = 2_000_000  # lines: some 100 ms
MOST_OF_A_MERGE = 5 * MOST
QUESTIONS = ("covers", "covered", "overlaps")
LONG = Limits(text_bytes=100_000)


class TooManySteps(Exception):
    pass


def within(most: int, ask: Callable[[], T]) -> T:
    """What is asked, if it takes no more lines of Python than that."""
    steps = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal steps
        steps += 1
        if steps > most:
            raise TooManySteps
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        return ask()
    finally:
        sys.settrace(before)


def test_steps_are_counted() -> None:
    assert within(100, lambda: sum(range(10**6))) == 499999500000
    with pytest.raises(TooManySteps):
        within(100, lambda: [n * n for n in range(200)])


# Filters at the limits, in pairs: does the first cover the second, is it covered, do they overlap?

CNF = [f"(a{n} = 1 OR b{n} = 1)" for n in range(1, 31)]
CHAIN = [f"((p{n} AND NOT p{n + 1}) OR (p{n + 1} AND NOT p{n}))" for n in range(15)]  # of 16, neighbours differ
THREES = ", ".join(str(3 * n) for n in range(1000))
SIXES = ", ".join(str(6 * n) for n in range(1000))
ODD = ", ".join(str(6 * n + 1) for n in range(1000))
WORDS = ", ".join(f"'w{n:04d}'" for n in range(1000))
LATER = ", ".join(f"'w{n:04d}'" for n in range(500, 1500))
PAIRS = {
    "a CNF and its permutation": (" AND ".join(CNF), " AND ".join(reversed(CNF)), (True, True, True)),
    "a CNF without one clause": (" AND ".join(CNF), " AND ".join(CNF[1:]), (False, True, True)),
    "a CNF with one literal changed": (
        " AND ".join(CNF),
        " AND ".join([*CNF[:-1], "(a30 = 1 OR b30 = 2)"]),
        (False, False, True),
    ),
    "a CNF and a contradiction": (
        " AND ".join(CNF),
        " AND ".join([*CNF, "a7 = 2", "b7 = 2"]),
        (True, False, False),
    ),
    "a CNF and its negation": (" AND ".join(CNF), f"NOT ({' AND '.join(CNF)})", (False, False, False)),
    "a CNF and its DNF's negation": (
        " AND ".join(CNF),
        f"NOT ({' OR '.join(f'(NOT a{n} = 1 AND NOT b{n} = 1)' for n in range(1, 31))})",
        (True, True, True),
    ),
    "a CNF on one attribute": (
        " AND ".join(f"(x < {2 * n} OR x > {2 * n + 1})" for n in range(50)),
        " AND ".join(f"(x <= {2 * n} OR x > {2 * n + 1})" for n in range(50)),
        (False, True, True),
    ),
    "a chain of exclusions": (" AND ".join(CHAIN), "p0 AND p15", (False, False, False)),
    "IN and IN": (f"x IN ({THREES})", f"x IN ({SIXES})", (False, False, True)),
    "IN and IN, apart": (f"x IN ({THREES})", f"x IN ({ODD})", (False, False, False)),
    "IN and a range": (f"x IN ({THREES})", "x >= 0 AND x < 2998", (False, True, True)),
    "IN and a type": (f"x IN ({THREES})", f"x IN ({WORDS})", (False, False, False)),
    "NOT IN and IN": (f"x NOT IN ({THREES})", f"x IN ({ODD})", (True, False, True)),
    "NOT IN and NOT IN": (f"x NOT IN ({THREES})", f"x NOT IN ({SIXES})", (False, False, True)),
    "IN and its equalities": (
        f"x IN ({', '.join(str(n) for n in range(250))})",
        " OR ".join(f"x = {n}" for n in range(250)),
        (True, True, True),
    ),
    "words IN and IN": (f"s IN ({WORDS})", f"s IN ({LATER})", (False, False, True)),
    "words IN and a prefix": (f"s IN ({WORDS})", "s LIKE 'w0%'", (False, True, True)),
    "words IN and LIKE": (f"s IN ({WORDS})", "s LIKE 'w%_5_'", (False, False, True)),
    "words NOT IN and NOT LIKE": (f"s NOT IN ({WORDS})", "s NOT LIKE 'w%'", (True, False, True)),
    "words IN and a range": (f"s IN ({WORDS})", "s >= 'w0000' AND s <= 'w0999'", (False, True, True)),
    "LIKE, many a's": (f"s LIKE '{'%a' * 500}%'", f"s LIKE '%b{'%a' * 500}%'", (True, False, True)),
    "LIKE, many a's at the end": (f"s LIKE '{'%a' * 400}'", f"s LIKE '%b{'%a' * 399}%'", (False, False, True)),
    "LIKE, steps of two": (f"s LIKE '{'%a_' * 60}'", f"s LIKE '{'%_a' * 60}'", (False, False, True)),
    "LIKE, a far back": (f"s LIKE '%a{'_' * 200}'", f"s LIKE '%b{'_' * 200}'", (False, False, False)),
    "LIKE, a and b far back": (f"s LIKE '%a{'_' * 25}'", f"s LIKE '%b{'_' * 24}'", (False, False, True)),
    "many substrings": (
        " AND ".join(f"CONTAINS(s, '{a}{b}')" for a in "abcdefgh" for b in "abcdefgh"),
        " AND ".join(f"CONTAINS(s, '{a}')" for a in "abcdefgh"),
        (False, True, True),
    ),
    "many suffixes": (
        " OR ".join(f"ENDSWITH(s, '{a}{b}')" for a in "abcdefgh" for b in "abcdefgh"),
        "ENDSWITH(s, 'abc') OR ENDSWITH(s, 'bcd')",
        (True, False, True),
    ),
    "no substring of many": (
        " AND ".join(f"NOT CONTAINS(s, '{a}{b}')" for a in "abcdefgh" for b in "abcdefgh"),
        "s LIKE '%a_b%'",
        (False, False, True),
    ),
    "NOTs and parentheses": (f"{'NOT ' * 31}x = 1", f"{'(' * 32}x <> 1{')' * 32}", (True, True, True)),
    "NOTs of groups": (f"{'NOT (' * 16}x = 1{' AND y = 1)' * 16}", "x = 1 AND y = 1", (True, False, True)),
}
pairs = pytest.mark.parametrize(("f", "g", "truth"), PAIRS.values(), ids=PAIRS)


@pairs
def test_relation(f: str, g: str, truth: tuple[bool, bool, bool]) -> None:
    left, right = parse(f, limits=LONG), parse(g, limits=LONG)
    for question, expected in zip(QUESTIONS, truth, strict=True):
        found = within(MOST, lambda question=question: getattr(relation(left, right), question))
        assert found in (expected, None), question


@pairs
def test_everything_else(f: str, g: str, truth: tuple[bool, bool, bool]) -> None:
    check_everything_else(parse(f, limits=LONG), parse(g, limits=LONG))


def check_everything_else(f: Filter, g: Filter) -> None:
    assert within(MOST, lambda: relation(f, f).covers) is True
    assert within(MOST, lambda: satisfiable(f)) is True or relation(f, f).overlaps is False
    assert within(MOST, lambda: size_of_normal(f)) >= 0
    assert within(MOST, lambda: is_normal(f)) in (True, False)
    for intervals in (None, 1):
        merged = within(MOST_OF_A_MERGE, lambda intervals=intervals: merge([f, g], intervals=intervals))
        assert (merged.added == 0.0) is merged.perfect
        assert relation(merged.filter, f).covers is not False and relation(merged.filter, g).covers is not False
    kept = within(MOST_OF_A_MERGE, lambda: merge_perfectly([f, g]))
    assert relation(disjunction([Not(Not(f)), g]), disjunction(kept)).covers is not False
    try:
        normal = within(MOST, lambda: normalise(f))
    except FilterTooLarge:
        return
    assert relation(f, normal).covers is not False and relation(f, normal).covered is not False


# Random filters of 256 nodes.

SHAPES = {
    "wide": (60, conjunction, disjunction),
    "wide the other way": (60, disjunction, conjunction),
    "clauses": (3, disjunction, conjunction),
    "twigs": (2, conjunction, disjunction),
}


def large(words: Vocabulary, leaf: Callable[[Vocabulary], Filter], shape: str) -> Filter:
    """A random filter that the parser just lets pass."""
    for nodes in range(400, 0, -10):
        filter = grown(words, leaf, nodes, shape)
        with suppress(FilterTooLarge):
            return parse(to_sql(filter), limits=LONG)
    raise AssertionError


def grown(words: Vocabulary, leaf: Callable[[Vocabulary], Filter], nodes: int, shape: str, depth: int = 20) -> Filter:
    """A random filter of about so many nodes."""
    widest, join, other = SHAPES[shape]
    if nodes < 5 or not depth:
        return leaf(words)
    if words.draw.random() < 0.1:
        return Not(grown(words, leaf, nodes - 1, shape, depth - 1))
    many = words.draw.randint(2, min(widest, nodes // 2))
    parts = [grown(words, leaf, (nodes - 1) // many, shape, depth - 1) for _ in range(many)]
    return (join if words.draw.random() < 0.6 else other)(parts)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("leaf", [ordered, textual, anything])
@pytest.mark.parametrize("seed", range(2))
def test_random_filters_of_256_nodes(shape: str, leaf: Callable[[Vocabulary], Filter], seed: int) -> None:
    words = Vocabulary(random.Random(f"{shape} {leaf.__name__} {seed}"), list(KINDS))
    f, g = (large(words, leaf, shape) for _ in range(2))
    for left, right in ((f, g), (f, conjunction([f, g]))):
        grid = Grid([left, right], states=100, seed=seed)
        found = {name: within(MOST, lambda: getattr(relation(left, right), name)) for name in QUESTIONS}  # noqa: B023
        assert found["covers"] is not True or counterexample_to_cover(left, right, grid) is None
        assert found["covered"] is not True or counterexample_to_cover(right, left, grid) is None
        assert found["overlaps"] is not False or witness_of_overlap(left, right, grid) is None
    check_everything_else(f, g)
