"""What the stages of one batch may look at, beside the rows themselves: control tables at pinned versions, compiled.

Law: a snapshot is a function of the opening. A program is compiled once for each edition of the subscriptions and each
schema of attributes, and put where every worker finds it; a change since is compiled by itself.
"""

from __future__ import annotations

import json
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from routing.config import Config, Source
from routing.delay import Due
from routing.errors import nearest
from routing.matching.compile import assemble, compile_program
from routing.model import Opening, Problem
from routing.scopes.control import Scopes
from routing.scopes.trails import Way
from routing.subscriptions import Active, Edition, nobody
from routing.tables import Tables
from udfs.chart import packed
from udfs.runs import Recall
from udfs.shelf import Item, Shelf
from udfs.spark import Change, Charted, Standing, crosser, matcher, save_consumers, save_parties, seeing

Columns = TypeVar("Columns")


@dataclass(frozen=True)
class Snapshot:
    """One batch's view of the control tables. Without scopes everybody is in `world`."""

    opening: Opening
    source: Source
    schema: StructType
    config: Config
    active: Active
    programs: Programs
    journal: DataFrame | None = None
    seen: Callable[[], Recall | None] = lambda: None
    """Brings the memory of admitted keys up to date."""
    scopes: Scopes | None = None
    memory: DataFrame | None = None
    due: Due | None = None
    finished: bool = False
    """Whether this is a retry of a batch that had come to its end."""
    small: bool = False
    """Whether one task had better do it all: the source's last batch was small. Results do not depend on it."""

    def matcher(self, schema: pa.Schema) -> Callable[[Column], Column]:
        """The active subscriptions, as a function from a struct of these attributes to the consumers that match."""
        return matcher(*self.programs.standing(self.active, schema))

    def seeing(self, schema: pa.Schema, ways: Iterable[Way] | None = None) -> Callable[[Column, Column], Column]:
        """The same, of a struct and a trail, to those who match and see it: where events begin, or one of the ways."""
        assert self.scopes is not None
        charted = self.programs.charted(self.active, self.scopes, ways)
        return seeing(*self.programs.standing(self.active, schema), charted)

    def crosser(self, schema: pa.Schema, ways: Iterable[Way] | None = None) -> Callable[[Column, Column], Column]:
        """The crossings, as a function from a struct of these attributes and a trail to the numbers of those passed."""
        assert self.scopes is not None
        return crosser(*self.programs.crossings(self.scopes, schema, ways))


class Programs:
    """What was compiled last, on a shelf: programs, one per edition and source schema, and charts of scopes.

    What has not been used for longest makes room; a batch uses fewer than are kept.
    """

    def __init__(self, tables: Tables, kept: int = 48) -> None:
        self._known: OrderedDict[Hashable, tuple[Item, ...]] = OrderedDict()
        self._columns: OrderedDict[Hashable, Any] = OrderedDict()
        self._kept = kept
        local = str(tables.spark.conf.get("spark.master", "local")).startswith("local")
        self._scratch = tempfile.TemporaryDirectory(prefix="sluice-programs-") if local else None
        shared = tables.location("") or f"{tables.config.checkpoints}/"
        place = self._scratch.name if self._scratch else f"{shared}_programs"
        self._shelf = Shelf(place, copy=not local)

    def columns(self, key: Hashable, make: Callable[[], Columns]) -> Columns:
        """What `make` makes of columns, once for each key; the few used last are kept."""
        if key not in self._columns:
            self._columns[key] = make()
            while len(self._columns) > self._kept:
                self._columns.popitem(last=False)
        self._columns.move_to_end(key)
        made: Columns = self._columns[key]
        return made

    def standing(self, active: Active, schema: pa.Schema) -> tuple[Standing, Change | None]:
        """What lies on the shelf for these subscriptions: the edition, and what has changed since."""
        first, edition = self._standing(active.edition, schema), active.edition
        if active.since is None and not len(active.dead):
            return first, None
        since = active.since or nobody()
        before = np.array([edition.place(key) for key in since.pairs()], np.int64)
        return first, Change(self._standing(since, schema, beside=edition), before, active.dead)

    def charted(self, active: Active, scopes: Scopes, ways: Iterable[Way] | None) -> Charted:
        """The chart of the scopes, and the parties of these consumers."""
        (chart,) = self._get(("chart", scopes.key), lambda: (self._shelf.put(scopes.chart().save),))
        first, edition = self._parties(active.edition, scopes), active.edition
        changed = active.since is not None or len(active.dead)
        second = self._parties(active.since or nobody(), scopes, beside=edition) if changed else None
        return Charted(chart, first, second, _packed(ways))

    def crossings(self, scopes: Scopes, schema: pa.Schema, ways: Iterable[Way] | None) -> tuple[Item, Charted]:
        """The program of all crossings' filters, and the chart of who may reach which."""

        def made() -> tuple[Item, ...]:
            filters = [(str(number), crossing.admits) for number, crossing in enumerate(scopes.crossings)]
            return (self._shelf.put(compile_program(filters, schema).save),)

        (program,) = self._get(("crossings", scopes.key, schema.to_string()), made)
        (chart,) = self._get(("reach", scopes.key), lambda: (self._shelf.put(scopes.crossing_chart().save),))
        return program, Charted(chart, None, None, _packed(ways))

    def _standing(self, edition: Edition, schema: pa.Schema, beside: Edition | None = None) -> Standing:
        """The edition's program and consumers on the shelf; consumers that the other knows keep their numbers."""

        def made() -> tuple[Item, ...]:
            numbers, names = (edition.numbers, edition.names) if beside is None else numbered_on(edition, beside)
            program = assemble(edition.ids, edition.clauses, schema)
            return self._shelf.put(program.save), self._shelf.put(save_consumers(numbers, names))

        beside_number = beside.number if beside else None
        return Standing(*self._get((edition.number, schema.to_string(), beside_number), made))

    def _parties(self, edition: Edition, scopes: Scopes, beside: Edition | None = None) -> Item:
        """The parties of an edition's consumers, of those that the other does not know."""

        def made() -> tuple[Item, ...]:
            names = edition.names if beside is None else numbered_on(edition, beside)[1]
            return (self._shelf.put(save_parties(scopes.consumers.of_names(names))),)

        (item,) = self._get(("parties", edition.number, scopes.key, beside.number if beside else None), made)
        return item

    def _get(self, key: Hashable, make: Callable[[], tuple[Item, ...]]) -> tuple[Item, ...]:
        if key not in self._known:
            self._known[key] = make()
            while len(self._known) > self._kept:
                self._known.popitem(last=False)
            self._shelf.keep(item for items in self._known.values() for item in items)
        self._known.move_to_end(key)
        return self._known[key]


def _packed(ways: Iterable[Way] | None) -> str | None:
    return None if ways is None else json.dumps([packed(way.trail) for way in ways])


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
