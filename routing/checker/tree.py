"""The content of an event that may have structs and objects in it, by dotted names.

Law: an attribute that is an object stands for all that is in it; setting or dropping it forgets what was set inside. A
name below a column of a plain type is a name of its own (docs/scopes.md, Inside attributes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Types: TypeAlias = Mapping[str, Any]
"""Columns by name: the columns inside for a struct, None for a plain type, `...` for a VARIANT."""
Way: TypeAlias = tuple[str, ...]


def way(types: Types, name: str) -> Way:
    """The names, from the outermost, by which an attribute is found.

    >>> types = {"a": {"x": None}, "v": ..., "i": None}
    >>> way(types, "a.x"), way(types, "a.y.z"), way(types, "v.x"), way(types, "i.x"), way(types, "n.x")
    (('a', 'x'), ('a', 'y', 'z'), ('v', 'x'), ('i.x',), ('n', 'x'))
    """
    return _way(types, name) or (name,)


def _way(types: Any, name: str) -> Way:
    if types is ...:
        return tuple(name.split("."))
    if types is None:
        return ()
    known = [column for column in types if f"{name}.".startswith(f"{column}.")]
    if not known:
        return tuple(name.split("."))
    column = max(known, key=len)
    if column == name:
        return (name,)
    rest = _way(types[column], name[len(column) + 1 :])
    return (column, *rest) if rest else ()


class Tree(dict[str, object]):
    """What is in an event now; `get` takes dotted names. Made from what it was and what was set since."""

    original: Mapping[str, object]
    settings: Mapping[str, object]
    types: Types

    @classmethod
    def of(cls, value: Any, types: Types, hidden: frozenset[str] = frozenset()) -> Tree:
        """The content that was published, without what is NULL and without the columns that are no attributes."""
        shown = {name: inner for name, inner in _without_null(value).items() if name not in hidden}
        return cls._made(shown, {}, types)

    @classmethod
    def _made(cls, original: Mapping[str, object], settings: Mapping[str, object], types: Types) -> Tree:
        made = cls(original)
        made.original, made.settings, made.types = original, settings, types
        for name in sorted(settings, key=lambda name: len(way(types, name))):
            _put(made, way(types, name), settings[name])
        return made

    def get(self, name: str, default: Any = None) -> Any:
        """The value under a dotted name."""
        found: Any = dict(self)
        for step in way(self.types, name):
            found = found.get(step) if isinstance(found, dict) else None
        return default if found is None else found

    def changed(self, settings: Mapping[str, object]) -> Tree:
        """With these attributes set, or dropped where they are None."""
        ways = [way(self.types, name) for name in settings]
        kept = {
            name: value
            for name, value in self.settings.items()
            if not any(way(self.types, name)[: len(outer)] == outer for outer in ways)
        }
        return self._made(self.original, {**kept, **settings}, self.types)


def _put(tree: dict[str, Any], way: Way, value: object) -> None:
    """Sets or, with None, drops what is there. Where something is set in no object, one is made."""
    *outer, last = way
    for step in outer:
        if not isinstance(tree.get(step), dict):
            if value is None:
                return
            tree[step] = {}
        tree[step] = dict(tree[step])
        tree = tree[step]
    tree.pop(last, None)
    if value is not None:
        tree[last] = value


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_null(inner) for name, inner in value.items() if inner is not None}
    return value
