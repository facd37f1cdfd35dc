"""Jobs and commands in processes of their own, for the tests of faults."""

from __future__ import annotations

import json
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import yaml

import routing
from routing.engine import Engine
from routing.java import spark_environment
from routing.session import session

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
_numbers = count(1)
# These processes live for a minute: compiling further than the first tier costs more than it brings.
BRIEF = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class Job:
    """A running `spark-submit jobs/route.py`, in a process group of its own."""

    def __init__(
        self, config: Path, *, script: str = "jobs/route.py", largest: int | None = None, **environment: str
    ) -> None:
        """`largest`: files beyond so many bytes cannot be written, as on a disk that is full."""
        limit = (largest, largest) if largest else resource.getrlimit(resource.RLIMIT_FSIZE)
        command = [str(BIN / "spark-submit"), str(ROOT / script), "--config", str(config)]
        self.process = subprocess.Popen(
            command,
            env={**spark_environment(), **BRIEF, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
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

    def output(self, timeout: float = 300) -> str:
        """All that it says until it ends."""
        self.process.wait(timeout)
        while (line := self._lines.get(timeout=30)) is not None:
            self.said.append(line)
        return "".join(self.said)

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


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
        env={**os.environ, **BRIEF},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def looking(config: Path) -> Engine:
    """An engine on the tables, in a session of this process, by another name: in one catalog a name has one place."""
    settings = yaml.safe_load(config.read_text())
    name, warehouse = f"look{next(_numbers)}", Path(settings["warehouse"])
    (warehouse / name).symlink_to(warehouse / "sluice")
    return routing.open(session(name="sluice-faults", brief=True), {**settings, "database": name})


def checked(config: Path) -> list[dict[str, Any]]:
    """What the checker says of each property."""
    return [asdict(finding) for finding in looking(config).check()]


def kill_workers(job: Job) -> int:
    """Kill the job's Python workers; how many there were."""
    killed = 0
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes()
            if b"pyspark.daemon" in command and os.getsid(int(process.name)) == job.process.pid:
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
        except (OSError, ValueError):
            continue
    return killed
