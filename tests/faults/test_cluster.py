"""A standalone cluster of two workers: the compiled subscriptions reach each executor once per version."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from routing.java import spark_environment

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent

JOB = """
import json, sys
from pathlib import Path
import routing

warehouse, local = sys.argv[1:]
source = {"format": "json", "path": warehouse + "/in", "id": "id", "publisher_name": "p"}
engine = routing.open(config={"warehouse": warehouse, "sources": {"s": source}})
spark = engine.spark

def copies():
    return {str(d.parent): sorted(f"{f.name}:{f.stat().st_ctime_ns}" for f in d.iterdir() if len(f.name) == 32)
            for d in Path(local).glob("**/sluice-programs")}

def route(first):
    events = spark.range(first, first + 4000, 1, 8).selectExpr("cast(id as string) id", "id % 100 as x")
    return engine.route(events).counts["notifications"], copies()

rows = [(f"c{n % 7}", f"x = {n % 100}") for n in range(2000)]
engine.subscribe_many(spark.createDataFrame(rows, "consumer string, filter string"))
steps = [route(0), route(4000)]
engine.subscribe("late", "x < 50")
steps.append(route(8000))
print("STEPS " + json.dumps(steps), flush=True)
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    environment = {**os.environ, **spark_environment(), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT)}
    port, web = free_port(), free_port()
    address = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    started = [start([*master, "--webui-port", str(web)], environment, tmp_path / "master.log")]
    try:
        for number in (1, 2):
            own = {**environment, "SPARK_LOCAL_DIRS": str(tmp_path / "local" / str(number))}
            worker = ["org.apache.spark.deploy.worker.Worker", address, "--host", "127.0.0.1", "--cores", "1"]
            where = ["--memory", "1g", "--webui-port", str(free_port()), "--work-dir", str(tmp_path / f"work{number}")]
            started.append(start([*worker, *where], own, tmp_path / f"worker{number}.log"))
        wait_for_workers(f"http://127.0.0.1:{web}/json/", 2)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def start(command: list[str], environment: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        return subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), *command], env=environment, stdout=out, stderr=out
        )


def wait_for_workers(address: str, count: int) -> None:
    until = time.monotonic() + 300
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5) as page:
            if json.load(page)["aliveworkers"] == count:
                return
        assert time.monotonic() < until, f"{count} workers have not come up"
        time.sleep(0.5)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def test_the_index_reaches_each_executor_once_per_version(cluster: str, tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB)
    settings = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster, *options, str(job),
         str(tmp_path / "warehouse"), str(tmp_path / "local")],
        env={**os.environ, **spark_environment(), "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("STEPS ")]
    (first, once), (second, again), (third, later) = json.loads(line.removeprefix("STEPS "))
    assert (first, second, third) == (4000 * 7, 4000 * 7, 4000 * 7 + 2000)
    assert len(once) == 2  # executors, each with a directory of its own
    assert all(len(files) == 2 for files in once.values())  # the program and its consumers
    assert again == once  # nothing was copied again
    for executor, files in later.items():
        assert set(once[executor]) < set(files)
        assert len(files) == 4  # the change came by itself
