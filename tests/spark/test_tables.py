"""The tables: what a SQL user may leave out, what is refused, and what other sessions see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

import routing
from routing.engine import Engine
from routing.errors import SetupError
from schemas import tables as all_tables


def test_a_row_needs_only_consumer_and_filter(spark: SparkSession, engine: Engine) -> None:
    spark.sql(
        f"INSERT INTO {engine.config.database}.subscriptions (consumer, filter) VALUES ('alice', 'symbol = ''DIS'' AND change > 0')"
    )
    (row,) = engine.tables.read("subscriptions").collect()
    assert row["filter"] == "symbol = 'DIS' AND change > 0" and row["created_at"] is not None and row["created_by"]


@pytest.mark.parametrize(
    ("table", "columns", "values"),
    [
        ("subscriptions", "consumer, filter", "'', 'TRUE'"),
        ("subscriptions", "consumer, filter", "'__HIVE_DEFAULT_PARTITION__', 'TRUE'"),
        ("subscriptions", "consumer, filter", "NULL, 'TRUE'"),
        ("subscriptions", "consumer, filter", "'alice', NULL"),
        ("advertisements", "publisher, filter, form", "'x', 'TRUE', 'poem'"),
        ("grants", "principal, action, object", "'x', 'own', 'y'"),
    ],
)
def test_constraints_hold(spark: SparkSession, engine: Engine, table: str, columns: str, values: str) -> None:
    with pytest.raises(Py4JJavaError, match=r"DELTA_(VIOLATE_CONSTRAINT|NOT_NULL)"):
        spark.sql(f"INSERT INTO {engine.config.database}.{table} ({columns}) VALUES ({values})")


def test_every_table_and_column_has_a_comment() -> None:
    for table in (*all_tables("consumer"), *all_tables("bucket")):
        assert table.comment
        assert all(field.metadata.get("comment") for field in table.columns), table.name


def test_every_default_works(spark: SparkSession, engine: Engine) -> None:
    name = engine.config.database
    spark.sql(f"INSERT INTO {name}.broker_links (source, target) VALUES ('a', 'b')")
    spark.sql(f"INSERT INTO {name}.grants (principal, action, object) VALUES ('a', 'join', 'b')")
    spark.sql(f"INSERT INTO {name}.scopes (scope) VALUES ('s')")
    link, grant, scope = (engine.tables.read(table).first() for table in ("broker_links", "grants", "scopes"))
    assert (link["kind"], link["cost"]) == ("peer", 1.0) and (grant["priority"], grant["allowed"]) == (0, True)
    assert (scope["delivery"], scope["publishing"]) == ("all", "forward")


def test_one_session_keeps_two_warehouses_apart(spark: SparkSession, engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="already knows a database"):
        routing.open(spark, {"warehouse": str(tmp_path / "elsewhere"), "database": engine.config.database})


def test_a_changed_layout_is_refused(make_engine: Callable[..., Engine]) -> None:
    make_engine()
    with pytest.raises(SetupError, match="laid out by consumer"):
        make_engine(reopen=True, notifications={"layout": "bucket"})


def test_a_changed_number_of_buckets_is_refused(make_engine: Callable[..., Engine]) -> None:
    with pytest.raises(SetupError, match="lie in 32 buckets"):
        make_engine(notifications={"layout": "bucket", "buckets": 4})


def test_locks_are_held_and_released(engine: Engine) -> None:
    import fcntl

    with engine.tables.lock("subscriptions", "notifications"):
        file = (engine.tables.directory / "_locks" / "subscriptions.lock").open("a")
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    file.close()


def test_a_warehouse_with_an_awkward_path(spark: SparkSession, tmp_path: Path) -> None:
    where = tmp_path / "a b%20c 'é'"
    engine = routing.open(
        spark,
        {
            "warehouse": str(where),
            "database": "awkward",
            "sources": {"q": {"format": "rate", "id": "id", "publisher_name": "p"}},
        },
    )
    engine.subscribe("alice", "TRUE")
    engine.route(spark.createDataFrame([("1",)], "id string"))
    assert engine.notifications("alice").count() == 1 and (where / "awkward" / "register.sql").is_file()
