"""Random systems of scopes in the engine, against the reference that enumerates paths: `make test-systems`."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from routing.engine import Engine
from tests.packed import Packed, changed, isolated, random_runs, with_few_versions

CLOCKS = (1000.0, 1010.0, 1030.0, 1100.0)


def test_random_systems_deliver_what_the_reference_delivers(make_engine: Callable[..., Engine]) -> None:
    first, count = int(os.environ.get("SLUICE_SEED", "0")), int(os.environ.get("SLUICE_SYSTEMS", "2000"))
    packed = Packed(make_engine, random_runs(first, count), notifications={"layout": "bucket"})
    for number, clock in enumerate(CLOCKS):
        assert packed.step(number, clock) == []


def test_random_systems_in_which_nobody_is_in_world(make_engine: Callable[..., Engine]) -> None:
    runs = [changed(run, isolated) for run in random_runs(5000, 40, world=True)]
    packed = Packed(make_engine, runs, notifications={"layout": "bucket"}, scopes={"unscoped": "isolated"})
    assert packed.step(0, 1000.0) == []


def test_random_systems_in_which_events_have_few_versions(make_engine: Callable[..., Engine]) -> None:
    runs = [changed(run, with_few_versions) for run in random_runs(6000, 60, policies=False, grants=False)]
    packed = Packed(make_engine, runs, notifications={"layout": "bucket"}, scopes={"versions": 2})
    assert packed.step(0, 1000.0) == []


def test_random_systems_whose_components_are_compared_by_spark(
    make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("routing.scopes.control.ON_DRIVER", 0)
    packed = Packed(make_engine, random_runs(7000, 60), notifications={"layout": "bucket"})
    assert packed.step(0, CLOCKS[0]) == []
