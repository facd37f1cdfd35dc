"""What the stages of one batch may look at, beside the rows themselves: control tables at pinned versions, compiled.

Law: a snapshot is a function of the opening. A program is compiled once for each edition of the subscriptions and each
schema of attributes, and put where every worker finds it; a change since is compiled by itself.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from routing.config import Config, Source
from routing.errors import nearest
from routing.matching.compile import assemble
from routing.model import Opening, Problem
from routing.subscriptions import Active, Edition, nobody
from routing.tables import Tables
from udfs.shelf import Shelf
from udfs.spark import Change, Standing, matcher, save_consumers


@dataclass(frozen=True)
class Snapshot:
    """One batch's view of the control tables."""

    opening: Opening
    source: Source
    schema: StructType
    config: Config
    active: Active
    programs: Programs
    journal: DataFrame | None = None

    def matcher(self, schema: pa.Schema) -> Callable[[Column], Column]:
        """The active subscriptions as a function from a struct of these attributes to the consumers that match."""
        return self.programs.matcher(self.active, schema)


class Programs:
    """The programs compiled last, a few of them: one per edition and source schema."""

    def __init__(self, tables: Tables, kept: int = 8) -> None:
        self._known: dict[object, Standing] = {}
        self._kept = kept
        local = str(tables.spark.conf.get("spark.master", "local")).startswith("local")
        self._scratch = tempfile.TemporaryDirectory(prefix="sluice-programs-") if local else None
        place = self._scratch.name if self._scratch else f"{tables.location('')}_programs"
        self._shelf = Shelf(place, copy=not local)

    def matcher(self, active: Active, schema: pa.Schema) -> Callable[[Column], Column]:
        """The matcher of these subscriptions on this schema; what is new is compiled."""
        return matcher(*self.standing(active, schema))

    def standing(self, active: Active, schema: pa.Schema) -> tuple[Standing, Change | None]:
        """What lies on the shelf for these subscriptions: the edition, and what has changed since."""
        first, edition = self._standing(active.edition, schema), active.edition
        if active.since is None and not len(active.dead):
            return first, None
        since = active.since or nobody()
        before = np.array([edition.place(key) for key in since.pairs()], np.int64)
        return first, Change(self._standing(since, schema, beside=edition), before, active.dead)

    def _standing(self, edition: Edition, schema: pa.Schema, beside: Edition | None = None) -> Standing:
        """The edition's program and consumers on the shelf; consumers that the other knows keep their numbers."""
        key = (edition.number, schema.to_string(), beside.number if beside else None)
        if key not in self._known:
            while len(self._known) >= self._kept:
                self._known.pop(next(iter(self._known)))
            numbers, names = (edition.numbers, edition.names) if beside is None else numbered_on(edition, beside)
            self._known[key] = Standing(
                self._shelf.put(assemble(edition.ids, edition.clauses, schema).save),
                self._shelf.put(save_consumers(numbers, names)),
            )
        return self._known[key]


def numbered_on(edition: Edition, other: Edition) -> tuple[NDArray[np.int32], pa.StringArray]:
    """The consumers of an edition by the numbers that another gives them; those new to it are numbered on."""
    places = np.array([other.place((name, "")) for name in edition.names.to_pylist()], np.int64)
    there = np.flatnonzero(places < len(other))
    known = np.zeros(len(places), np.bool_)
    same = pc.equal(other.consumers.take(pa.array(places[there])), edition.names.take(pa.array(there)))
    known[there] = same.to_numpy(zero_copy_only=False)
    numbers = np.empty(len(places), np.int64)
    numbers[known] = np.searchsorted(other.firsts, places[known])
    numbers[~known] = len(other.firsts) + np.arange((~known).sum())
    return numbers[edition.numbers].astype(np.int32), edition.names.filter(pa.array(~known))


def unknown_attributes(active: Active, known: Iterable[str], open_ended: Iterable[str]) -> list[Problem]:
    """A warning for each subscription that names an attribute no source has, with the nearest one that exists.

    `open_ended` are VARIANT columns: any path into one may exist.
    """
    names, prefixes = set(known), tuple(f"{name}." for name in open_ended)
    strange = sorted(name for name in active.names if name not in names and not name.startswith(prefixes))
    problems = []
    for name in strange:
        close = nearest(name, sorted(names))
        reason = f"no source has an attribute '{name}', so it is seen as absent." + (
            f" Did you mean '{close}'?" if close else ""
        )
        problems += [
            Problem("warning", "subscriptions", consumer, id, text, reason)
            for consumer, id, text in active.naming(name)
        ]
    return problems
