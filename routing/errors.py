"""Every error that the product raises on purpose, one tree.

    RoutingError
    ├── ConfigError            a configuration file or value that cannot be used
    ├── SetupError             Java, a jar, a path or the catalog is missing
    ├── FilterError            a filter text that is not in the language
    │   └── FilterTooLarge     … or is larger than the limits allow
    ├── MappingError           a mapping text that is not in the language
    │   └── MappingTooLarge    … or is larger than the limits allow
    ├── MappingFailed          a mapping that has no result for one event
    ├── SubscriptionError      a subscription that cannot be stored
    ├── ScopeError             a scope or an edge that cannot be stored
    ├── SourceError            a source that cannot be read
    │   └── SourceBusy         … because another job reads it
    └── Cancelled              a batch that was not begun, because its stream is stopping

An error says what is wrong, where, and what to do next. Rows never raise: a bad event goes to `dead_letters`, a bad
control row to `rejections`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RoutingError(Exception):
    """The root: catch this to catch everything that Sluice raises on purpose."""


class ConfigError(RoutingError):
    """A configuration file or value that cannot be used."""


class SetupError(RoutingError):
    """Java, a jar, a path or the catalog is missing."""


class FilterError(RoutingError):
    """A filter text that is not in the language: what, at which column (1-based), and a hint.

    >>> print(FilterError("expected a value", column=5, hint="x > 3"))
    column 5: expected a value (x > 3)
    """

    def __init__(self, message: str, *, column: int, hint: str = "") -> None:
        self.message, self.column, self.hint = message, column, hint
        super().__init__(f"column {column}: {message}" + (f" ({hint})" if hint else ""))


class FilterTooLarge(FilterError):
    """A filter that exceeds a limit on its size or depth."""


class MappingError(RoutingError):
    """A mapping text that is not in the language: what, at which column (1-based), and a hint.

    >>> print(MappingError("expected an expression", column=5, hint="x = y * 2"))
    column 5: expected an expression (x = y * 2)
    """

    def __init__(self, message: str, *, column: int, hint: str = "") -> None:
        self.message, self.column, self.hint = message, column, hint
        super().__init__(f"column {column}: {message}" + (f" ({hint})" if hint else ""))


class MappingTooLarge(MappingError):
    """A mapping that exceeds a limit on its size or depth."""


class MappingFailed(RoutingError):
    """A mapping that has no result for one event: which attribute, and why."""


class SubscriptionError(RoutingError):
    """A subscription that cannot be stored."""


class ScopeError(RoutingError):
    """A scope or an edge that cannot be stored."""


class SourceError(RoutingError):
    """A source that cannot be read."""


class TableRestored(RoutingError):
    """Somebody has set a table of the engine back to an older version."""


class SourceBusy(SourceError):
    """A source that another job is routing."""


class Cancelled(RoutingError):
    """A batch that was not begun, because its stream is stopping."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like `name`, or the empty string.

    >>> nearest("prise", ["price", "symbol"])
    'price'
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return close[0] if close else ""
