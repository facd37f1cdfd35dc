"""The table `rejections` shows what is wrong with the control tables now: no more, no less, and since when.

Law: after `report(problems)` the table holds exactly these problems. It is rewritten only when they have changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from routing.model import Problem
from routing.tables import Tables
from schemas import REJECTIONS


class Rejections:
    """The writer of the table; it remembers what it has written."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._written: dict[Problem, datetime] | None = None

    def report(self, problems: Iterable[Problem], clock: datetime) -> None:
        """Make the table hold these problems, each with the clock at which it was first noticed."""
        if self._written is None:
            self._written = self._read()
        now = {problem: self._written.get(problem, clock) for problem in problems}
        if now == self._written:
            return
        rows = [(p.severity, p.table, p.owner, p.id, p.text, p.position, p.reason, since) for p, since in now.items()]
        self._tables.overwrite("rejections", self._tables.spark.createDataFrame(rows, REJECTIONS.columns).coalesce(1))
        self._written = now

    def _read(self) -> dict[Problem, datetime]:
        rows = self._tables.read("rejections").toArrow().to_pylist() if self._tables.version("rejections") else []
        return {
            Problem(r["severity"], r["table_name"], r["owner"], r["id"], r["text"], r["reason"], r["position"]): r[
                "noticed_at"
            ].astimezone(UTC)
            for r in rows
        }
