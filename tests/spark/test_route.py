"""One batch through the engine: who is notified, what is refused, what a retry does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf

from routing import admit
from routing import engine as engine_module
from routing.engine import Engine
from routing.errors import ConfigError, FilterError, SourceError, SubscriptionError, TableRestored
from udfs.roster import matches
from udfs.spark import MATCHED, Standing, roster

QUOTE = "id string, exchange string, at string, symbol string, price double, change double"


def quotes(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame([(id, exchange, f"2026-01-05T10:00:{second:02d}Z" if second is not None else None, symbol, price, change)
                                  for id, exchange, second, symbol, price, change in rows], QUOTE)  # fmt: skip


def delivered(engine: Engine) -> list[tuple[str, str]]:
    rows = engine.tables.read("notifications").select("consumer", "event_id").collect()
    return sorted((row[0], row[1]) for row in rows)


def letters(engine: Engine) -> list[tuple[str, str | None]]:
    return sorted(
        ((row[0], row[1]) for row in engine.tables.read("dead_letters").select("reason", "event_id").collect()), key=str
    )


def test_a_consumer_gets_what_matches_once(spark: SparkSession, engine: Engine) -> None:
    first = engine.subscribe("alice", "symbol = 'DIS'")
    second = engine.subscribe("alice", "change > 0", id="rising")
    engine.subscribe("bob", "price > 100 AND symbol <> 'DIS'")
    report = engine.route(quotes(spark, ("1", "NYSE", 1, "DIS", 90.0, 1.0), ("2", "NYSE", 2, "IBM", 120.0, None)))
    assert delivered(engine) == [("alice", "1"), ("bob", "2")]
    assert report.counts == {"events": 2, "admitted": 2, "refused": 0, "notifications": 2}
    (row,) = engine.notifications("alice").collect()
    assert set(row["subscription_ids"]) == {first, second} and second == "rising"
    assert (row["publisher"], row["source"], row["path"], row["batch"]) == ("NYSE", "quotes", ["world"], 1)


def test_the_view_of_a_source_has_its_typed_columns(spark: SparkSession, engine: Engine) -> None:
    engine.subscribe("alice", "TRUE")
    engine.route(quotes(spark, ("1", "NYSE", 1, "DIS", 90.5, None)))
    rows = spark.sql(
        f"SELECT symbol, price, change FROM {engine.config.database}.notifications_quotes WHERE consumer = 'alice'"
    )
    assert rows.dtypes == [("symbol", "string"), ("price", "double"), ("change", "double")]
    assert [tuple(row) for row in rows.collect()] == [("DIS", 90.5, None)]
    assert engine.notifications("alice", source="quotes").select("symbol").first()[0] == "DIS"


def test_bad_rows_are_dead_letters_with_the_reason_and_the_row(spark: SparkSession, engine: Engine) -> None:
    engine.subscribe("alice", "TRUE")
    rows = quotes(spark, (None, "NYSE", 1, "a", 1.0, 1.0), ("", "NYSE", 1, "b", 1.0, 1.0), ("3", None, 1, "c", 1.0, 1.0),
                  ("4", "NYSE", None, "d", 1.0, 1.0), ("5", "NYSE", 5, "e", 1.0, 1.0))  # fmt: skip
    rows = rows.withColumn("_corrupt_record", F.when(F.col("symbol") == "e", F.lit("{rubbish")))
    engine.route(rows)
    assert letters(engine) == [
        ("malformed", "5"),
        ("missing_id", ""),
        ("missing_id", None),
        ("missing_publisher", "3"),
        ("missing_time", "4"),
    ]
    raw = {row["reason"]: row["raw"] for row in engine.tables.read("dead_letters").collect()}
    assert raw["malformed"] == "{rubbish" and '"symbol":"c"' in raw["missing_publisher"]
    assert delivered(engine) == []


def test_duplicates_and_conflicts_within_a_batch(spark: SparkSession, engine: Engine) -> None:
    engine.subscribe("alice", "TRUE")
    engine.route(quotes(spark, ("1", "NYSE", 2, "later", 1.0, 1.0), ("1", "NYSE", 1, "first", 1.0, 1.0), ("1", "NYSE", 1, "first", 1.0, 1.0),
                        ("1", "LSE", 1, "another publisher", 1.0, 1.0)))  # fmt: skip
    assert delivered(engine) == [("alice", "1"), ("alice", "1")]
    assert letters(engine) == [("conflict", "1"), ("duplicate", "1")]
    symbols = {row["symbol"] for row in engine.notifications("alice", source="quotes").collect()}
    assert symbols == {"first", "another publisher"}


def test_a_value_that_moves_to_another_column_is_another_content(spark: SparkSession, engine: Engine) -> None:
    engine.route(quotes(spark, ("1", "NYSE", 1, "x", 1.0, None), ("1", "NYSE", 1, "x", None, 1.0)))
    assert letters(engine) == [("conflict", "1")]


def test_duplicates_across_batches_within_the_horizon(spark: SparkSession, make_engine: Callable[..., Engine]) -> None:
    now = [datetime(2026, 1, 5, tzinfo=UTC)]
    engine = make_engine(clock=lambda: now[0], duplicates={"horizon": "2 days"})
    engine.subscribe("alice", "TRUE")
    event = quotes(spark, ("1", "NYSE", 1, "x", 1.0, 1.0))
    engine.route(event)
    now[0] += timedelta(days=1)
    engine.route(event)
    engine.route(quotes(spark, ("1", "NYSE", 1, "y", 1.0, 1.0)))
    assert delivered(engine) == [("alice", "1")] and letters(engine) == [("conflict", "1"), ("duplicate", "1")]
    now[0] += timedelta(days=2)
    engine.route(event)
    assert delivered(engine) == [("alice", "1"), ("alice", "1")]


def test_a_refused_event_is_not_remembered(spark: SparkSession, engine: Engine) -> None:
    engine.subscribe("alice", "TRUE")
    engine.route(quotes(spark, ("1", "NYSE", None, "x", 1.0, 1.0)))
    engine.route(quotes(spark, ("1", "NYSE", 1, "x", 1.0, 1.0)))
    assert delivered(engine) == [("alice", "1")]


def test_many_duplicates_are_kept_up_to_a_cap_and_counted(
    spark: SparkSession, make_engine: Callable[..., Engine]
) -> None:
    engine = make_engine(duplicates={"kept": 3})
    report = engine.route(quotes(spark, *[("1", "NYSE", 1, "x", 1.0, 1.0)] * 10))
    rows = engine.tables.read("dead_letters").collect()
    assert sorted(row["copies"] for row in rows) == [1, 1, 1, 6] and report.counts["refused"] == 9


def test_the_same_key_is_a_retry_and_changes_nothing(spark: SparkSession, engine: Engine) -> None:
    engine.subscribe("alice", "TRUE")
    batch = quotes(spark, ("1", "NYSE", 1, "x", 1.0, 1.0), (None, "NYSE", 1, "x", 1.0, 1.0))
    first = engine.route(batch, key="load 7")
    engine.subscribe("bob", "TRUE")
    again = engine.route(batch, key="load 7")
    assert again.retry and (again.ordinal, again.counts) == (first.ordinal, first.counts)
    assert delivered(engine) == [("alice", "1")]
    assert {name: engine.tables.read(name).count() for name in ("events", "dead_letters")} == {
        "events": 1,
        "dead_letters": 1,
    }


@contextmanager
def dying_before(engine: Engine, table: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A batch dies before it appends to the table."""
    append = engine.tables.append

    def dying(name: str, rows: DataFrame, *, tag: str) -> None:
        if name == table:
            raise OSError("the disk has gone")
        append(name, rows, tag=tag)

    with monkeypatch.context() as patched, pytest.raises(OSError, match="the disk has gone"):
        patched.setattr(engine.tables, "append", dying)
        yield


