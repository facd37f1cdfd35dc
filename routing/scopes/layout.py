"""Where the value of an attribute is: in the event as it came, or beside it, where mappings have set it.

Law: a content is a tree of attributes. The original stays where it is, in the struct `columns`; the struct `overlay`
has an entry for each attribute that mappings name. An entry that is set decides about its attribute and all that is
inside it, except where an entry further inside is set too: that was set later, for setting unsets what is inside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.mappings.columns import Compiled
from routing.scopes.objects import Steps, as_variant, placed, reached, steps
from routing.sources import COLUMNS

OVERLAY = "overlay"

Typed: TypeAlias = tuple[Column, T.DataType]


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

    def found(self, way: Steps) -> list[tuple[Column, list[Typed]]]:
        """Who may decide about an attribute: entries, if they are set, the innermost first; then the original."""
        found = []
        for name in sorted((n for n, w in self.ways.items() if inside(way, w)), key=lambda n: -len(self.ways[n])):
            inner = way[len(self.ways[name]) :]
            values = [there for value in self._values(name) if (there := reached(*value, inner))]
            found.append((self._is_set(name), values))
        original = None if ".".join(way) in self.without else reached(F.col(COLUMNS), self.schema, way)
        return [*found, (F.lit(True), [original] if original else [])]

    def typed(self, way: Steps) -> list[Typed]:
        """The attribute as a column for each type; not for one that `is_any`."""
        found = self.found(way)
        if len(found) == 1:
            return found[0][1]
        types = dict.fromkeys(type for _, values in found for _, type in values)
        return [(first([(when, _of_type(values, type)) for when, values in found]), type) for type in types]

    def is_any(self, way: Steps) -> bool:
        """Whether the attribute's value has to be put together, or taken apart, as a VARIANT."""
        return bool(self.inner(way)) or any(
            type == T.VariantType() for _, values in self.found(way) for _, type in values
        )

    def whole(self, way: Steps) -> Column:
        """The attribute with all that is inside it, as a VARIANT."""

        def change(name: str) -> Callable[[Column], Column]:
            new = _coalesced(self._values(name))
            return lambda value: F.when(self._is_set(name), new).otherwise(value)

        outer = first([(when, _coalesced(values)) for when, values in self.found(way)])
        return placed(outer, [(self.ways[name][len(way) :], change(name)) for name in self.inner(way)])

    def inner(self, way: Steps) -> list[str]:
        """The attributes of the overlay that are inside this one."""
        return [name for name, inner in self.ways.items() if inside(inner, way) and inner != way]

    def overlay(self, before: Layout, made: Sequence[tuple[Column, Compiled]] = ()) -> Column:
        """The overlay in this layout, of rows that were laid out as `before`, after those mappings that hold there."""
        entries = [self._entry(name, before, made).alias(f"o{place}") for place, name in enumerate(self.ways)]
        return F.struct(*entries).alias(OVERLAY)

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
        return first([*cases, (F.lit(True), old)])

    def _new(self, name: str, is_set: Column, values: Sequence[Typed]) -> Column:
        typed = [_of_type(values, type).alias(f"v{place}") for place, type in enumerate(self.over[name])]
        return F.struct(is_set.alias("set"), *typed)

    def _is_set(self, name: str) -> Column:
        return F.col(OVERLAY)[f"o{list(self.ways).index(name)}"]["set"]

    def _values(self, name: str) -> list[Typed]:
        entry = F.col(OVERLAY)[f"o{list(self.ways).index(name)}"]
        return [(entry[f"v{place}"], type) for place, type in enumerate(self.over[name])]


def inside(inner: Steps, outer: Steps) -> bool:
    """Whether an attribute is another, or inside it."""
    return inner[: len(outer)] == outer


def first(cases: Sequence[tuple[Column, Column]]) -> Column:
    """The value of the first case that holds."""
    (when, then), *others = cases
    column = F.when(when, then)
    for when, then in others:
        column = column.when(when, then)
    return column


def _of_type(values: Sequence[Typed], type: T.DataType) -> Column:
    return F.coalesce(*(column for column, other in values if other == type), F.lit(None).cast(type))


def _coalesced(values: Sequence[Typed]) -> Column:
    return F.coalesce(*(as_variant(*value) for value in values), F.lit(None).cast(T.VariantType()))
