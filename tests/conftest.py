"""One Spark session per test run; an engine per test, on tables copied from a template (creating them takes longer)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

import routing
from routing.config import Config
from routing.engine import Engine
from routing.session import session

_numbers = count(1)

# A test must not fail because the machine is busy.
settings.register_profile("sluice", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sluice")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    running = session(Config(spark={"spark.sql.shuffle.partitions": "2"}), name="sluice-tests")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def template(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The directory of a database whose tables are new and empty, by layout."""
    made: dict[str, Path] = {}

    def directory(layout: str) -> Path:
        if layout not in made:
            root = tmp_path_factory.mktemp(f"template-{layout}")
            routing.open(
                spark, {"warehouse": str(root), "database": f"template_{layout}", "notifications": {"layout": layout}}
            )
            made[layout] = root / f"template_{layout}"
        return made[layout]

    return directory


@pytest.fixture
def make_engine(spark: SparkSession, template: Callable[[str], Path], tmp_path: Path) -> Callable[..., Engine]:
    """Engines on tables of their own. Keyword arguments are the configuration; `reopen` opens the same tables again."""
    name = f"t{next(_numbers)}"
    quotes = {"format": "json", "path": str(tmp_path / "feed"), "id": "id", "publisher": "exchange", "time": "at"}

    def make(reopen: bool = False, clock: Any = None, on_batch: Any = None, **config: Any) -> Engine:
        settings = {"warehouse": str(tmp_path / "warehouse"), "database": name, "sources": {"quotes": quotes}, **config}
        if not reopen:
            layout = settings.get("notifications", {}).get("layout", "consumer")
            shutil.copytree(
                template(layout), tmp_path / "warehouse" / name, ignore=shutil.ignore_patterns("register.sql", "_locks")
            )
            (tmp_path / "feed").mkdir(exist_ok=True)
        given = (("clock", clock), ("on_batch", on_batch), ("accept_restored", settings.pop("accept_restored", None)))
        more = {key: value for key, value in given if value is not None}
        return routing.open(spark, settings, **more)

    return make


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()
