"""Where the value of an attribute is: in the event as it came, or beside it, where mappings have set it.

Law: a content is a tree of attributes. The original stays where it is, in the struct `columns`; the struct `overlay`
has an entry for each attribute that mappings name. An entry that is set decides about its attribute and all that is
inside it, except where an entry further inside is set too: that was set later, for setting unsets what is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from operator import or_
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.mappings.columns import Compiled
from routing.scopes.objects import Steps, as_variant, placed, reached, steps
from routing.sources import COLUMNS

OVERLAY = "overlay"
_CHANGES = "array<struct<attribute: string, value: variant>>"

Typed: TypeAlias = tuple[Column, T.DataType]
Case: TypeAlias = tuple[Column, list[Typed]]  # when, and the value then


@dataclass(frozen=True)
class Layout:
    """The source's columns, and the attributes that mappings have set or dropped so far, with the types they may have.

    Columns in `without` are no attributes. An entry is a struct of `set` and a value of each type, at most one of them
    not NULL; none, if the attribute was dropped. Entries and values have positions for names, because attributes may
    have any.
    """

    schema: T.StructType
    without: frozenset[str] = frozenset()
    over: Mapping[str, tuple[T.DataType, ...]] = field(default_factory=dict)

    @cached_property
    def ways(self) -> dict[str, Steps]:
        """The attributes of the overlay, in order."""
        return {name: steps(self.schema, name) for name in sorted(self.over)}

    def found(self, way: Steps) -> tuple[list[Case], list[Typed]]:
        """Who may decide about an attribute: entries, where they are set, the innermost first; else the original."""
        around = [name for name, outer in self.ways.items() if inside(way, outer)]
        entries = []
        for name in sorted(around, key=lambda name: len(self.ways[name]), reverse=True):
            inner = way[len(self.ways[name]) :]
            entries.append((self._is_set(name), [v for one in self._values(name) if (v := reached(*one, inner))]))
        original = None if ".".join(way) in self.without else reached(F.col(COLUMNS), self.schema, way)
        return entries, [original] if original else []

    def is_any(self, way: Steps) -> bool:
        """Whether the attribute has to be put together, or taken apart, as a VARIANT."""
        entries, original = self.found(way)
        every = [*original, *(value for _, values in entries for value in values)]
        return bool(self.inner(way)) or any(type == T.VariantType() for _, type in every)

    def typed(self, way: Steps) -> list[Typed]:
        """The attribute as a column for each type; not of one that `is_any`."""
        entries, original = self.found(way)
        types = dict.fromkeys(type for values in (*(values for _, values in entries), original) for _, type in values)
        return [(_decided(entries, original, partial(_of_type, type)), type) for type in types]

    def whole(self, way: Steps) -> Column:
        """The attribute with all that is inside it, as a VARIANT."""

        def change(name: str) -> Callable[[Column], Column]:
            new = _variant(self._values(name))
            return lambda value: F.when(self._is_set(name), new).otherwise(value)

        changes = [(self.ways[name][len(way) :], change(name)) for name in self.inner(way)]
        return placed(_decided(*self.found(way), _variant), changes)

    def inner(self, way: Steps) -> list[str]:
        """The attributes of the overlay that are inside this one."""
        return [name for name, inner in self.ways.items() if inside(inner, way) and inner != way]

    def touched_in(self, *columns: str) -> Column:
        """Whether a mapping has set or dropped something in one of these columns; without any, somewhere."""
        entries = [self._is_set(name) for name, way in self.ways.items() if not columns or way[0] in columns]
        return reduce(or_, entries, F.lit(False))

    def overlay(self, before: Layout, made: Sequence[tuple[Column, Compiled]] = ()) -> Column:
        """The overlay in this layout, of rows that were laid out as `before`, after those mappings that hold there."""
        entries = [self._entry(name, before, made).alias(f"o{place}") for place, name in enumerate(self.ways)]
        return F.struct(*entries).alias(OVERLAY)

    def stored(self) -> Column:
        """What mappings have set or dropped, as an array of attributes and VARIANTs: the same in every layout."""
        entries = [
            F.when(
                self._is_set(name),
                F.struct(F.lit(name).alias("attribute"), _variant(self._values(name)).alias("value")),
            )
            for name in self.ways
        ]
        return F.filter(F.array(*entries), lambda entry: entry.isNotNull()) if entries else F.array().cast(_CHANGES)

    def restored(self, changes: Column) -> Column:
        """The overlay of what was stored, in this layout, in which all values are VARIANTs."""

        def entry(name: str) -> Column:
            stored = F.get(F.filter(changes, lambda change: change["attribute"] == name), F.lit(0))
            return F.struct(stored.isNotNull().alias("set"), stored["value"].alias("v0"))

        return F.struct(*(entry(name).alias(f"o{place}") for place, name in enumerate(self.ways)))

    def _entry(self, name: str, before: Layout, made: Sequence[tuple[Column, Compiled]]) -> Column:
        cases = []
        for chosen, compiled in made:
            if name in compiled.values:
                cases.append((chosen, self._new(name, F.lit(True), compiled.values[name])))
            elif any(inside(self.ways[name], self.ways[target]) for target in compiled.values):
                cases.append((chosen, self._new(name, F.lit(False), [])))
        known = name in before.over
        old = (
            self._new(name, before._is_set(name), before._values(name)) if known else self._new(name, F.lit(False), [])
        )
        return first(cases, old)

    def _new(self, name: str, is_set: Column, values: Sequence[Typed]) -> Column:
        typed = [_of_type(type, values).alias(f"v{place}") for place, type in enumerate(self.over[name])]
        return F.struct(is_set.alias("set"), *typed)

    def _is_set(self, name: str) -> Column:
        return F.col(OVERLAY)[f"o{list(self.ways).index(name)}"]["set"]

    def _values(self, name: str) -> list[Typed]:
        entry = F.col(OVERLAY)[f"o{list(self.ways).index(name)}"]
        return [(entry[f"v{place}"], type) for place, type in enumerate(self.over[name])]


def inside(inner: Steps, outer: Steps) -> bool:
    """Whether an attribute is another, or inside it."""
    return inner[: len(outer)] == outer


def first(cases: Iterable[tuple[Column, Column]], otherwise: Column) -> Column:
    """The value of the first case that holds."""
    column: Column | None = None
    for when, then in cases:
        column = F.when(when, then) if column is None else column.when(when, then)
    return otherwise if column is None else column.otherwise(otherwise)


def _decided(entries: list[Case], original: list[Typed], value: Callable[[list[Typed]], Column]) -> Column:
    return first([(when, value(values)) for when, values in entries], value(original))


def _of_type(type: T.DataType, values: Sequence[Typed]) -> Column:
    columns = [column for column, other in values if other == type]
    return F.coalesce(*columns) if columns else F.lit(None).cast(type)


def _variant(values: Sequence[Typed]) -> Column:
    columns = [as_variant(*value) for value in values]
    return F.coalesce(*columns) if columns else F.lit(None).cast(T.VariantType())
