"""The content of a version, as columns: what mappings and filters see of it, what consumers get, and when two are one.

Law: in every row the attributes are what `routing.mappings.evaluate.apply` makes of the event, mapping by mapping; and
two versions of an event have equal keys iff `routing.checker.content` calls them equal. `layout` says where values are.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.errors import MappingTooLarge
from routing.filters import Filter
from routing.filters.ast import attributes as mentioned
from routing.mappings.ast import Mapping as Assignments
from routing.mappings.ast import Name
from routing.mappings.columns import Compiled, compile_mapping
from routing.mappings.conditions import condition
from routing.mappings.typed import Attributes, widened
from routing.matching.attributes import Attribute, any_attribute, typed_attribute, variant_attribute
from routing.matching.match import referenced
from routing.scopes.layout import OVERLAY, Layout, Typed, first, inside
from routing.scopes.objects import ANY_TYPES, Steps, any_typed, as_object, steps
from routing.scopes.same import bind, texts
from routing.sources import COLUMNS

FAILURE = "failure"

Key = TypeVar("Key", bound=Hashable)

_CHILDREN: dict[Name | None, tuple[str, T.DataType]] = {
    Name.BIGINT: ("integer", T.LongType()),
    Name.DOUBLE: ("double", T.DoubleType()),
    Name.DECIMAL: ("decimal", T.StringType()),
    Name.STRING: ("string", T.StringType()),
    Name.BOOLEAN: ("boolean", T.BooleanType()),
    Name.DATE: ("date", T.DateType()),
    Name.TIMESTAMP: ("timestamp", T.TimestampType()),
    None: ("other", T.BooleanType()),
}


@dataclass(frozen=True, eq=True)
class Contents(Layout):
    """How contents are laid out at one point of a flow, and what can be done with them there."""

    def attributes(self) -> Attributes:
        """The typed columns of each attribute, made when it is looked up."""
        return _Attributes(self)

    def applied(self, rows: DataFrame, mappings: Mapping[int, Assignments], by: str) -> tuple[DataFrame, Contents]:
        """The rows, each after the mapping that its number in column `by` stands for, if any; and their layout.

        Column `failure` is NULL, or why a mapping failed, now or before; such a row's content means nothing.
        """
        made = _applied(self, frozenset(mappings.items()), by)
        kept = [_column(name) for name in rows.columns if name not in (OVERLAY, FAILURE)]
        failure = F.coalesce(F.col(FAILURE), made.failure) if FAILURE in rows.columns else made.failure
        return rows.withColumns(made.apart).select(*kept, *made.overlay, failure.alias(FAILURE)), made.after

    def __hash__(self) -> int:
        """Equal layouts are found again by it."""
        return hash((self.schema.simpleString(), self.without, tuple(sorted(self.over))))

    def passing(self, filters: Mapping[int, Filter], by: str) -> Column:
        """Whether the filter that the row's number in column `by` stands for, if any, matches its content."""
        names = sorted(frozenset[str]().union(*map(mentioned, filters.values())))
        apart = [name for name in names if self.is_any(steps(self.schema, name))]

        def passes(seen: Column) -> Column:
            attributes = _Attributes(self, known={name: _typed(seen[f"a{place}"]) for place, name in enumerate(apart)})
            cases = [(chosen, condition(filter, attributes)) for filter, chosen in _grouped(filters, by)]
            return F.coalesce(first(cases, F.lit(True)), F.lit(False))

        columns = [self.apart(steps(self.schema, name)).alias(f"a{place}") for place, name in enumerate(apart)]
        return bind(F.struct(*columns), passes) if columns else passes(F.lit(None))

    def union(self, other: Contents) -> Contents:
        """The layout with the attributes and types of both."""
        over = dict(self.over)
        for name, types in other.over.items():
            over[name] = tuple(dict.fromkeys((*over.get(name, ()), *types)))
        return Contents(self.schema, self.without, over)

    def widened(self, rows: DataFrame, to: Contents) -> DataFrame:
        """The same rows in a layout with more attributes or types."""
        return rows if to.over == self.over else rows.withColumn(OVERLAY, to.overlay(self))

    @lru_cache(maxsize=64)  # noqa: B019 - layouts are few
    def key(self) -> Column:
        """The same for equal contents of one event, whatever their layouts, and empty for the original.

        It is made of the columns that are not as in the original.
        """
        original = Contents(self.schema, self.without)
        names = sorted({way[0] for way in self.ways.values()})
        values = [
            F.when(self.touched_in(name), contents.whole((name,))) for name in names for contents in (self, original)
        ]

        def key(texts: Column) -> Column:
            parts = [_change(name, texts[2 * place], texts[2 * place + 1]) for place, name in enumerate(names)]
            return bind(F.concat_ws(",", *parts), lambda all: F.when(all == "", "").otherwise(F.md5(all)))

        return bind(texts(values), key) if names else F.lit("")

    def text(self, name: str) -> Column:
        """What equal values of an attribute have in common; NULL where it is absent."""
        return F.get(texts([self.whole(steps(self.schema, name))]), F.lit(0))

    @lru_cache(maxsize=64)  # noqa: B019
    def variant(self) -> Column:
        """The payload: a VARIANT object of all columns that have a value."""
        names = dict.fromkeys([*self.schema.names, *(way[0] for way in self.ways.values())])
        everything = Contents(self.schema, frozenset(), self.over)
        return as_object({name: everything.whole((name,)) for name in names})

    def fields(self, names: Iterable[str], mapped: frozenset[str]) -> list[Attribute]:
        """What the kernel sees, in order of names; the attributes in `mapped` have the types that the layout says.

        Those that mappings may change must be in it (`touched`).
        """
        return self._fields(frozenset(names), mapped)

    @lru_cache(maxsize=64)  # noqa: B019
    def _fields(self, names: frozenset[str], mapped: frozenset[str]) -> list[Attribute]:
        found = referenced(names - mapped, self.schema, COLUMNS, without=self.without)
        return sorted([*found, *map(self._any, names & mapped)], key=lambda attribute: attribute.name)

    def _any(self, name: str) -> Attribute:
        way = steps(self.schema, name)
        if self.is_any(way):
            return any_attribute(name, bind(self.whole(way), lambda value: variant_attribute(name, value, "$").column))
        values = self.typed(way)
        if len(values) == 1:
            return typed_attribute(name, *values[0])
        children: dict[str, list[Column]] = {}
        for column, type in values:
            typed = widened(column, type)
            child, stored = _CHILDREN[typed.name]
            there = typed.column.cast(stored) if typed.name else F.when(column.isNotNull(), F.lit(True))
            children.setdefault(child, []).append(there)
        every = [F.coalesce(*children.get(c, ()), F.lit(None).cast(type)).alias(c) for c, type in _CHILDREN.values()]
        return any_attribute(name, F.struct(*every))

    def touched(self, names: Iterable[str], targets: Iterable[str]) -> frozenset[str]:
        """Those attributes that may change when mappings set or drop the targets: also what is inside and around."""
        ways = [steps(self.schema, target) for target in targets]
        own = {name: steps(self.schema, name) for name in names}
        return frozenset(name for name, way in own.items() if any(inside(way, w) or inside(w, way) for w in ways))

    def apart(self, way: Steps) -> Column:
        """An attribute of any type as a struct with a field for each type."""
        return bind(
            self.whole(way), lambda value: F.struct(*(c.alias(f"v{n}") for n, c in enumerate(any_typed(value))))
        )


