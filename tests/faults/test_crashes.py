"""Killed at every step of a batch, and started again: nothing lost, nothing twice, nothing torn.

What the tables hold afterwards is compared, row by row, with what a job that was never killed has written.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from routing.crash import POINTS
from tests.faults.jobs import Job, checked, configure, kill_workers, looking, sql

SETUP = """
INSERT INTO sluice.scopes (scope, publishing) VALUES ('desk', 'rate_limit(40, 20000 days)'), ('firm', NULL);
INSERT INTO sluice.scope_edges (child, parent) VALUES ('NYSE', 'desk'), ('bob', 'desk'), ('ann', 'firm');
INSERT INTO sluice.scope_edges (child, parent, up_filter, up_mapping)
    VALUES ('desk', 'firm', 'price > 1', 'half = 100 / (price - 5), DROP secret');
INSERT INTO sluice.subscriptions (consumer, filter, id)
    VALUES ('bob', 'price < 30', 'low'), ('bob', 'price >= 3', 'some'), ('ann', 'TRUE', 'all'), ('eve', 'TRUE', 'none')
"""
TABLES = {
    "notifications": "consumer, sequence, batch, event_id, path, subscription_ids, CAST(event AS STRING) AS event",
    "events": "batch, event_id, publisher, CAST(event AS STRING) AS event",
    "dead_letters": "batch, reason, detail, raw, copies, event_id",
    "policy_state": "batch, scope, key, value",
}


def write(feed: Path, number: int) -> None:
    """Forty events, of which some came before, some come with another content, and some cannot be read."""
    rows = [
        {
            "id": str(n),
            "exchange": "NYSE",
            "at": f"2026-01-05T10:{n // 60:02}:{n % 60:02}Z",
            "price": n % 37,
            "secret": n,
        }
        for n in range(30 * number, 30 * number + 40)
    ]
    broken = ["{", '{"exchange": "NYSE"}', json.dumps({**rows[3], "price": 99})]
    draft = feed.parent / f".{number}"
    draft.write_text("\n".join([*map(json.dumps, rows), *broken]) + "\n")
    moment = time.time() - 10_000 + number  # Spark takes files in the order of their times
    os.utime(draft, (moment, moment))
    draft.rename(feed / f"{number}.json")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with a feed of three files, subscriptions and scopes, where no job has run yet."""
    place = tmp_path_factory.mktemp("start")
    (place / "feed").mkdir()
    for number in range(3):
        write(place / "feed", number)
    sql(configure(place), SETUP)
    return place


