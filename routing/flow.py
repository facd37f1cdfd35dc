"""Stage two: the versions of each event, by rounds of crossings.

Law: a round takes versions over the boundaries that they reach: the kernel finds which filters let them pass, the
driver which trails they are on then, and mappings, as columns, what they have become. What was collected in between are
pairs of a trail and a crossing, never events. It ends when nothing moves on; a boundary that nobody crosses costs
nothing.

    versions ──kernel──▶ crossings ──driver──▶ trails ──columns──▶ contents ──first of each group──▶ versions
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from hashlib import md5
from math import ceil
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from routing.delay import ASCENDED, CONTENT, CROSSED, SCOPE, VALUE, Due, holding
from routing.identify import source_columns
from routing.matching.match import arrow_schema, packed
from routing.memory import REMEMBERING, TAKEN, judged
from routing.scopes.boundaries import Crossing
from routing.scopes.content import FAILURE, Contents
from routing.scopes.control import Scopes
from routing.scopes.layout import OVERLAY
from routing.scopes.policy import Publishing
from routing.scopes.trails import Way, Ways
from routing.snapshot import Snapshot
from routing.sources import COLUMNS
from schemas.delivery import DETAIL, EVENT, EVENT_ID, PUBLISHED_AT, PUBLISHER, RANK, REASON
from udfs.chart import Trail

TRAIL, JUDGED, CROSSING = "trail", "judged", "crossing"
OWN, TOUCHED = "own", "touched"
_NEXT, _GROUP, _ORDER = "next", "group", "order"
WAYS = 100_000
"""Ways that the events of one batch may go: layers of scopes could double them with every layer."""
_PARTS = [RANK, EVENT_ID, PUBLISHER, PUBLISHED_AT, COLUMNS, EVENT]


@dataclass
class Versions:
    """The events where they were published, and the versions that crossed something, in one layout.

    `ways` are the trails of those that crossed; `dead` is what did not get through, and why; `beyond` the contents that
    were too many; `remembered` what policies remember, and `held` what they hold back.
    """

    originals: DataFrame
    moved: DataFrame | None = None
    contents: Contents | None = None
    ways: list[Way] = field(default_factory=list)
    dead: list[DataFrame] = field(default_factory=list)
    beyond: list[DataFrame] = field(default_factory=list)
    remembered: list[DataFrame] = field(default_factory=list)
    held: list[DataFrame] = field(default_factory=list)

    def of(self, ranks: DataFrame) -> Versions:
        """Those of some events."""
        moved = None if self.moved is None else self.moved.join(ranks, RANK, "left_semi")
        return replace(self, originals=self.originals.join(ranks, RANK, "left_semi"), moved=moved)

    @property
    def letters(self) -> DataFrame | None:
        """What did not get through: once for each event and reason, however many ways led there."""
        if not self.dead:
            return None
        return reduce(DataFrame.unionByName, self.dead).dropDuplicates([RANK, REASON, DETAIL])


def flow(events: DataFrame, snapshot: Snapshot) -> Versions:
    """Reads publisher, columns, rank. Gives the versions; the originals get trail, own."""
    if snapshot.scopes is None:
        return Versions(events)
    placed = _placed(events, snapshot.scopes)
    versions = Versions(placed)
    versions.dead += _refused(placed, snapshot.scopes)
    if snapshot.scopes.rising or snapshot.due:
        _Rounds(snapshot, versions).run(placed)
    return versions


def nobody_judged() -> Column:
    """No scope has chosen yet. One that does adds its number, and what tells the flow from others, joined by bars."""
    return F.array().cast(ArrayType(StringType()))


def _placed(events: DataFrame, scopes: Scopes) -> DataFrame:
    """Join the events along their publishers: where each begins."""
    starts = scopes.starts
    if not len(starts.names):
        placed = events.withColumn(TRAIL, F.lit(starts.other))
    else:
        rows = events.sparkSession.createDataFrame(
            pa.table({PUBLISHER: starts.names, TRAIL: pa.array(starts.numbers, pa.int32())})
        )
        joined = events.join(F.broadcast(rows), PUBLISHER, "left")
        placed = joined.withColumn(TRAIL, F.coalesce(TRAIL, F.lit(starts.other)))
    return placed.withColumn(OWN, _among(TRAIL, scopes.owned))


def _refused(placed: DataFrame, scopes: Scopes) -> list[DataFrame]:
    """The events whose publisher may publish in none of its scopes."""
    nobody = [number for number, party in enumerate(scopes.starts.parties) if party.barred]
    if not nobody:
        return []
    detail = F.concat(F.col(PUBLISHER), F.lit(" may publish in none of the scopes that it is in"))
    return [placed.where(_among(TRAIL, nobody)).select(*_dead("refused", detail))]


def _dead(reason: str, detail: Column) -> list[Column]:
    parts = [F.col(name) for name in (RANK, EVENT_ID, PUBLISHER, PUBLISHED_AT, COLUMNS)]
    return [*parts, F.lit(reason).alias(REASON), detail.alias(DETAIL)]


def _among(name: str, numbers: Iterable[int]) -> Column:
    some = list(numbers)
    return F.col(name).isin(*some) if some else F.lit(False)


class _Rounds:
    """The rounds of one batch."""

    def __init__(self, snapshot: Snapshot, versions: Versions) -> None:
        assert snapshot.scopes is not None
        self.snapshot, self.scopes, self.versions = snapshot, snapshot.scopes, versions
        self.ways = Ways(self.scopes.ways.boundaries, _subscribing(snapshot))
        self.numbers: dict[Way, int] = {}
        self.starts: dict[int, frozenset[int]] = {}
        """Where what is on each way may have begun."""
        self.waiting: list[Waiting] = []
        self.rounds: list[tuple[DataFrame, Contents]] = []
        self.crossings = list(self.scopes.crossings)

    def run(self, placed: DataFrame) -> None:
        """All rounds; then what moved, in one layout."""
        rows = placed.where(_among(TRAIL, self.scopes.rising)).select(
            *_PARTS, TRAIL, F.lit("").alias(CONTENT), nobody_judged().alias(JUDGED), F.lit("").alias(TAKEN)
        )
        fronts = [Front(rows, Contents(self.snapshot.schema, source_columns(self.snapshot.source)), first=True)]
        if self.snapshot.due:
            fronts += self._released(self.snapshot.due)
        while fronts or self.waiting:
            if fronts:
                front = fronts.pop()
                crossed = self._crossed(front)
                moves = self._moves(crossed, front.first)
                judged = [move for move in moves if move.kind in REMEMBERING]
                if judged:
                    self.waiting.append(Waiting(crossed, front.contents, judged))
                self._hold(crossed, front.contents, [move for move in moves if move.kind == "delay"])
                going = [move for move in moves if move.kind not in (*REMEMBERING, "delay")]
                fronts += self._onwards(crossed, front.contents, going)
            else:
                fronts += self._let_out()
        self._finish()

    def _onwards(
        self, crossed: DataFrame, contents: Contents, moves: list[Move], passed: DataFrame | None = None
    ) -> list[Front]:
        """Make the moves; what may cross more is a new front."""
        if not moves:
            return []
        moved, contents = self._moved(crossed, contents, moves, passed)
        self.rounds.append((moved, contents))
        rising = {move.next for move in moves if move.rises}
        return [Front(moved.where(_among(TRAIL, rising)), contents)] if rising else []

    def _let_out(self) -> list[Front]:
        """Let scopes that remember judge, once nothing below them is on its way; what passes goes on."""
        held = {move.crossing.edge.child: move.crossing.policy for one in self.waiting for move in one.moves}
        blocked = {scope for inner in held for scope in self.scopes.above(inner)}
        ready = {scope: policy for scope, policy in held.items() if scope not in blocked}
        leaving = [one.leaving(ready) for one in self.waiting]
        passed, remembered = judged(reduce(DataFrame.unionByName, leaving), ready, self.snapshot)
        self.versions.remembered.append(remembered)
        fronts = []
        for one in self.waiting:
            going = [move for move in one.moves if move.crossing.edge.child in ready]
            one.moves = [move for move in one.moves if move.crossing.edge.child not in ready]
            fronts += self._onwards(one.crossed, one.contents, going, passed)
        self.waiting = [one for one in self.waiting if one.moves]
        return fronts

    def _crossed(self, front: Front) -> DataFrame:
        """Each version once for every crossing that lets it pass."""
        names, contents = self.scopes.filtered, front.contents
        changed = {*self.scopes.mapped, *contents.over}
        found = contents.fields(names, frozenset() if front.first else contents.touched(names, changed))
        cross = self.snapshot.crosser(arrow_schema(found), None if front.first else self.numbers)
        # Cut loose from its plan, which would grow with every round.
        return front.rows.select("*", F.explode(cross(packed(found), F.col(TRAIL))).alias(CROSSING)).localCheckpoint()

    def _moves(self, crossed: DataFrame, first: bool) -> list[Move]:
        """Where each pair of a trail and a crossing leads to, of those that occur."""
        pairs = crossed.select(TRAIL, CROSSING).distinct().collect()
        known, found = self.scopes.begin if first else list(self.numbers), list[Move]()
        wanted = sorted((row[TRAIL], row[CROSSING]) for row in pairs)
        room = max(0, WAYS - len(self.numbers))
        for trail, number in wanted[:room]:
            begun = frozenset({trail}) if first else self.starts[trail]
            found += self._move(trail, number, known[trail], begun)
        if wanted[room:]:
            table = F.broadcast(crossed.sparkSession.createDataFrame(wanted[room:], _PAIRS))
            detail = F.lit(f"the events of this batch have gone {WAYS} ways already; they are not followed further")
            lost = crossed.join(table, [TRAIL, CROSSING], "left_semi")
            self.versions.dead.append(lost.select(*_dead("versions", detail)))
        return found

    def _move(self, trail: int, number: int, before: Way, begun: frozenset[int]) -> list[Move]:
        """Where a crossing leads to; nowhere, if it is refused."""
        crossing = self.crossings[number]
        way = self.ways.moved(before, crossing)
        if way is None:
            return []
        beyond = self.numbers.setdefault(way, len(self.numbers))
        self.starts[beyond] = self.starts.get(beyond, frozenset()) | begun
        return [Move(trail, number, before, crossing, way, beyond, self.scopes.reaches(way))]

    def _hold(self, crossed: DataFrame, contents: Contents, moves: list[Move]) -> None:
        """Hold back what would leave scopes that delay: once, however many superscopes they have."""
        first: dict[tuple[int, str], Move] = {}
        for move in moves:
            first.setdefault((move.trail, move.crossing.edge.child), move)
        if first:
            clock = self.snapshot.opening.clock
            table = [
                (move.trail, move.number, scope, clock + move.crossing.policy.interval, *_been(move.before))
                for (_, scope), move in first.items()
            ]
            rows = crossed.join(F.broadcast(crossed.sparkSession.createDataFrame(table, _HELD)), [TRAIL, CROSSING])
            self.versions.held.append(holding(rows, contents))

    def _released(self, due: Due) -> list[Front]:
        """Take what was held over all edges upwards from the scope that held it, which has judged it already."""
        placed, graph = _placed(due.rows, self.scopes), self.scopes.graph
        table, moves, numbers = [], list[Move](), dict[str, list[int]]()
        for row in placed.select(SCOPE, ASCENDED, CROSSED, TRAIL).distinct().collect():
            scope, ascended, crossed, start = row
            if scope not in graph.scopes or scope in graph.closed:
                continue
            if scope not in numbers:
                ups = [replace(self.ways.boundaries.up(edge), policy=_RELEASED) for edge in graph.up(scope)]
                numbers[scope] = [len(self.crossings) + place for place in range(len(ups))]
                self.crossings += ups
            way = Way(
                Trail(frozenset({f"^{scope}"}), frozenset()),
                self.scopes.begin[start].refused,
                frozenset((child, parent) for child, parent in ascended),
                tuple((child, parent, direction) for child, parent, direction in crossed),
            )
            trail = self.numbers.setdefault(way, len(self.numbers))
            for number in numbers[scope]:
                moves += self._move(trail, number, way, frozenset({_HELD_BACK}))
                table.append((scope, ascended, crossed, start, trail, number))
        if not moves:
            return []
        names = F.broadcast(placed.sparkSession.createDataFrame(table, _LEFT)).withColumnRenamed("start", TRAIL)
        rows = placed.drop(OWN).join(names, [SCOPE, ASCENDED, CROSSED, TRAIL]).drop(TRAIL, SCOPE, ASCENDED, CROSSED)
        rows = rows.withColumnRenamed("to", TRAIL).withColumn(JUDGED, nobody_judged())
        return self._onwards(rows.localCheckpoint(), due.contents, moves)

    def _moved(
        self, crossed: DataFrame, contents: Contents, moves: list[Move], passed: DataFrame | None
    ) -> tuple[DataFrame, Contents]:
        """The versions beyond their crossings: the first of each group."""
        table, unique = _table(moves, self.scopes)
        rows = crossed.drop(TAKEN).join(
            F.broadcast(crossed.sparkSession.createDataFrame(table, _MOVES)), [TRAIL, CROSSING]
        )
        rows = rows.where(_sampled()) if passed is None else rows.join(passed, [SCOPE, RANK, CONTENT], "left_semi")
        rows, contents = self._through(rows, contents, {move.number: move.crossing for move in moves})
        flow = F.concat_ws("|", "judge", CONTENT, "flow")
        chosen = F.when(F.col("judge").isNotNull(), F.array_append(JUDGED, flow)).otherwise(F.col(JUDGED))
        beyond = rows.select(
            *_PARTS,
            *([OVERLAY] if contents.over else []),
            F.col(_NEXT).alias(TRAIL),
            contents.key().alias(CONTENT),
            chosen.alias(JUDGED),
            TAKEN,
            _GROUP,
            _ORDER,
        )
        if self._may_be_many():
            beyond = self._limited(beyond)
        if not unique:
            same = Window.partitionBy(RANK, CONTENT, _GROUP, JUDGED).orderBy(_ORDER)
            beyond = beyond.withColumn("first", F.row_number().over(same)).where("first = 1").drop("first")
        return beyond.drop(_GROUP, _ORDER), contents

    def _may_be_many(self) -> bool:
        """Whether an event may have more versions than are allowed: a content is a function of the way."""
        ways = Counter(start for starts in self.starts.values() for start in starts)
        if ways[_HELD_BACK] and self.snapshot.due:
            ways[_HELD_BACK] += self.snapshot.due.most
        return max(ways.values()) + 1 > self.snapshot.config.scopes.versions

    def _limited(self, beyond: DataFrame) -> DataFrame:
        """Without the contents that are too many for one event; those of earlier rounds come first."""
        most, due = self.snapshot.config.scopes.versions, self.snapshot.due
        known = [rows.select(RANK, CONTENT, F.lit(0).alias("new"), TAKEN) for rows, _ in self.rounds]
        if due:
            before = due.known.select(RANK, CONTENT, F.lit(0).alias("new"), F.lit("").alias(TAKEN), "kept")
            known.append(before.where("kept").drop("kept"))
            beyond = beyond.join(before.where("NOT kept"), [RANK, CONTENT], "left_anti")
        original = beyond.select(RANK, F.lit("").alias(CONTENT), F.lit(0).alias("new"), F.lit("").alias(TAKEN))
        every = reduce(
            DataFrame.unionByName, [original, *known, beyond.select(RANK, CONTENT, F.lit(1).alias("new"), TAKEN)]
        )
        first = every.groupBy(RANK, CONTENT).agg(F.min(F.struct("new", TAKEN)).alias("first"))
        place = F.row_number().over(Window.partitionBy(RANK).orderBy("first"))
        beyond = beyond.join(
            first.select(RANK, CONTENT, (place <= most).alias("kept")), [RANK, CONTENT]
        ).localCheckpoint()
        detail = F.concat(F.lit(f"the event has {most} versions already, without the version "), F.col(CONTENT))
        over = beyond.where(~F.col("kept"))
        self.versions.dead.append(over.select(*_dead("versions", detail)))
        self.versions.beyond.append(over.select(RANK, CONTENT))
        return beyond.where("kept").drop("kept")

    def _through(
        self, rows: DataFrame, contents: Contents, crossings: Mapping[int, Crossing]
    ) -> tuple[DataFrame, Contents]:
        """Through what the kernel has not judged: mappings, and filters behind a mapping."""
        for step in (0, 1):
            gates = {number: crossing.steps[step] for number, crossing in crossings.items()}
            filters = {number: gate.filter for number, gate in gates.items() if gate.filter is not None}
            mappings = {number: gate.mapping for number, gate in gates.items() if gate.mapping is not None}
            if filters:
                rows = rows.where(contents.passing(filters, CROSSING))
            if mappings:
                rows, contents = contents.applied(rows, mappings, CROSSING)
                rows = rows.localCheckpoint()  # else Spark computes every mapping again wherever its result is used
                failed = rows.where(F.col(FAILURE).isNotNull())
                if not failed.isEmpty():
                    detail = F.concat_ws(": ", F.col("gates")[step], F.col(FAILURE))
                    self.versions.dead.append(failed.select(*_dead("mapping", detail)))
                    rows = rows.where(F.col(FAILURE).isNull())
                rows = rows.drop(FAILURE)
        return rows, contents

    def _finish(self) -> None:
        if not self.rounds:
            return
        layout = self.rounds[0][1]
        for _, contents in self.rounds[1:]:
            layout = layout.union(contents)
        moved = reduce(DataFrame.unionByName, (contents.widened(rows, layout) for rows, contents in self.rounds))
        payload = F.when(F.col(TOUCHED), layout.variant()).otherwise(F.col(EVENT))
        moved = moved.withColumn(TOUCHED, layout.touched_in()).withColumn(EVENT, payload)
        # With something held back the versions are matched to know who has got what, and then once more.
        again = self.versions.held or self.snapshot.due
        self.versions.moved = moved.localCheckpoint() if again else moved
        self.versions.contents, self.versions.ways = layout, list(self.numbers)


@dataclass(frozen=True, eq=False)
class Front:
    """Versions that may cross something; at first, the events where they were published."""

    rows: DataFrame
    contents: Contents
    first: bool = False


@dataclass(eq=False)
class Waiting:
    """Versions that would leave scopes which remember."""

    crossed: DataFrame
    contents: Contents
    moves: list[Move]

    def leaving(self, ready: Mapping[str, Publishing]) -> DataFrame:
        """Scope, rank, content, taken and value of those that would leave these scopes."""
        mine = [(move.trail, move.number, move.crossing.edge.child) for move in self.moves]
        pairs = [row for row in mine if row[2] in ready]
        table = self.crossed.sparkSession.createDataFrame(pairs, _LEAVING)
        value = F.lit(None).cast(StringType())
        throttled = {policy.attribute for policy in ready.values() if policy.kind == "throttle"}
        for attribute in sorted(throttled):
            scopes = [scope for scope, policy in ready.items() if policy.attribute == attribute]
            text = F.coalesce(self.contents.text(attribute), F.lit(""))
            value = F.when(F.col(SCOPE).isin(scopes), text).otherwise(value)
        rows = self.crossed.join(F.broadcast(table), [TRAIL, CROSSING])
        return rows.select(SCOPE, RANK, CONTENT, TAKEN, value.alias(VALUE))


@dataclass(frozen=True, eq=False)
class Move:
    """A crossing from a trail, and the trail beyond."""

    trail: int
    number: int
    before: Way
    crossing: Crossing
    way: Way
    next: int
    rises: bool

    @property
    def kind(self) -> str:
        """How the scope that it leaves judges it."""
        return self.crossing.policy.kind


_RELEASED = Publishing("released")
_HELD_BACK = -1  # where what was held back has begun, among the numbers of publishers' parties

_STEPS = ArrayType(ArrayType(StringType()))
_HELD = StructType(
    [
        StructField(TRAIL, IntegerType()),
        StructField(CROSSING, IntegerType()),
        StructField(SCOPE, StringType()),
        StructField("due", TimestampType()),
        StructField(ASCENDED, _STEPS),
        StructField(CROSSED, _STEPS),
    ]
)
_LEFT = StructType(
    [
        StructField(SCOPE, StringType()),
        StructField(ASCENDED, _STEPS),
        StructField(CROSSED, _STEPS),
        StructField("start", IntegerType()),
        StructField("to", IntegerType()),
        StructField(CROSSING, IntegerType()),
    ]
)
_PAIRS = StructType([StructField(TRAIL, IntegerType()), StructField(CROSSING, IntegerType())])
_LEAVING = StructType([*_PAIRS, StructField(SCOPE, StringType())])

_MOVES = StructType(
    [
        StructField(TRAIL, IntegerType()),
        StructField(CROSSING, IntegerType()),
        StructField(_NEXT, IntegerType()),
        StructField(_GROUP, IntegerType()),
        StructField(_ORDER, IntegerType()),
        StructField(TAKEN, StringType()),
        StructField("judge", IntegerType()),
        StructField("flow", StringType()),
        StructField("gates", ArrayType(StringType())),
        StructField(SCOPE, StringType()),
        StructField("below", LongType()),
    ]
)


def _table(moves: list[Move], scopes: Scopes) -> tuple[list[tuple[Any, ...]], bool]:
    """The moves as rows, and whether each leads to a group of its own."""
    groups: dict[object, int] = {}
    orders = {order: place for place, order in enumerate(sorted({move.way.order for move in moves}))}  # type: ignore[type-var]
    rows = []
    for move in moves:
        crossing, policy = move.crossing, move.crossing.policy
        samples = policy.kind == "sample"
        rows.append(
            (
                move.trail,
                move.number,
                move.next,
                groups.setdefault(move.way.group, len(groups)),
                orders[move.way.order],
                _taken(move.way),
                None if crossing.judge is None else scopes.numbers[crossing.judge],
                md5(repr(move.before.flow).encode()).hexdigest() if crossing.judge else None,
                list(crossing.names),
                crossing.edge.child,
                ceil(policy.share * 16**13) if samples else None,
            )
        )
    return rows, len(groups) == len(moves)


def _been(way: Way) -> tuple[list[list[str]], list[list[str]]]:
    """The boundaries that a way has ascended, and all that it crossed."""
    return [list(key) for key in sorted(way.ascended)], [list(step) for step in way.crossed]


def _taken(way: Way) -> str:
    """The order in which versions are taken, as a text that sorts so."""
    return "\0".join([f"{len(way.crossed):04d}", *(part for step in way.crossed for part in step)])


def _subscribing(snapshot: Snapshot) -> frozenset[str]:
    """The scopes that subscribe by their own names."""
    assert snapshot.scopes is not None
    return frozenset(scope for scope in snapshot.scopes.graph.scopes if snapshot.active.has_consumer(scope))


def _sampled() -> Column:
    """Whether a scope that samples lets the event out."""
    text = F.concat_ws("\0", F.lit("sample"), F.col(SCOPE), F.col(PUBLISHER), F.col(EVENT_ID))
    share = F.conv(F.substring(F.md5(text), 1, 13), 16, 10).cast(LongType())
    return F.col("below").isNull() | (share < F.col("below"))