class _Applied(NamedTuple):
    """The columns that apply mappings, and the layout behind them."""

    apart: dict[str, Column]
    overlay: list[Column]
    failure: Column
    after: Contents


@lru_cache(maxsize=64)
def _applied(before: Contents, mappings: frozenset[tuple[int, Assignments]], by: str) -> _Applied:
    """Made once for mappings that batch after batch crosses: making columns takes longer than using them."""
    apart: dict[str, Column] = {}
    attributes = _Attributes(before, apart)
    made = [(chosen, _compiled(mapping, attributes)) for mapping, chosen in _grouped(dict(mappings), by)]
    after = before
    for _, compiled in made:
        types = {name: tuple(type for _, type in values) for name, values in compiled.values.items()}
        after = after.union(Contents(before.schema, before.without, types))
    failures = [F.when(chosen, compiled.failure) for chosen, compiled in made]
    overlay = [after.overlay(before, made)] if after.over else []
    return _Applied(apart, overlay, F.coalesce(*failures, F.lit(None).cast(T.StringType())), after)


class _Attributes(Mapping[str, list[Typed]]):
    """The attributes of a content by name, but for those that are `known`.

    With `columns`, those of any type are taken apart in columns collected there: Spark would do it at every use.
    """

    def __init__(
        self,
        contents: Contents,
        columns: dict[str, Column] | None = None,
        known: Mapping[str, list[Typed]] | None = None,
    ) -> None:
        self.contents, self.columns, self.known = contents, columns, dict(known or {})

    def __getitem__(self, name: str) -> list[Typed]:
        if name not in self.known:
            self.known[name] = self._made(steps(self.contents.schema, name))
        return self.known[name]

    def _made(self, way: Steps) -> list[Typed]:
        if not self.contents.is_any(way):
            return self.contents.typed(way)
        apart = self.contents.apart(way)
        if self.columns is None:
            return _typed(apart)
        name = f"apart{len(self.columns)}"
        self.columns[name] = apart
        return _typed(F.col(name))

    def __iter__(self) -> Iterator[str]:
        return iter({*self.contents.schema.names} - self.contents.without | {*self.contents.over})

    def __len__(self) -> int:
        return len(list(iter(self)))


def _typed(apart: Column) -> list[Typed]:
    return [(apart[f"v{place}"], type) for place, type in enumerate(ANY_TYPES)]


def _grouped(chosen: Mapping[int, Key], by: str) -> list[tuple[Key, Column]]:
    """Each value once, with the rows that it is for."""
    groups: dict[Key, list[int]] = {}
    for number, value in chosen.items():
        groups.setdefault(value, []).append(number)
    return [(value, F.col(by).isin(numbers)) for value, numbers in groups.items()]


def _compiled(mapping: Assignments, attributes: Attributes) -> Compiled:
    try:
        return compile_mapping(mapping, attributes)
    except MappingTooLarge as error:
        return Compiled({}, F.lit(str(error)))


def _change(name: str, now: Column, before: Column) -> Column:
    """What a column has become; NULL if nothing."""
    new = F.concat(F.lit(f"{json.dumps(name)}:"), F.coalesce(F.md5(now), F.lit("-")))
    return F.when(~now.eqNullSafe(before), new)


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")