@pytest.fixture(scope="module")
def wanted(start: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a job writes that nobody kills."""
    place = copied(start, tmp_path_factory.mktemp("wanted"))
    drain(place)
    return facts(place)


def copied(start: Path, place: Path) -> Path:
    ignored = shutil.ignore_patterns("register.sql", "_locks", "*.yaml")
    shutil.copytree(start, place, ignore=ignored, dirs_exist_ok=True)
    return place


def drain(place: Path, **how: str) -> None:
    job = Job(configure(place, trigger="once"), **how)
    try:
        job.wait_for("drained")
        job.process.wait(60)
    finally:
        job.end()


def killed(place: Path, point: str) -> None:
    job = Job(configure(place, trigger="once"), SLUICE_CRASH=point)
    try:
        said = job.output()
        assert job.process.returncode == -signal.SIGKILL, said
    finally:
        job.end()


def facts(place: Path) -> dict[str, Any]:
    """Every row of the tables that a job writes, but for the clocks."""
    tables, found = looking(place / "job.yaml").tables, {}
    for name, columns in TABLES.items():
        rows = tables.read(name).selectExpr(*columns.split(", ")).toJSON().collect()
        found[name] = sorted(json.dumps(json.loads(row), sort_keys=True) for row in rows)
    return found


def test_the_system_exercises_everything(wanted: dict[str, Any]) -> None:
    assert all(wanted.values())
    assert {json.loads(row)["reason"] for row in wanted["dead_letters"]} >= {
        "malformed",
        "duplicate",
        "conflict",
        "mapping",
    }
    assert {json.loads(row)["consumer"] for row in wanted["notifications"]} == {"ann", "bob"}
    assert {json.loads(row)["batch"] for row in wanted["notifications"]} == {1, 2, 3}
    seen = [json.loads(row) for row in wanted["notifications"]]
    assert not any("secret" in row["event"] for row in seen if row["consumer"] == "ann")
    assert len({(row["consumer"], row["sequence"]) for row in seen}) == len(seen)


def test_killed_at_every_point_in_turn(start: Path, tmp_path: Path, wanted: dict[str, Any]) -> None:
    """The second batch comes to each point once more, and is killed there; what was written before is found again."""
    place = copied(start, tmp_path)
    for place_in_line, point in enumerate(POINTS):
        killed(place, f"{point}:{1 if place_in_line else 2}")
    drain(place)
    assert facts(place) == wanted
    assert [one for one in checked(place / "job.yaml") if one["verdict"] != "holds"] == []


def test_without_a_memory_of_its_commits_the_checker_finds_duplicates(start: Path, tmp_path: Path) -> None:
    """The control: what the other tests prove absent is found where it is there."""
    place = copied(start, tmp_path)
    killed(place, "notifications:2")
    drain(place, script="tests/careless.py")
    found = {one["property"]: one for one in checked(place / "job.yaml")}
    assert {name for name, one in found.items() if one["verdict"] == "violated"} >= {"at_most_once", "whole_batches"}
    assert found["at_most_once"]["rows"]


def test_killed_workers_are_started_again(start: Path, tmp_path: Path, wanted: dict[str, Any]) -> None:
    place = copied(start, tmp_path)
    job = Job(configure(place, trigger="once"))
    try:
        job.wait_for("batch=1")
        assert kill_workers(job)
        job.wait_for("drained")
        job.process.wait(60)
    finally:
        job.end()
    assert facts(place) == wanted


def test_a_full_disk_stops_the_job_and_loses_nothing(start: Path, tmp_path: Path, wanted: dict[str, Any]) -> None:
    """The events of one more file do not fit into the journal; later there is room."""
    place = copied(start, tmp_path)
    large = {"id": "large", "exchange": "NYSE", "at": "2026-01-05T11:00:00Z", "price": 3, "secret": 1}
    text = random.Random(1).randbytes(3_000_000).hex()
    (place / "feed" / "9.json").write_text(json.dumps({**large, "text": text}) + "\n")
    job = Job(configure(place, trigger="once"), largest=2_000_000)
    try:
        said = job.output()
        assert job.process.returncode == 1 and "File too large" in said, said[-3000:]
    finally:
        job.end()
    drain(place)
    found = facts(place)
    assert [row for row in to_bob(found) if row[0] != "large"] == to_bob(wanted)
    assert [row[0] for row in to_bob(found)].count("large") == 1
    assert [one for one in checked(place / "job.yaml") if one["verdict"] != "holds"] == []


def test_a_truncated_checkpoint_says_what_to_do(start: Path, tmp_path: Path, wanted: dict[str, Any]) -> None:
    place = copied(start, tmp_path)
    killed(place, "notifications:2")
    checkpoint = place / "warehouse" / "sluice" / "_checkpoints" / "quotes"
    (checkpoint / "offsets" / "1").write_text("")
    (checkpoint / "offsets" / ".1.crc").unlink(missing_ok=True)
    job = Job(configure(place, trigger="once"))
    try:
        said = job.output()
    finally:
        job.end()
    assert job.process.returncode == 1 and f"Move {checkpoint}" in said, said
    shutil.rmtree(checkpoint)
    drain(place)
    assert to_bob(facts(place)) == to_bob(wanted)


def test_a_deleted_checkpoint_begins_anew_and_doubles_nothing(
    start: Path, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    place = copied(start, tmp_path)
    killed(place, "journal:2")
    shutil.rmtree(place / "warehouse" / "sluice" / "_checkpoints")
    drain(place)
    assert to_bob(facts(place)) == to_bob(wanted)
    assert [one for one in checked(place / "job.yaml") if one["verdict"] != "holds"] == []


def test_a_retry_sees_the_control_tables_as_they_were(start: Path, tmp_path: Path, wanted: dict[str, Any]) -> None:
    place = copied(start, tmp_path)
    killed(place, "journal:2")
    sql(
        place / "job.yaml",
        "DELETE FROM sluice.subscriptions WHERE consumer = 'ann'; UPDATE sluice.scopes SET publishing = NULL; "
        "INSERT INTO sluice.subscriptions (consumer, filter, id) VALUES ('bob', 'price = 1', 'late')",
    )
    drain(place)
    found = {name: [json.loads(row) for row in rows] for name, rows in facts(place).items()}
    before = [json.loads(row) for row in wanted["notifications"]]
    assert [row for row in found["notifications"] if row["batch"] <= 2] == [row for row in before if row["batch"] <= 2]
    later = [row for row in found["notifications"] if row["batch"] > 2]
    assert {row["consumer"] for row in later} == {"bob"}
    assert "late" in {id for row in later for id in row["subscription_ids"]}


def to_bob(found: dict[str, Any]) -> list[tuple[str, str]]:
    """What bob got, whom no policy keeps anything from: batches may have been cut in another way."""
    rows = [json.loads(row) for row in found["notifications"]]
    return sorted((row["event_id"], row["event"]) for row in rows if row["consumer"] == "bob")


def test_a_second_job_is_told_that_there_is_one(start: Path, tmp_path: Path, wanted: dict[str, Any]) -> None:
    place = copied(start, tmp_path)
    config = configure(place, trigger="1 second")
    first = Job(config)
    try:
        first.wait_for("routing")
        second = Job(config)
        said = second.output()
        assert second.process.returncode == 1, said
        assert "another job is routing quotes" in said
        for _ in range(3):
            first.wait_for("batch=")
        first.signal(signal.SIGTERM, group=False)
        first.process.wait(60)
    finally:
        first.end()
    assert facts(place) == wanted


def test_a_checkpoint_that_lost_a_part_loses_and_doubles_nothing(
    start: Path, tmp_path: Path, wanted: dict[str, Any]
) -> None:
    """Spark makes another batch, with more files, under the number of the one that was delivered."""
    place = copied(start, tmp_path)
    killed(place, "notifications:2")
    offsets = place / "warehouse" / "sluice" / "_checkpoints" / "quotes" / "offsets"
    (offsets / "1").unlink()
    (offsets / ".1.crc").unlink(missing_ok=True)
    drain(place)
    assert to_bob(facts(place)) == to_bob(wanted)
