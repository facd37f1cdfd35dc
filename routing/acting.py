"""Who may subscribe on whose behalf: grants of `act_for` on a consumer.

Law: a consumer whom no such grant names is open to all. Otherwise whoever wrote a subscription (`created_by`) must be
allowed, by the same rules as on scopes, or be the consumer itself and not forbidden. A row that is refused matches
nothing and is a problem to report. It is a function of the tables' versions; calls look at the tables as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count

from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from routing.errors import SubscriptionError
from routing.model import EFFECTIVE_ID_SQL, Problem
from routing.scopes.control import rows
from routing.scopes.security import Grants, grants
from routing.tables import Tables
from schemas.control import CONSUMER, CREATED_BY, FILTER, ID

ACT_FOR = "act_for"
_TABLES = ("subscriptions", "grants", "components")
_numbers = count(1)


@dataclass(frozen=True, eq=False)
class Refused:
    """Subscriptions that do not count, by consumer and id; equal sets have equal numbers, as long as they are kept."""

    number: int
    keys: frozenset[tuple[str, str]]
    problems: tuple[Problem, ...]


NOBODY = Refused(0, frozenset(), ())


class Acting:
    """The grants of `act_for`, at the versions that a batch has pinned."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._last: tuple[tuple[int, ...], Refused] = ((), NOBODY)

    def refused(self, versions: Mapping[str, int]) -> Refused:
        """The subscriptions whose writer may not act for their consumer."""
        key = tuple(versions[table] for table in _TABLES)
        if self._last[0] != key:
            self._last = key, self._read(dict(zip(_TABLES, key, strict=True))) if versions["grants"] else NOBODY
        return self._last[1]

    def _read(self, versions: Mapping[str, int]) -> Refused:
        granted = granted_at(self._tables, versions["grants"], versions["components"])
        guarded = guarded_by(granted)
        if not guarded:
            return NOBODY
        names = self._tables.spark.createDataFrame(
            [(name,) for name in sorted(guarded)], StructType([StructField(CONSUMER, StringType())])
        )
        age = F.struct("_metadata.row_commit_version", "_metadata.row_id").alias("age")
        id, table = F.expr(EFFECTIVE_ID_SQL).alias(ID), self._tables.read("subscriptions", versions["subscriptions"])
        mine = table.select(CONSUMER, id, CREATED_BY, FILTER, age).join(F.broadcast(names), CONSUMER)
        found = mine.groupBy(CONSUMER, ID).agg(F.max_by(F.struct(CREATED_BY, FILTER), "age").alias("newest"))
        problems = [
            Problem(
                "error", "subscriptions", row[CONSUMER], row[ID], row[FILTER], complaint(row[CREATED_BY], row[CONSUMER])
            )
            for row in found.select(CONSUMER, ID, "newest.*").collect()
            if not may_act(granted, row[CREATED_BY], row[CONSUMER])
        ]
        keys = frozenset((problem.owner, problem.id) for problem in problems)
        return Refused(next(_numbers), keys, tuple(problems)) if problems else NOBODY


def check_acting(tables: Tables, consumers: Iterable[str]) -> None:
    """Refuse a call of somebody who may not act for one of the consumers."""
    if not tables.version("grants"):
        return
    granted = granted_at(tables, None, None)
    mine = guarded_by(granted) & set(consumers)
    if mine:
        user = tables.spark.range(1).select(F.session_user()).first()
        me = str(user[0]) if user else ""
        for consumer in sorted(mine):
            if not may_act(granted, me, consumer):
                raise SubscriptionError(complaint(me, consumer))


def granted_at(tables: Tables, version: int | None, components: int | None) -> Grants:
    """All grants, with the groups of components."""
    return grants(rows(tables, "grants", version), rows(tables, "components", components))


def guarded_by(granted: Grants) -> frozenset[str]:
    """The consumers for whom not everybody may act."""
    return frozenset(of for action, of in granted.verdicts if action == ACT_FOR)


def may_act(granted: Grants, user: str | None, consumer: str) -> bool:
    """Whether the user may subscribe for the consumer.

    >>> from routing.scopes.security import grants
    >>> desk = grants([{"principal": "ann", "action": "act_for", "object": "desk"}], [])
    >>> [may_act(desk, who, whom) for who, whom in [("ann", "desk"), ("bob", "desk"), ("desk", "desk"), ("bob", "x")]]
    [True, False, True, True]
    """
    if not granted.guards(ACT_FOR, consumer):
        return True
    decision = granted.decision(user or "", ACT_FOR, consumer)
    return decision is True or (decision is None and user == consumer)


def complaint(user: str | None, consumer: str) -> str:
    """What is said of a subscription that is refused."""
    return f"{user or 'somebody unknown'} may not subscribe for {consumer}: grants of act_for say who may"
