"""Real processes: a job under spark-submit, users in processes of their own, and signals."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from routing.java import spark_environment

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


class Job:
    """A running `spark-submit jobs/route.py`, in a process group of its own."""

    def __init__(self, config: Path) -> None:
        command = [str(BIN / "spark-submit"), str(ROOT / "jobs" / "route.py"), "--config", str(config)]
        self.process = subprocess.Popen(
            command,
            env=spark_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def wait_for(self, start: str, timeout: float = 300) -> str:
        """The next line that starts like this."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            try:
                line = self._lines.get(timeout=1)
            except queue.Empty:
                continue
            if line is None:
                break
            self.said.append(line)
            if line.startswith(start):
                return line
        raise AssertionError(f"no line '{start}…' in: {''.join(self.said)}")

    def signal(self, number: int, *, group: bool) -> None:
        (os.killpg if group else os.kill)(self.process.pid, number)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "feed").mkdir()
    yield tmp_path


def configure(place: Path, **more: object) -> Path:
    source = {
        "format": "json",
        "path": str(place / "feed"),
        "id": "id",
        "publisher": "exchange",
        "time": "at",
        "options": {"maxFilesPerTrigger": 1},
    }
    file = place / "job.yaml"
    file.write_text(yaml.safe_dump({"warehouse": str(place / "warehouse"), "sources": {"quotes": source}, **more}))
    return file


def publish(place: Path, number: int, count: int = 3) -> None:
    rows = [{"id": f"{number}-{n}", "exchange": "NYSE", "at": "2026-01-05T10:00:00Z", "price": n} for n in range(count)]
    draft = place / f".{number}"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft.rename(place / "feed" / f"{number}.json")


def sql(config: Path, statement: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [str(BIN / "sluice"), "sql", "--json", "--config", str(config), statement],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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
