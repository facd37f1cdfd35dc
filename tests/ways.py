"""The ways in which the kernel may take a batch: all give the same matches, whatever their cost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from udfs import kernel


@dataclass(frozen=True)
class Way:
    """Entries below which events are taken one by one, events from which a cluster is swept, and how many at a time."""

    small: int = 0
    many: int = kernel.MANY
    tile: int = kernel.TILE


WAYS = (Way(many=1, tile=8), Way(many=3), Way(many=1 << 30), Way(small=1 << 15))


@contextmanager
def matching(way: Way) -> Iterator[None]:
    """Match in this way; how many at a time is settled by a program's first batch."""
    changes = {"SMALL": way.small, "MANY": way.many, "TILE": way.tile, "SHARED": 0}
    with mock.patch.multiple(kernel, **changes):
        yield
