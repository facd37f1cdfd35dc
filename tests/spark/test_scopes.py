"""Scopes in the engine: random systems against the reference that enumerates paths, and the papers' examples."""

from __future__ import annotations

from collections.abc import Callable

from routing.engine import Engine
from tests.packed import Packed, random_runs, without_delay


def test_random_systems_deliver_what_the_reference_delivers(make_engine: Callable[..., Engine]) -> None:
    packed = Packed(make_engine, map(without_delay, random_runs(0, 200)), notifications={"layout": "bucket"})
    for number, clock in enumerate((1000.0, 1010.0, 1030.0)):
        assert packed.step(number, clock) == []
