"""Streams: every format, columns that appear in mid-stream, what is malformed, several sources, restarts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from routing.engine import Engine
from routing.errors import SourceError
from routing.model import Report


def drain(engine: Engine) -> list[Report]:
    reports: list[Report] = []
    engine.on_batch = reports.append
    engine.start().await_termination()
    return reports


def lines(path: Path, *events: dict[str, Any] | str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{event if isinstance(event, str) else json.dumps(event)}\n" for event in events))


def quote(id: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "exchange": "NYSE", "at": "2026-01-05T10:00:00Z", **more}


def got(engine: Engine, consumer: str) -> list[str]:
    return sorted(row["event_id"] for row in engine.notifications(consumer).collect())


def test_json_lines_and_a_column_that_appears_in_mid_stream(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = make_engine()
    engine.subscribe("late", "rating = 'A' AND venue.floor > 2")
    engine.subscribe("price", "price > 10")
    lines(
        tmp_path / "feed" / "1 [odd] {name}.json",
        quote("1", price=11),
        quote("2", price=9),
        "{rubbish",
        "",
        '{"id": "3"} {"id": "4"}',
        "[1]",
        quote("8", note="not } { two", price=1),
        '{"id": "9"} tail',
    )
    (first,) = drain(engine)
    assert first.counts == {"events": 7, "admitted": 3, "refused": 4, "notifications": 1}
    warned = {row["reason"] for row in engine.tables.read("rejections").collect()}
    assert any("'rating'" in reason for reason in warned) and any("'venue.floor'" in reason for reason in warned)
    lines(
        tmp_path / "feed" / "2.json",
        quote("5", price=12.5, rating="A", venue={"floor": 3}),
        quote("6", price="n/a"),
        quote(7, price=None),
    )
    (second,) = drain(engine)
    assert second.counts == {"events": 3, "admitted": 2, "refused": 1, "notifications": 2}
    assert got(engine, "price") == ["1", "5"] and got(engine, "late") == ["5"]
    assert engine.tables.read("rejections").count() == 0
    refused = {row["raw"]: row["detail"] for row in engine.tables.read("dead_letters").collect()}
    assert refused["{rubbish"] == "not a JSON object" and refused["[1]"] == "not a JSON object"
    assert refused['{"id": "3"} {"id": "4"}'] == "more than one JSON object in a line"
    assert refused[json.dumps(quote("6", price="n/a"))] == "a value does not fit the type of its column"
    typed = engine.notifications("price", source="quotes")
    assert dict(typed.dtypes)["price"] == "double" and dict(typed.dtypes)["rating"] == "string"
    assert drain(engine) == []


def test_one_wrong_value_does_not_decide_the_type_of_a_column(
    make_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = make_engine()
    engine.subscribe("alice", "price > 10 AND open AND volume = 5")
    engine.subscribe("bob", "venue.country = 'US'")
    good = [quote(str(n), price=n + 0.5, open=True, volume=5, note=None, venue={"country": "US"}) for n in range(20)]
    lines(tmp_path / "feed" / "1.json", *good, quote("x", price="n/a", open="yes", volume="?", venue="n/a"))
    (report,) = drain(engine)
    assert report.counts["refused"] == 1 and len(got(engine, "alice")) == 10 and len(got(engine, "bob")) == 20


def test_names_that_differ_in_case_or_look_like_ours(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = make_engine()
    engine.subscribe("upper", "Price = 1")
    engine.subscribe("lower", "price = 2")
    engine.subscribe("shadow", "consumer = 'me' AND `event` = 'e' AND `raw` = 'r' AND `odd name` = 1 AND `it's` = 1")
    lines(
        tmp_path / "feed" / "1.json",
        quote(
            "1", Price=1, price=2, consumer="me", event="e", raw="r", sequence=0, **{"odd name": 1, "it's": 1, "a`b": 1}
        ),
    )
    drain(engine)
    assert {name: got(engine, name) for name in ("upper", "lower", "shadow")} == {
        "upper": ["1"],
        "lower": ["1"],
        "shadow": ["1"],
    }
    columns = engine.notifications("shadow", source="quotes").columns
    assert (
        "event_consumer" in columns and "event_sequence" in columns and "odd name" in columns and "a`b" not in columns
    )


def test_csv_with_a_header_that_grows(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    source = {"format": "csv", "path": str(tmp_path / "feed"), "id": "id", "publisher": "exchange", "time": "at"}
    engine = make_engine(sources={"quotes": source})
    engine.subscribe("alice", "price >= 10")
    engine.subscribe("bob", "sector = 'media'")
    lines(
        tmp_path / "feed" / "1.csv",
        "id,exchange,at,price",
        "1,NYSE,2026-01-05T10:00:00Z,10.5",
        "2,NYSE,2026-01-05T10:00:01Z,oops",
        "3,NYSE,2026-01-05T10:00:02Z,12,13",
    )
    lines(
        tmp_path / "feed" / "0.csv", "id,exchange,at,price", *[f"{n},LSE,2026-01-05T10:00:00Z,{n}.25" for n in range(5)]
    )
    (first,) = drain(engine)
    # Spark infers a string for a column with a word in it; a schema in the configuration says what it is.
    lines(tmp_path / "feed" / "2.csv", "id,exchange,at,price,sector", "4,NYSE,2026-01-05T10:00:03Z,15,media")
    lines(tmp_path / "feed" / "3.csv", "exchange,id,at", "NYSE,5,2026-01-05T10:00:04Z")
    (second,) = drain(engine)
    assert first.counts["refused"] == 1 and second.counts["admitted"] == 2
    assert got(engine, "bob") == ["4"]


def test_a_first_file_of_rubbish_does_not_stop_the_stream(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = make_engine()
    engine.subscribe("alice", "TRUE")
    lines(tmp_path / "feed" / "1.json", "{rubbish", "more of it")
    (first,) = drain(engine)
    assert first.counts["refused"] == 2
    lines(
        tmp_path / "feed" / "2.json",
        "  " + json.dumps(quote("0")) + " \t",
        " \t",
        quote("1", **{"_corrupt_record": "x", "__sluice_unreadable": "y"}),
    )
    drain(engine)
    assert got(engine, "alice") == ["0", "1"]


def test_a_time_that_is_no_time_refuses_its_row_alone(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = make_engine()
    engine.subscribe("alice", "TRUE")
    lines(
        tmp_path / "feed" / "1.json",
        {**quote("1"), "at": 1767607200.5},
        {**quote("2"), "at": 1e300},
        '{"id": "3", "exchange": "X", "at": NaN}',
    )
    drain(engine)
    assert "1" in got(engine, "alice")
    assert engine.tables.read("dead_letters").where("event_id = '3'").first()["reason"] == "missing_time"


def test_csv_files_that_are_empty_or_have_odd_headers(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    source = {
        "format": "csv",
        "path": str(tmp_path / "feed"),
        "id": "id",
        "publisher_name": "desk",
        "schema": "id STRING, price DOUBLE",
    }
    engine = make_engine(sources={"quotes": source})
    engine.subscribe("alice", "price >= 10")
    lines(tmp_path / "feed" / "0.csv")
    drain(engine)
    lines(tmp_path / "feed" / "1.csv", "id,price,,price", "1,10.5,x,y")
    (tmp_path / "feed" / "2.csv").write_text("id,price\r\n2,11\r\n")
    lines(tmp_path / "feed" / "3.csv", "id,price", "3,12")
    drain(engine)
    assert got(engine, "alice") == ["2", "3"]  # of two columns called price neither is price


def test_csv_with_a_schema(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    source = {
        "format": "csv",
        "path": str(tmp_path / "feed"),
        "id": "id",
        "publisher_name": "desk",
        "schema": "id STRING, price DOUBLE",
    }
    engine = make_engine(sources={"quotes": source})
    engine.subscribe("alice", "price >= 10")
    lines(tmp_path / "feed" / "1.csv", "id,price", "1,10.5", "2,oops", "3,9")
    (report,) = drain(engine)
    assert report.counts == {"events": 3, "admitted": 2, "refused": 1, "notifications": 1}


def test_parquet_whose_files_differ(spark: SparkSession, make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    source = {
        "format": "parquet",
        "path": str(tmp_path / "feed"),
        "id": "id",
        "publisher": "meta.exchange",
        "time": "at",
    }
    engine = make_engine(sources={"quotes": source})
    engine.subscribe("alice", "price > 1.5 AND meta.tier = 1")
    engine.subscribe("bob", "sector = 'media'")

    def publish(name: str, sql: str) -> None:
        spark.sql(
            f"SELECT named_struct('exchange', 'NYSE', 'tier', 1) AS meta, TIMESTAMP '2026-01-05 10:00:00' AS at, {sql}"
        ).coalesce(1).write.parquet(str(tmp_path / name))
        for file in (tmp_path / name).glob("*.parquet"):
            shutil.move(file, tmp_path / "feed" / f"{name}.parquet")

    publish("one", "'1' AS id, CAST(2.0 AS DECIMAL(10,2)) AS price")
    drain(engine)
    publish("two", "'2' AS id, CAST(1.0 AS DECIMAL(10,2)) AS price, 'media' AS sector")
    publish("three", "'3' AS id, CAST(9.0 AS DECIMAL(10,2)) AS price")
    drain(engine)
    assert got(engine, "alice") == ["1", "3"] and got(engine, "bob") == ["2"]


def test_a_delta_table_that_gains_a_column_while_it_is_followed(
    spark: SparkSession, make_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    path = str(tmp_path / "quotes")
    source = {
        "format": "delta",
        "path": path,
        "id": "id",
        "publisher_name": "desk",
        "options": {"maxFilesPerTrigger": 1},
    }
    engine = make_engine(sources={"quotes": source})
    engine.subscribe("alice", "price > 1")
    engine.subscribe("bob", "sector = 'media'")
    spark.sql("SELECT '1' AS id, 2.5D AS price").write.format("delta").save(path)
    drain(engine)
    spark.sql("SELECT '2' AS id, 3.5D AS price").write.format("delta").mode("append").save(path)
    spark.sql("SELECT '3' AS id, 0.5D AS price, 'media' AS sector").write.format("delta").mode("append").option(
        "mergeSchema", "true"
    ).save(path)
    drain(engine)
    assert got(engine, "alice") == ["1", "2"] and got(engine, "bob") == ["3"]


def test_a_variant_column_compares_by_the_type_of_each_value(spark: SparkSession, engine: Engine) -> None:
    bodies = [
        '{"x": 5}',
        '{"x": "5"}',
        '{"x": 5.0}',
        '{"x": 9007199254740993}',
        '{"x": true}',
        '{"x": null}',
        "{}",
        '{"x": {"y": [1]}}',
        '{"x": 5e0}',
    ]
    rows = spark.createDataFrame(
        [(str(n), "NYSE", "2026-01-05", body) for n, body in enumerate(bodies)],
        "id string, exchange string, at string, body string",
    )
    for name, filter in {"number": "body.x = 5", "text": "body.x = '5'", "big": "body.x = 9007199254740993", "flag": "body.x", "none": "body.x IS NULL",
                         "some": "body.x IS NOT NULL", "other": "body.x <> 5", "deep": "body.x.y IS NOT NULL", "whole": "body IS NOT NULL"}.items():  # fmt: skip
        engine.subscribe(name, filter)
    engine.route(rows.selectExpr("id", "exchange", "at", "parse_json(body) AS body"))
    found = {
        name: got(engine, name) for name in ("number", "text", "big", "flag", "none", "some", "other", "deep", "whole")
    }
    assert found == {"number": ["0", "2", "8"], "text": ["1"], "big": ["3"], "flag": ["4"], "none": ["5", "6"], "some": ["0", "1", "2", "3", "4", "7", "8"],
                     "other": ["3"], "deep": ["7"], "whole": [str(n) for n in range(len(bodies))]}  # fmt: skip


def test_several_sources_feed_one_engine(
    spark: SparkSession, make_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    sources = {
        "quotes": {"format": "json", "path": str(tmp_path / "feed"), "id": "id", "publisher": "exchange", "time": "at"},
        "news": {
            "format": "json",
            "path": str(tmp_path / "news"),
            "id": "key",
            "publisher_name": "wire",
            "options": {"maxFilesPerTrigger": 1},
        },
    }
    engine = make_engine(sources=sources)
    engine.subscribe("alice", "price > 1 OR headline LIKE '%rate%'")
    lines(tmp_path / "feed" / "1.json", quote("1", price=2))
    lines(tmp_path / "news" / "1.json", {"key": "n1", "headline": "rates rise"})
    lines(tmp_path / "news" / "2.json", {"key": "n2", "headline": "rates fall"})
    reports = drain(engine)
    assert sorted(report.ordinal for report in reports) == [1, 2, 3] and {report.source for report in reports} == {
        "quotes",
        "news",
    }
    assert got(engine, "alice") == ["1", "n1", "n2"]
    assert sorted(row["headline"] for row in engine.notifications("alice", source="news").collect()) == [
        "rates fall",
        "rates rise",
    ]
    assert engine.tables.read("rejections").count() == 0


def test_a_new_generation_after_a_lost_checkpoint_delivers_nothing_twice(
    make_engine: Callable[..., Engine], tmp_path: Path
) -> None:
    engine = make_engine()
    engine.subscribe("alice", "TRUE")
    lines(tmp_path / "feed" / "1.json", quote("1"), quote("2"))
    drain(engine)
    shutil.rmtree(tmp_path / "warehouse" / engine.config.database / "_checkpoints")
    lines(tmp_path / "feed" / "2.json", quote("3"))
    (report,) = drain(make_engine(reopen=True))
    assert report.counts["admitted"] == 1 and not report.retry and got(engine, "alice") == ["1", "2", "3"]


def test_the_ledger_says_how_each_batch_went(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = make_engine(clock=lambda: datetime(2026, 1, 5, tzinfo=UTC))
    lines(tmp_path / "feed" / "1.json", quote("1"))
    drain(engine)
    rows = {row["state"]: row for row in engine.tables.read("batches").collect()}
    assert rows["opened"]["control_versions"]["subscriptions"] == 0 and rows["opened"]["output_versions"]["events"] == 0
    assert rows["closed"]["counts"] == {"events": 1, "admitted": 1, "refused": 0, "notifications": 0}


def test_a_source_that_is_not_there_is_named(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    source = {"format": "json", "path": str(tmp_path / "nowhere"), "id": "id", "publisher_name": "x"}
    with pytest.raises(SourceError, match=r"source quotes: .*nowhere"):
        make_engine(sources={"quotes": source}).start()


def test_an_empty_source_is_no_error(make_engine: Callable[..., Engine]) -> None:
    assert drain(make_engine()) == []


def test_a_missing_id_column_stops_the_stream_with_its_name(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    engine = make_engine(
        sources={"quotes": {"format": "json", "path": str(tmp_path / "feed"), "id": "idd", "publisher": "exchange"}}
    )
    lines(tmp_path / "feed" / "1.json", quote("1"))
    with pytest.raises(SourceError, match=r"id column 'idd' is not in the source. Did you mean 'id'"):
        drain(engine)