@pytest.mark.parametrize("crash_before", ["events", "dead_letters", "notifications"])
def test_a_batch_that_died_half_way_is_finished_by_its_retry(
    spark: SparkSession, make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, crash_before: str
) -> None:
    engine = make_engine()
    engine.subscribe("alice", "TRUE")
    batch = quotes(
        spark, ("2", "NYSE", 2, "x", 1.0, 1.0), ("1", "NYSE", 1, "x", 1.0, 1.0), (None, "NYSE", 1, "x", 1.0, 1.0)
    )
    with dying_before(engine, crash_before, monkeypatch):
        engine.route(batch, key="k")
    another = make_engine(reopen=True)
    another.subscribe("bob", "TRUE")  # after the batch was pinned: not for bob
    assert another.route(batch, key="k").retry
    another.route(quotes(spark, ("3", "NYSE", 3, "x", 1.0, 1.0)))
    assert delivered(another) == [("alice", "1"), ("alice", "2"), ("alice", "3"), ("bob", "3")]
    assert another.tables.read("events").count() == 3 and another.tables.read("dead_letters").count() == 1


def test_what_a_batch_only_wrote_down_is_delivered_when_it_comes_again(
    spark: SparkSession, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch dies before its notifications, and its events come back under another key."""
    engine.subscribe("alice", "TRUE")
    batch = quotes(spark, ("1", "NYSE", 1, "x", 1.0, 1.0))
    with dying_before(engine, "notifications", monkeypatch):
        engine.route(batch)
    assert engine.route(batch).counts["notifications"] == 1
    assert engine.route(batch).counts["refused"] == 1
    assert delivered(engine) == [("alice", "1")]


@pytest.mark.parametrize("meanwhile", [("1",), ("1", "2")], ids=["some", "all"])
def test_a_retry_leaves_out_what_others_have_delivered_since(
    spark: SparkSession, engine: Engine, monkeypatch: pytest.MonkeyPatch, meanwhile: tuple[str, ...]
) -> None:
    """Also from the journal, where the batch had written it down before it died."""
    engine.subscribe("alice", "TRUE")
    engine.create_scope("desk", publishing="rate_limit(10, 20000 days)")
    engine.create_scope("firm")
    for child, parent in (("NYSE", "desk"), ("desk", "firm"), ("alice", "firm")):
        engine.join(child, parent)
    batch = quotes(
        spark, *((id, "NYSE", int(id), "x", 1.0, 1.0) for id in ("1", "2")), (None, "NYSE", 1, "x", 1.0, 1.0)
    )
    with dying_before(engine, "notifications", monkeypatch):
        engine.route(batch, key="k")
    assert all(engine.tables.read(name).count() for name in ("events", "dead_letters", "policy_state"))
    assert engine.route(batch.where(F.col("id").isin(*meanwhile))).counts["notifications"] == len(meanwhile)
    replace, replaced = engine.tables.replace, list[str]()
    for dies_at in ("dead_letters", "policy_state", "events"):  # also while it replaces what it wrote

        def dying_again(table: str, rows: DataFrame, *, batch: int, tag: str, at: str = dies_at) -> None:
            if table == at:
                raise OSError("the disk has gone")
            replaced.append(table)
            replace(table, rows, batch=batch, tag=tag)

        with monkeypatch.context() as patched, pytest.raises(OSError, match="the disk has gone"):
            patched.setattr(engine.tables, "replace", dying_again)
            engine.route(batch, key="k")
    assert replaced == ["dead_letters", "dead_letters", "policy_state"]
    for _ in range(2):
        again = engine.route(batch, key="k")
        assert again.retry and again.counts["notifications"] == 2 - len(meanwhile)
        assert delivered(engine) == [("alice", "1"), ("alice", "2")]
        journal = sorted((row["event_id"], row["batch"]) for row in engine.tables.read("events").collect())
        assert journal == [(id, 2 if id in meanwhile else 1) for id in ("1", "2")]
        letters = sorted(row["reason"] for row in engine.tables.read("dead_letters").collect())
        assert letters == ["duplicate"] * len(meanwhile) + ["missing_id"]
    assert [finding for finding in engine.check() if finding.verdict != "holds"] == []


def test_an_engine_that_saw_a_batch_under_way_sees_that_it_was_delivered(
    spark: SparkSession, make_engine: Callable[..., Engine]
) -> None:
    engine = make_engine()
    engine.subscribe("alice", "TRUE")
    batch = quotes(spark, ("1", "NYSE", 1, "x", 1.0, 1.0))
    engine.ledger.write(engine.ledger.open("k", "quotes", batch.schema.json()))
    another = make_engine(reopen=True)
    assert another.ledger.unfinished == {1}
    assert engine.route(batch, key="k").retry  # its closing is written with the next opening
    assert another.route(batch).counts["refused"] == 1
    assert delivered(another) == [("alice", "1")]


def test_an_opening_that_could_not_be_written_leaves_no_trace(
    spark: SparkSession, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.subscribe("alice", "TRUE")
    with monkeypatch.context() as patched:
        patched.setattr(engine.tables, "append", lambda *arguments, **named: (_ for _ in ()).throw(OSError("full")))
        with pytest.raises(OSError, match="full"):
            engine.route(quotes(spark, ("1", "NYSE", 1, "x", 1.0, 1.0)), key="k1")
    second = engine.route(quotes(spark, ("2", "NYSE", 1, "x", 1.0, 1.0)), key="k2")
    first = engine.route(quotes(spark, ("1", "NYSE", 1, "x", 1.0, 1.0)), key="k1")
    assert (second.ordinal, first.ordinal, first.retry) == (1, 2, False)
    assert delivered(engine) == [("alice", "1"), ("alice", "2")]


def test_rows_with_fewer_or_wider_columns_keep_the_source_whole(spark: SparkSession, engine: Engine) -> None:
    engine.subscribe("alice", "price > 0 AND change IS NULL")
    engine.route(quotes(spark, ("1", "NYSE", 1, "x", 1.0, 1.0)))
    narrow = spark.createDataFrame(
        [("2", "NYSE", "2026-01-05", 5), ("1", "NYSE", "2026-01-05T10:00:01Z", 5)],
        "id string, exchange string, at string, price int",
    )
    assert engine.route(narrow).counts["notifications"] == 1
    assert {"symbol", "change", "price"} <= set(engine.notifications("alice", source="quotes").columns)
    same = quotes(spark, ("3", "NYSE", 1, "x", 1.0, None))
    engine.route(same.drop("change"))
    engine.route(same.withColumn("later", F.lit(None).cast("string")))
    assert ("duplicate", "3") in letters(engine)


def test_sequence_follows_time_then_order_column_then_id(
    spark: SparkSession, make_engine: Callable[..., Engine]
) -> None:
    engine = make_engine(
        sources={"quotes": {"format": "rate", "id": "id", "publisher": "exchange", "time": "at", "order": "rank"}}
    )
    engine.subscribe("alice", "TRUE")
    rows = [("a", 3, 9), ("b", 1, 2), ("c", 1, 1), ("e", 2, None), ("d", 2, None), ("f", 1, 10)]
    batch = spark.createDataFrame([(id, "X", datetime(2026, 1, 5, 10, 0, second, tzinfo=UTC), rank) for id, second, rank in rows],
                                  "id string, exchange string, at timestamp, rank int")  # fmt: skip
    engine.route(batch.repartition(4))
    engine.route(batch.withColumn("id", F.concat("id", F.lit("2"))).repartition(3))
    assert [row["event_id"] for row in engine.notifications("alice").collect()] == [
        "c",
        "b",
        "f",
        "d",
        "e",
        "a",
        "c2",
        "b2",
        "f2",
        "d2",
        "e2",
        "a2",
    ]


def test_ranks_do_not_depend_on_the_partitioning(spark: SparkSession, make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(duplicates={"horizon": "0 days"})
    engine.subscribe("alice", "TRUE")
    batch = quotes(spark, *[(f"{n * 7919 % 1000:03d}", "NYSE", n % 60, "x", 1.0, 1.0) for n in range(1000)])
    ranks = []
    for partitions in (1, 7):
        before = spark.conf.get("spark.sql.shuffle.partitions")
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
        try:
            report = engine.route(batch.repartition(partitions))
        finally:
            spark.conf.set("spark.sql.shuffle.partitions", before)
        rows = engine.tables.read("events").where(F.col("batch") == report.ordinal).select("event_id", "rank").collect()
        ranks.append({row[0]: row[1] for row in rows})
    assert ranks[0] == ranks[1] and sorted(ranks[0].values()) == list(range(1000))


def test_whichever_way_a_batch_is_judged_the_rows_are_the_same(
    spark: SparkSession, make_engine: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second batch is small, judged together, or apart; some of its events came before, some are refused."""
    draw = random.Random(3)
    batches = [
        [(str(n % 50) if n % 9 else None, draw.choice("AB"), draw.randrange(60), "x", float(n % 4), 1.0) for n in some]
        for some in (range(40), range(25, 90))
    ]
    found = []
    ways = ((engine_module.SMALL, admit.TOGETHER, 3), (-1, admit.TOGETHER, 3), (-1, admit.TOGETHER, 1), (-1, 64, 3))
    for number, (small, together, partitions) in enumerate(ways):
        monkeypatch.setattr(engine_module, "SMALL", small)
        monkeypatch.setattr(admit, "TOGETHER", together)
        engine = make_engine(database=f"small_{number}", warehouse=str(tmp_path / str(number)), reopen=True)
        engine.subscribe("alice", "TRUE")
        reports = [engine.route(quotes(spark, *rows).repartition(partitions)) for rows in batches]
        tables = {
            "notifications": "consumer, event_id, publisher, sequence, batch, CAST(event AS STRING)",
            "events": "event_id, publisher, rank, batch",
            "dead_letters": "reason, raw, batch",
        }
        rows = {
            name: engine.tables.read(name).selectExpr(*texts.split(", ")).collect() for name, texts in tables.items()
        }
        found.append(
            ({name: sorted(map(str, some)) for name, some in rows.items()}, [report.counts for report in reports])
        )
        ranks = [(row["batch"], row["rank"]) for row in rows["events"]]
        assert len(set(ranks)) == len(ranks) > 50
    assert found[0] == found[1] == found[2] == found[3]


def test_a_row_of_nothing_is_nobodys_twin(spark: SparkSession, make_engine: Callable[..., Engine]) -> None:
    """The content of a row without any value hashes to 42; it is refused, and has no key that an event could share."""
    engine = make_engine(duplicates={"key": "id"})
    engine.subscribe("alice", "TRUE")
    nothing = (None, None, None, None, None, None)
    schema = quotes(spark, ("42", "NYSE", 1, "x", 1.0, 1.0)).schema
    rows = quotes(spark, ("42", "NYSE", 1, "x", 1.0, 1.0)).union(spark.createDataFrame([nothing], schema))
    assert engine.route(rows).counts["notifications"] == 1


def test_rows_that_are_not_those_that_were_judged_stop_the_batch(
    spark: SparkSession, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "SMALL", -1)
    engine.subscribe("alice", "TRUE")
    judging = admit.judging
    with monkeypatch.context() as patched, pytest.raises(Exception, match="came in another order"):
        others = F.transform("marks", lambda mark: mark + 1)
        patched.setattr(admit, "judging", lambda *given: judging(*given).withColumn("marks", others))
        engine.route(quotes(spark, ("1", "NYSE", 1, "x", 5.0, 1.0)), key="once")
    engine.route(quotes(spark, ("1", "NYSE", 1, "x", 5.0, 1.0)), key="once")
    assert delivered(engine) == [("alice", "1")]


def test_a_bad_subscription_is_rejected_alone(spark: SparkSession, engine: Engine) -> None:
    rows = [("alice", "price >", None), ("alice", "price > 1", None), ("bob", "prise > 1", None), ("carl", "TRUE", "x")]
    engine.subscribe_many(spark.createDataFrame(rows, "consumer string, filter string, id string"))
    engine.route(quotes(spark, ("1", "NYSE", 1, "x", 5.0, 1.0)))
    assert delivered(engine) == [("alice", "1"), ("carl", "1")]
    found = {
        (row["owner"], row["severity"], row["position"]): row["reason"]
        for row in engine.tables.read("rejections").collect()
    }
    assert set(found) == {("alice", "error", 8), ("bob", "warning", None)}
    assert "Did you mean 'price'?" in found["bob", "warning", None]
    view = {
        (row["consumer"], row["filter"]): row["active"]
        for row in spark.sql(f"SELECT * FROM {engine.config.database}.active_subscriptions").collect()
    }
    assert view == {
        ("alice", "price >"): False,
        ("alice", "price > 1"): True,
        ("bob", "prise > 1"): True,
        ("carl", "TRUE"): True,
    }
    engine.tables.delete("subscriptions", F.col("filter").isin("price >", "prise > 1"))
    engine.route(quotes(spark, ("2", "NYSE", 1, "x", 5.0, 1.0)))
    assert engine.tables.read("rejections").count() == 0


def test_the_newest_row_of_a_key_counts(spark: SparkSession, engine: Engine) -> None:
    engine.subscribe("alice", "symbol = 'a'", id="mine")
    engine.subscribe("alice", "symbol = 'b'", id="mine")
    for _ in range(2):
        engine.subscribe("bob", "symbol = 'a'")
    engine.route(quotes(spark, ("1", "NYSE", 1, "a", 1.0, 1.0), ("2", "NYSE", 2, "b", 1.0, 1.0)))
    assert delivered(engine) == [("alice", "2"), ("bob", "1")]
    spark.sql(f"OPTIMIZE {engine.tables.name('subscriptions')}")
    engine.route(quotes(spark, ("3", "NYSE", 1, "a", 1.0, 1.0)))
    assert delivered(engine) == [("alice", "2"), ("bob", "1"), ("bob", "3")]
    assert engine.unsubscribe("bob", engine.subscribe("bob", "symbol = 'a'")) == 1
    assert engine.unsubscribe("bob", "unheard of") == 0
    engine.route(quotes(spark, ("4", "NYSE", 1, "a", 1.0, 1.0)))
    assert len(delivered(engine)) == 3


def test_an_expired_subscription_matches_nothing(spark: SparkSession, make_engine: Callable[..., Engine]) -> None:
    now = [datetime(2026, 1, 5, tzinfo=UTC)]
    engine = make_engine(clock=lambda: now[0])
    engine.subscribe("alice", "TRUE", expires_at=now[0] + timedelta(hours=1))
    for hour in range(3):
        engine.route(quotes(spark, (str(hour), "NYSE", 1, "a", 1.0, 1.0)))
        now[0] += timedelta(hours=1)
    assert delivered(engine) == [("alice", "0"), ("alice", "1")]


def test_a_clock_that_goes_back_stands_still(spark: SparkSession, make_engine: Callable[..., Engine]) -> None:
    now = [datetime(2026, 1, 5, tzinfo=UTC)]
    engine = make_engine(clock=lambda: now[0])
    engine.subscribe("alice", "TRUE", expires_at=now[0] - timedelta(minutes=30))
    engine.subscribe("bob", "TRUE")
    engine.route(quotes(spark, ("1", "NYSE", 1, "a", 1.0, 1.0)))
    now[0] -= timedelta(hours=1)
    engine.route(quotes(spark, ("2", "NYSE", 1, "a", 1.0, 1.0)))
    engine = make_engine(reopen=True, clock=lambda: now[0])
    engine.route(quotes(spark, ("1", "NYSE", 1, "a", 1.0, 1.0), ("3", "NYSE", 1, "a", 1.0, 1.0)))
    assert delivered(engine) == [("bob", "1"), ("bob", "2"), ("bob", "3")]
    times = engine.tables.read("notifications").select(F.unix_seconds("delivered_at")).distinct().collect()
    assert [row[0] for row in times] == [int(datetime(2026, 1, 5, tzinfo=UTC).timestamp())]


def test_a_table_that_was_set_back_is_not_gone_on_from_in_silence(
    spark: SparkSession, make_engine: Callable[..., Engine]
) -> None:
    engine = make_engine()
    engine.subscribe("alice", "TRUE")
    for id in ("1", "2", "3"):
        engine.route(quotes(spark, (id, "NYSE", 1, "a", 1.0, 1.0)))
    engine.close()
    for table, version in (("notifications", 2), ("batches", 1)):
        engine.tables.delta(table).restoreToVersion(version)
        with pytest.raises(TableRestored, match=rf"{table}: set back to an older version .* --accept-restored"):
            make_engine(reopen=True).route(quotes(spark, ("9", "NYSE", 1, "a", 1.0, 1.0)))
        # Those that had begun before it was set back are told at their next start.
        again = make_engine(reopen=True, accept_restored=True)
        report = again.route(quotes(spark, (f"after {table}", "NYSE", 1, "a", 1.0, 1.0)))
        assert report.ordinal == (4 if table == "notifications" else 5)
        again.close()
    assert make_engine(reopen=True).route(quotes(spark, ("9", "NYSE", 1, "a", 1.0, 1.0))).ordinal == 6
    assert delivered(engine) == [("alice", id) for id in ("1", "2", "9", "after batches", "after notifications")]
    numbers = engine.tables.read("notifications").select("sequence").collect()
    assert len({row[0] for row in numbers}) == 5


def test_no_subscriptions_and_no_events(spark: SparkSession, engine: Engine) -> None:
    assert engine.route(quotes(spark, ("1", "NYSE", 1, "a", 1.0, 1.0))).counts["notifications"] == 0
    assert engine.route(quotes(spark)).counts == {"events": 0, "admitted": 0, "refused": 0, "notifications": 0}


def test_the_udf_sees_each_event_once(spark: SparkSession, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spark.sparkContext.accumulator(0)

    def counted(standing: Standing, change: Any) -> Any:
        assert change is None

        def match(batches: Any) -> Any:
            for attributes in batches:
                seen.add(len(attributes))
                yield from matches(pa.RecordBatch.from_struct_array(attributes), roster(standing))

        match.__annotations__ = {"batches": Iterator[pa.Array], "return": Iterator[pa.Array]}
        return arrow_udf(match, MATCHED)

    monkeypatch.setattr("routing.snapshot.matcher", counted)
    engine.subscribe("alice", "price > 2")
    engine.subscribe("bob", "TRUE")
    engine.route(quotes(spark, *[(str(n), "NYSE", 1, "x", float(n), 1.0) for n in range(50)]))
    assert seen.value == 50


def test_only_referenced_columns_reach_python(spark: SparkSession, engine: Engine) -> None:
    from routing.matching.match import arrow_schema, referenced

    schema = quotes(spark).schema
    found = referenced(["price", "nothing", "id"], schema, "columns", without=frozenset({"id"}))
    assert arrow_schema(found).names == ["price"]


@pytest.mark.parametrize("payload", ["embed", "reference"])
@pytest.mark.parametrize("layout", ["consumer", "bucket"])
def test_layouts_and_payloads_read_the_same(
    spark: SparkSession, make_engine: Callable[..., Engine], layout: str, payload: str
) -> None:
    engine = make_engine(notifications={"layout": layout, "payload": payload})
    for name in ("alice", "bob", "Bob", "a/b=c", "é 😀", "x" * 500, "it's", "`", "..", "NULL"):
        engine.subscribe(name, "TRUE")
    engine.route(quotes(spark, ("1", "NYSE", 1, "DIS", 1.5, None), ("2", "NYSE", 2, "IBM", 2.5, None)))
    for name in ("alice", "Bob", "a/b=c", "é 😀", "x" * 500, "it's", "`", "..", "NULL"):
        assert [row["event_id"] for row in engine.notifications(name).collect()] == ["1", "2"], name
    rows = spark.sql(
        f"SELECT symbol, price FROM {engine.config.database}.notifications_quotes WHERE consumer = 'bob' ORDER BY sequence"
    ).collect()
    assert [tuple(row) for row in rows] == [("DIS", 1.5), ("IBM", 2.5)]


def test_the_journal_may_keep_keys_only_or_nothing(spark: SparkSession, make_engine: Callable[..., Engine]) -> None:
    keys = make_engine(journal="keys")
    keys.route(quotes(spark, ("1", "NYSE", 1, "DIS", 1.5, None)))
    (row,) = keys.tables.read("events").select("event_id", F.col("event").isNull().alias("empty")).collect()
    assert tuple(row) == ("1", True)
    assert keys.route(quotes(spark, ("1", "NYSE", 1, "DIS", 1.5, None))).counts["refused"] == 1
    off = make_engine(reopen=True, journal="off", duplicates={"horizon": "0 days"})
    off.route(quotes(spark, ("9", "NYSE", 1, "DIS", 1.5, None)))
    assert off.tables.read("events").count() == 1


def test_calls_that_cannot_be_right_say_why(spark: SparkSession, engine: Engine) -> None:
    with pytest.raises(FilterError, match="column 8"):
        engine.subscribe("alice", "price >")
    for name in ("", "__HIVE_DEFAULT_PARTITION__"):
        with pytest.raises(SubscriptionError, match="cannot be a consumer's name"):
            engine.subscribe(name, "TRUE")
    with pytest.raises(SubscriptionError, match="Did you mean 'filter'"):
        engine.subscribe_many(spark.createDataFrame([("a", "b")], "consumer string, filtr string"))
    with pytest.raises(SubscriptionError, match="need a column 'filter'"):
        engine.subscribe_many(spark.createDataFrame([("a",)], "consumer string"))
    with pytest.raises(ConfigError, match="Did you mean 'quotes'"):
        engine.route(quotes(spark), source="quote")
    with pytest.raises(SourceError, match="id column 'id' is not in the source"):
        engine.route(spark.createDataFrame([(1,)], "x int"))
    assert engine.tables.version("subscriptions") == 0
