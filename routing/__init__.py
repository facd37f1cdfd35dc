"""Sluice: content-based routing on Spark.

`routing.open(spark, config)` gives an engine; `routing.filters` is the filter language. Importing starts nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from routing.config import Config
    from routing.engine import Engine, open
    from routing.errors import RoutingError

__all__ = ["Config", "Engine", "RoutingError", "open"]
_HOMES = {
    "Config": "routing.config",
    "Engine": "routing.engine",
    "RoutingError": "routing.errors",
    "open": "routing.engine",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'routing' has no attribute '{name}'")
