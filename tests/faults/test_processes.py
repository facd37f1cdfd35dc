"""Real processes: a job under spark-submit, users in processes of their own, and signals."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from routing.java import spark_environment
from tests.faults.jobs import BIN, Job, configure, publish, sql


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "feed").mkdir()
    yield tmp_path


def test_rows_inserted_by_other_processes_are_honoured_by_the_next_batch(place: Path) -> None:
    config = configure(place, trigger="1 second")
    sql(config, "INSERT INTO sluice.subscriptions (consumer, filter) VALUES ('early', 'price >= 1')")
    job = Job(config)
    try:
        job.wait_for("routing")
        publish(place, 1)
        assert "notifications=2" in job.wait_for("batch=1")
        sql(
            config,
            "INSERT INTO sluice.subscriptions (consumer, filter) VALUES ('alice', 'symbol = ''DIS'' AND change > 0'), ('late', 'price >= 2')",
        )
        publish(place, 2)
        assert "notifications=3" in job.wait_for("batch=2")
        shell = subprocess.run(
            [str(BIN / "spark-sql"), "-i", str(place / "warehouse" / "sluice" / "register.sql"), "-e",
             "INSERT INTO sluice.subscriptions (consumer, filter) VALUES ('shell', 'price = 0'); DELETE FROM sluice.subscriptions WHERE consumer = 'early'"],
            env=spark_environment(), capture_output=True, text=True, timeout=180, check=False, cwd=place,
        )  # fmt: skip
        assert shell.returncode == 0, shell.stderr
        publish(place, 3)
        assert "notifications=2" in job.wait_for("batch=3")
        job.signal(signal.SIGTERM, group=True)
        job.process.wait(60)
    finally:
        job.end()
    rows = sql(
        config, "SELECT consumer, count(*) AS n FROM sluice.notifications_quotes GROUP BY consumer ORDER BY consumer"
    )
    assert rows == [{"consumer": "early", "n": 4}, {"consumer": "late", "n": 2}, {"consumer": "shell", "n": 1}]


@pytest.mark.parametrize("group", [False, True], ids=["the driver", "its group"])
def test_sigterm_in_mid_batch_loses_and_doubles_nothing(place: Path, group: bool) -> None:
    config = configure(place, trigger="continuous")
    sql(config, "INSERT INTO sluice.subscriptions (consumer, filter) VALUES ('alice', 'TRUE')")
    for number in range(3):
        publish(place, number, 2000)
    job = Job(config)
    try:
        job.wait_for("routing")
        ledger = place / "warehouse" / "sluice" / "batches" / "_delta_log"
        until = time.monotonic() + 300
        while len(list(ledger.glob("*.json"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)  # the first batch is open now, and under way
        job.signal(signal.SIGTERM, group=group)
        job.process.wait(60)
    finally:
        job.end()
    configure(place, trigger="once")
    again = Job(config)
    try:
        again.wait_for("drained")
        again.process.wait(60)
    finally:
        again.end()
    rows = sql(config, "SELECT count(*) AS n, count(DISTINCT event_id) AS ids FROM sluice.notifications; "
                       "SELECT count(*) AS n FROM sluice.events; SELECT count(*) AS n FROM sluice.dead_letters; "
                       "SELECT count(DISTINCT ordinal) AS batches FROM sluice.batches")  # fmt: skip
    assert rows == [{"n": 6000, "ids": 6000}, {"n": 6000}, {"n": 0}, {"batches": 3}]
