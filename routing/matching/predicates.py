"""Clauses and a schema to sets of codes: what each predicate is among the codes of its lane.

Law: a lane's codes count the constants that its predicates name, kind by kind, so that each predicate is an interval of
codes, a union of intervals, or a token of the string. A predicate whose constants are all of another kind than
the column, or that names an attribute the schema lacks, is never true, and so is its negation; its conjunction is dead.
The intervals of a conjunction on one lane become one, their intersection; if it is empty, the conjunction is dead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from routing.matching.clauses import KINDS, STRING, Clauses, Op
from routing.matching.cuts import KIND
from udfs.columns import Slot, slots
from udfs.index import Test

HOLE = np.int8(len(Test))
"""A test that the compiler tells from INTERVAL, and the kernel does not."""

_TOKENS = (Op.SUFFIX, Op.NOT_SUFFIX, Op.SUBSTRING, Op.NOT_SUBSTRING, Op.LIKE, Op.NOT_LIKE)
# Which of its two cuts, at the constant and just above it, a predicate needs.
_AT = np.isin(np.arange(18), (Op.IN, Op.NOT_IN, Op.LESS, Op.AT_LEAST, Op.PREFIX, Op.NOT_PREFIX))
_ABOVE = np.isin(np.arange(18), (Op.IN, Op.NOT_IN, Op.AT_MOST, Op.MORE))


@dataclass(frozen=True, slots=True)
class Lanes:
    """The columns, their slots, and the codes that their values get.

    Segment s of the codes, those of one kind on one lane, begins at `bases[s]` and has the cuts from `cut_starts[s]`
    to `cut_starts[s + 1]`: the rank of a constant, and whether the cut lies just above it.
    """

    columns: tuple[str, ...]
    slots: tuple[tuple[Slot, ...], ...]
    segments: NDArray[np.int64]
    """lane · kinds + kind, ascending"""
    bases: NDArray[np.int64]
    cut_starts: NDArray[np.int64]
    cut_ranks: NDArray[np.int64]
    cut_above: NDArray[np.bool_]
    tops: NDArray[np.int64]
    """The code above all others of each lane."""


@dataclass(frozen=True, slots=True)
class Predicates:
    """A row per test, sorted by conjunction; `dead` tells the conjunctions that are never true.

    Of an INTERVAL, a and b are its ends; of a SET, its place in `bounds`; of HOLDS and LACKS, a is the token. A HOLE
    is an interval that goes around: from a, just above what it leaves out, upwards to b, just below, nulls included.
    """

    conjunctions: NDArray[np.int32]
    lanes: NDArray[np.int32]
    tests: NDArray[np.int8]
    a: NDArray[np.int32]
    b: NDArray[np.int32]
    bounds: NDArray[np.int32]
    dead: NDArray[np.bool_]
    tokens: NDArray[np.int64]
    """lane, op and text of each token, as a row"""


def columns(clauses: Clauses, schema: pa.Schema) -> tuple[str, ...]:
    """The columns that some filter names, in the order of the schema."""
    named = set(clauses.names)
    found = [name for name in schema.names if name in named]
    twice = {name for name in found if found.count(name) > 1}
    if twice:
        raise ValueError(f"the schema has several columns named {', '.join(map(repr, sorted(twice)))}")
    return tuple(found)


def resolve(clauses: Clauses, schema: pa.Schema) -> tuple[Lanes, Predicates]:
    """The lanes of the schema that the clauses name, and the clauses as tests of their codes."""
    return _Resolution(clauses, schema).result()


class _Resolution:
    """The steps from clauses to tests; each is a few operations on whole columns."""

    def __init__(self, clauses: Clauses, schema: pa.Schema) -> None:
        self.clauses, self.schema = clauses, schema
        self.columns = columns(clauses, schema)
        self.slots = tuple(slots(lane, schema.field(name)) for lane, name in enumerate(self.columns))
        places = {name: lane for lane, name in enumerate(self.columns)}
        self.lane_of = np.array([places.get(name, -1) for name in clauses.names], np.int32)
        self.lanes = self.lane_of[clauses.attributes]
        self.dead = np.zeros(len(clauses.owners), np.bool_)
        self.rows: list[tuple[Any, Any, Any, Any, Any]] = []
        self.bounds = np.empty(0, np.int32)

    def result(self) -> tuple[Lanes, Predicates]:
        self._choose_members()
        lanes = self._lay_out()
        self._intervals()
        self._holes()
        self._sets()
        tokens = self._tokens()
        return lanes, self._merged(tokens)

    def _choose_members(self) -> None:
        """Members of a kind that the column has; without any, the conjunction is dead."""
        clauses = self.clauses
        offered = np.zeros((len(self.columns) + 1, len(KINDS)), np.bool_)  # the last row: no column
        for lane, some in enumerate(self.slots):
            offered[lane, [KINDS.index(KIND[slot.domain]) for slot in some]] = True
        rows = clauses.member_rows
        chosen = offered[self.lanes[rows], clauses.kinds]
        self.member_rows, self.kinds, self.values = rows[chosen], clauses.kinds[chosen], clauses.values[chosen]
        self.counts = np.bincount(self.member_rows, minlength=len(clauses.ops))
        self.firsts = np.cumsum(self.counts) - self.counts
        never = (self.counts == 0) & ~np.isin(clauses.ops, (Op.NULL, Op.NOT_NULL))
        never |= (self.lanes < 0) & (clauses.ops == Op.NOT_NULL)
        self.dead[clauses.conjunctions[never]] = True
        self.alive = ~self.dead[clauses.conjunctions]

    def _lay_out(self) -> Lanes:
        """Number the cuts of each lane, kind by kind; `at` and `above` become the first code past each member's cut."""
        ranks = np.zeros(len(self.kinds), np.int64)
        text = self.kinds == STRING
        if text.any():
            ranks[text] = text_ranks(self.clauses)[self.values[text]]
        if not text.all():
            ranks[~text] = self.clauses.numbers.ranks()[self.values[~text]]
        ops = self.clauses.ops[self.member_rows]
        live = self.alive[self.member_rows]
        segment_of = self.lanes[self.member_rows].astype(np.int64) * len(KINDS) + self.kinds
        width = 2 * (int(ranks.max(initial=0)) + 1)
        keys = segment_of * width + 2 * ranks
        cuts = np.unique(np.concatenate([keys[live & _AT[ops]], keys[live & _ABOVE[ops]] + 1]))
        self.segments = np.unique(segment_of[live])
        self.starts = np.searchsorted(cuts, self.segments * width)
        starts = np.append(self.starts, len(cuts))
        lanes = self.segments // len(KINDS)
        ordinal = np.arange(len(lanes)) - np.searchsorted(lanes, lanes)
        lane_start = starts[np.searchsorted(lanes, lanes)] if len(lanes) else starts[:0]
        self.bases = self.starts - lane_start + ordinal
        self.last = self.bases + np.diff(starts)  # the last code of each segment
        shift = np.repeat(self.bases - self.starts, np.diff(starts))
        codes = np.arange(len(cuts)) + shift + 1
        self.segment = np.searchsorted(self.segments, segment_of)
        self.at = _look_up(cuts, codes, keys)
        self.above = _look_up(cuts, codes, keys + 1)
        self.tops = np.zeros(len(self.columns), np.int64)
        np.maximum.at(self.tops, lanes, self.last + 1)
        return Lanes(
            self.columns, self.slots, self.segments, self.bases, starts, cuts % width // 2, cuts % 2 == 1, self.tops
        )  # fmt: skip

    def _intervals(self) -> None:
        """The predicates that are one interval of codes."""
        ops, live = self.clauses.ops, self.alive
        single = live & (self.counts > 0)
        for op, low, high in (
            (Op.LESS, self.bases, self.at),
            (Op.AT_MOST, self.bases, self.above),
            (Op.AT_LEAST, self.at, self.last),
            (Op.MORE, self.above, self.last),
            (Op.TEXT, self.bases, self.last),
        ):
            rows = np.flatnonzero(single & (ops == op))
            members = self.firsts[rows]
            segment = self.segment[members]
            first = low[segment] if low is self.bases else low[members]
            last = high[segment] if high is self.last else high[members] - 1
            self._emit(rows, Test.INTERVAL, first, last)
        rows = np.flatnonzero(single & (ops == Op.IN) & (self.counts == 1))
        self._emit(rows, Test.INTERVAL, self.at[self.firsts[rows]], self.above[self.firsts[rows]] - 1)
        rows = np.flatnonzero(single & (ops == Op.PREFIX))
        self._emit(rows, Test.INTERVAL, self.at[self.firsts[rows]], self.at[self.firsts[rows] + 1] - 1)
        here = live & (self.lanes >= 0)
        rows = np.flatnonzero(here & (ops == Op.NULL))
        self._emit(rows, Test.INTERVAL, np.full(len(rows), -1), np.full(len(rows), -1))
        rows = np.flatnonzero(here & (ops == Op.NOT_NULL))
        self._emit(rows, Test.INTERVAL, np.zeros(len(rows), np.int64), self.tops[self.lanes[rows]])

    def _holes(self) -> None:
        """The predicates that leave one interval out; those of a null, and of other kinds, fail by another test."""
        ops, live = self.clauses.ops, self.alive
        one = live & (ops == Op.NOT_IN) & (self.counts == 1)
        for rows, high, places in (
            (np.flatnonzero(one), self.above, 0),
            (np.flatnonzero(live & (ops == Op.NOT_PREFIX) & (self.counts > 0)), self.at, 1),
        ):
            firsts = self.firsts[rows]
            segment = self.segment[firsts]
            self._emit(rows, HOLE, high[firsts + places], self.at[firsts] - 1)
            self._emit(rows, Test.INTERVAL, self.bases[segment], self.last[segment])

    def _sets(self) -> None:
        """The predicates that are several intervals, IN and NOT IN, as ascending bounds."""
        ops, live = self.clauses.ops, self.alive & (self.counts > 1)
        several, outside = live & (ops == Op.IN), live & (ops == Op.NOT_IN)
        rows = np.flatnonzero(several | outside)
        if not len(rows):
            return
        members = np.flatnonzero((several | outside)[self.member_rows])
        owner, without = self.member_rows[members], rows[outside[rows]]
        segment = self.segment[self.firsts[without]]
        edges = [self.at[members], self.above[members], self.bases[segment], self.last[segment] + 1]
        owners = [owner, owner, without, without]
        keys = np.unique(np.concatenate(owners).astype(np.int64) << 32 | np.concatenate(edges))
        self.bounds = (keys & 0xFFFF_FFFF).astype(np.int32)
        places = np.searchsorted(keys, np.append(rows, len(ops)).astype(np.int64) << 32)
        self._emit(rows, Test.SET, places[:-1], places[1:])

    def _tokens(self) -> NDArray[np.int64]:
        """Suffixes, substrings and LIKE patterns: the distinct ones, numbered; a negated one needs a string too."""
        ops = self.clauses.ops
        rows = np.flatnonzero(self.alive & np.isin(ops, _TOKENS) & (self.counts > 0))
        members = self.firsts[rows]
        negated = ops[rows] & 1
        what = np.stack([self.lanes[rows], ops[rows] - negated, self.values[members]], axis=1).astype(np.int64)
        tokens, numbers = np.unique(what, axis=0, return_inverse=True)
        tests = np.where(negated, Test.LACKS, Test.HOLDS)
        self._emit(rows, tests, numbers.ravel(), np.zeros(len(rows), np.int64))
        lacking = rows[negated == 1]
        segment = self.segment[self.firsts[lacking]]
        self._emit(lacking, Test.INTERVAL, self.bases[segment], self.last[segment])
        return tokens.reshape(-1, 3)

    def _emit(self, rows: NDArray[Any], test: Any, a: NDArray[Any], b: NDArray[Any]) -> None:
        tests = np.broadcast_to(np.asarray(test, np.int8), len(rows))
        conjunctions = self.clauses.conjunctions[rows]
        self.rows.append((conjunctions, self.lanes[rows], tests, a.astype(np.int32), b.astype(np.int32)))

    def _merged(self, tokens: NDArray[np.int64]) -> Predicates:
        """Intervals of one conjunction on one lane become one; all tests in order of conjunction and lane."""
        conjunctions, lanes, tests, a, b = (np.concatenate(some) for some in zip(*self.rows, strict=True))
        order = np.lexsort((lanes, tests, conjunctions))
        conjunctions, lanes, tests, a, b = (some[order] for some in (conjunctions, lanes, tests, a, b))
        if len(order):
            first = np.ones(len(order), np.bool_)
            same = (conjunctions[1:] == conjunctions[:-1]) & (lanes[1:] == lanes[:-1])
            first[1:] = ~same | (tests[1:] != Test.INTERVAL)
            starts = np.flatnonzero(first)
            low, high = np.maximum.reduceat(a, starts), np.minimum.reduceat(b, starts)
            interval = tests[starts] == Test.INTERVAL
            a, b = np.where(interval, low, a[starts]), np.where(interval, high, b[starts])
            conjunctions, lanes, tests = conjunctions[starts], lanes[starts], tests[starts]
            self.dead[conjunctions[interval & (a > b)]] = True
        live = ~self.dead[conjunctions]
        left = (some[live] for some in (conjunctions, lanes, tests, a, b))
        return Predicates(*left, self.bounds, self.dead, tokens)  # type: ignore[call-arg]


def _look_up(cuts: NDArray[Any], codes: NDArray[Any], keys: NDArray[Any]) -> NDArray[np.int64]:
    """The code of each key; arbitrary where the key is no cut."""
    if not len(cuts):
        return np.zeros(len(keys), np.int64)
    found: NDArray[np.int64] = codes[np.minimum(np.searchsorted(cuts, keys), len(cuts) - 1)]
    return found


def text_ranks(clauses: Clauses) -> NDArray[np.int64]:
    """The place of each text in the order of bytes, which is that of code points; equal ones share it."""
    texts = clauses.texts
    starts, data = pa.py_buffer(texts.starts), pa.py_buffer(texts.data)
    array = pa.Array.from_buffers(pa.large_binary(), len(texts.starts) - 1, [None, starts, data])
    ranks: NDArray[np.int64] = pc.rank(array, tiebreaker="dense").to_numpy().astype(np.int64) - 1
    return ranks


def by_rank(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each rank one that has it.

    >>> by_rank(np.array([1, 0, 1]))
    array([1, 2])
    """
    found = np.zeros(int(ranks.max(initial=-1)) + 1, np.int64)
    found[ranks] = np.arange(len(ranks))
    return found
