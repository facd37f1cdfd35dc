"""The control tables as a batch sees them: one pinned version of each, parsed and compiled.

Law: a snapshot is a function of the opening. Control tables are read again only when their version has changed, a
text is parsed once, and a program is compiled once for each set of active subscriptions and each schema of
attributes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from routing.config import Config, Source
from routing.errors import FilterError, nearest
from routing.filters import Filter, attributes, parse
from routing.matching import compile_program
from routing.model import UNUSABLE_NAMES, Opening, Problem, Subscription, effective_id
from routing.tables import Tables
from schemas.control import CONSUMER, EXPIRES_AT, FILTER, ID
from udfs.program import Program


@dataclass(frozen=True, eq=False)
class Active:
    """The subscriptions that count in a batch, sorted by consumer and id; equal keys mean equal sets."""

    key: tuple[int, int]
    subscriptions: tuple[Subscription, ...]


@dataclass(frozen=True)
class Snapshot:
    """What the stages of one batch may look at, beside the rows themselves."""

    opening: Opening
    source: Source
    schema: StructType
    config: Config
    active: Active
    programs: Programs
    journal: DataFrame | None = None

    def program(self, schema: pa.Schema) -> Program:
        """The compiled subscriptions, in the order of `active.subscriptions`."""
        return self.programs.program(self.active, schema)


class Programs:
    """The programs compiled last, a few of them: one per source schema."""

    def __init__(self, kept: int = 16) -> None:
        self._compiled: dict[object, Program] = {}
        self._kept = kept

    def program(self, active: Active, schema: pa.Schema) -> Program:
        """The program for these subscriptions and this schema, compiled if it is new."""
        key = (active.key, schema.to_string())
        if key not in self._compiled:
            while len(self._compiled) >= self._kept:
                self._compiled.pop(next(iter(self._compiled)))
            named = ((one.id, one.filter) for one in active.subscriptions)
            self._compiled[key] = compile_program(named, schema)
        return self._compiled[key]


class Control:
    """Reads the control tables at pinned versions and remembers what it has read."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._version: int | None = None
        self._parsed: dict[str, Filter | FilterError] = {}
        self._subscriptions: tuple[Subscription, ...] = ()
        self._expiries: list[datetime] = []
        self._active = Active((-1, -1), ())
        self.problems: tuple[Problem, ...] = ()

    def active(self, versions: Mapping[str, int], clock: datetime) -> Active:
        """The subscriptions active at the clock. The set changes with the table's version and when an expiry passes."""
        if versions["subscriptions"] != self._version:
            self._load(versions["subscriptions"])
        key = (versions["subscriptions"], bisect_left(self._expiries, clock))
        if key != self._active.key:
            self._active = Active(key, tuple(one for one in self._subscriptions if one.active(clock)))
        return self._active

    def _load(self, version: int) -> None:
        columns = (CONSUMER, FILTER, ID, EXPIRES_AT, "_metadata.row_commit_version", "_metadata.row_id")
        rows = self._tables.read("subscriptions", version).select(*columns).toArrow().to_pylist()
        rows.sort(key=lambda row: (row["row_commit_version"], row["row_id"]))
        newest = {(row[CONSUMER], effective_id(row[CONSUMER], row[FILTER], row[ID])): row for row in rows}
        self._parsed = {text: self._parse(text) for text in {row[FILTER] for row in newest.values()}}
        good, problems = list[Subscription](), list[Problem]()
        for (consumer, id), row in sorted(newest.items()):
            parsed, text = self._parsed[row[FILTER]], row[FILTER]
            if consumer in UNUSABLE_NAMES:
                problems.append(
                    Problem("error", "subscriptions", consumer, id, text, f"'{consumer}' cannot be a consumer's name")
                )
            elif isinstance(parsed, FilterError):
                problems.append(Problem("error", "subscriptions", consumer, id, text, str(parsed), parsed.column))
            else:
                expires = row[EXPIRES_AT].astimezone(UTC) if row[EXPIRES_AT] else None
                good.append(Subscription(consumer, id, text, parsed, expires))
        self._subscriptions, self.problems, self._version = tuple(good), tuple(problems), version
        self._expiries = sorted(one.expires_at for one in good if one.expires_at is not None)

    def _parse(self, text: str) -> Filter | FilterError:
        known = self._parsed.get(text)
        if known is not None:
            return known
        try:
            return parse(text, limits=self._tables.config.filters.limits(), zone=self._tables.zone)
        except FilterError as error:
            return error


def unknown_attributes(
    subscriptions: Iterable[Subscription], known: Iterable[str], open_ended: Iterable[str]
) -> list[Problem]:
    """A warning for each subscription that names an attribute no source has, with the nearest one that exists.

    `open_ended` are VARIANT columns: any path into one may exist.
    """
    names, prefixes = sorted(known), tuple(f"{name}." for name in open_ended)
    strange: dict[str, str] = {}
    problems = []
    for one in subscriptions:
        for attribute in sorted(attributes(one.filter)):
            if attribute in names or attribute.startswith(prefixes):
                continue
            if attribute not in strange:
                close = nearest(attribute, names)
                strange[attribute] = f"no source has an attribute '{attribute}', so it is seen as absent." + (
                    f" Did you mean '{close}'?" if close else ""
                )
            problems.append(Problem("warning", "subscriptions", one.consumer, one.id, one.text, strange[attribute]))
    return problems
