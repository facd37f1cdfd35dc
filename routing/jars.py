"""The jars that PySpark does not ship: resolved once by Spark's own resolver, kept, and used from there ever after.

Law: a start never resolves anything that is already here. Required jars must be had; an optional one that cannot be had
is remembered with the reason, and nothing else fails.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from routing.errors import SetupError
from routing.java import spark_environment

# PySpark ships newer versions of these; fetching them would only cost time.
_SHIPPED = (
    "com.fasterxml.jackson.core",
    "com.fasterxml.jackson.datatype",
    "com.github.luben",
    "io.airlift",
    "org.apache.hadoop",
    "org.apache.logging.log4j",
    "org.apache.parquet",
    "org.slf4j",
    "org.xerial.snappy",
    "io.unitycatalog",
    "org.apache.spark",
)


@dataclass(frozen=True)
class Package:
    """A Maven coordinate, and the jars of its resolution that are worth keeping (by the start of their names)."""

    name: str
    coordinate: str
    keep: tuple[str, ...]
    required: bool
    gives: str


PACKAGES = (
    Package(
        "delta",
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        ("io.delta_delta-spark", "io.delta_delta-storage"),
        True,
        "Delta table",
    ),
    Package(
        "graphframes",
        "io.graphframes:graphframes-spark4_2.13:0.12.3",
        ("io.graphframes_",),
        False,
        "GraphFrame view of the brokers",
    ),
    Package(
        "kafka",
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        (
            "org.apache.spark_spark-sql-kafka",
            "org.apache.spark_spark-token-provider",
            "org.apache.kafka_",
            "org.apache.commons_commons-pool2",
        ),
        False,
        "Kafka source",
    ),
)


@dataclass(frozen=True)
class Resolved:
    """What came of one package: its jars, or why there are none."""

    package: Package
    jars: tuple[Path, ...]
    problem: str = ""


def store() -> Path:
    """Where jars are kept: SLUICE_JARS, or the user's cache."""
    if "SLUICE_JARS" in os.environ:
        return Path(os.environ["SLUICE_JARS"])
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sluice" / "jars"


def present(package: Package) -> Resolved | None:
    """What is known of a package without asking anybody: None if it was never resolved, or a jar has gone."""
    try:
        entry = json.loads(_record(package).read_text())
    except (OSError, ValueError):
        return None
    jars = tuple(store() / name for name in entry["jars"])
    return Resolved(package, jars, entry["problem"]) if all(jar.is_file() for jar in jars) else None


def available() -> list[Path]:
    """The jars at hand, resolving what was never tried. A required package that cannot be had is an error."""
    return [jar for package in PACKAGES for jar in ensure(package).jars]


def ensure(package: Package, *, retry: bool = False) -> Resolved:
    """The package from the store, or else resolved now; `retry` asks again for one that could not be had."""
    known = present(package)
    if known is None or (known.problem and (retry or package.required)):
        known = _resolve(package)
    if known.problem and package.required:
        raise SetupError(
            f"{package.coordinate} cannot be resolved: {known.problem}. Without it there is no {package.gives}. "
            f"Connect to a Maven repository and run `sluice setup`, or put its jars into {store()}."
        )
    return known


def _resolve(package: Package) -> Resolved:
    """Let spark-submit resolve the coordinate into a scratch directory; keep what is worth keeping."""
    import pyspark

    store().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sluice-jars-") as scratch:
        nothing = Path(scratch) / "nothing.py"
        nothing.write_text("")
        submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
        command = [
            str(submit),
            "--master",
            "local[1]",
            "--packages",
            package.coordinate,
            "--conf",
            f"spark.jars.ivy={scratch}/ivy",
            "--conf",
            "spark.jars=",
            "--conf",
            "spark.sql.extensions=",
            "--conf",
            "spark.jars.excludes="
            + ",".join(f"{group}:*" for group in _SHIPPED if not package.coordinate.startswith(group)),
            str(nothing),
        ]
        done = subprocess.run(
            command, env=spark_environment(), capture_output=True, text=True, timeout=900, check=False
        )
        found = sorted((Path(scratch) / "ivy" / "jars").glob("*.jar"))
        kept = [jar for jar in found if jar.name.startswith(package.keep)]
        problem = "" if done.returncode == 0 and kept else _reason(done.stdout + done.stderr)
        for jar in kept if not problem else ():
            shutil.copyfile(jar, store() / f".{jar.name}.{os.getpid()}")
            (store() / f".{jar.name}.{os.getpid()}").replace(store() / jar.name)
    names = [] if problem else [jar.name for jar in kept]
    _record(package).write_text(
        json.dumps({"coordinate": package.coordinate, "jars": names, "problem": problem}, indent=1)
    )
    return Resolved(package, tuple(store() / name for name in names), problem)


def _record(package: Package) -> Path:
    return store() / f"{package.coordinate.replace(':', '_')}.json"


def _reason(output: str) -> str:
    """The one line of the resolver's output that says why."""
    lines = [line.strip().strip(":").strip() for line in output.splitlines()]
    for mark in (r"unresolved dependency: [^\]]+", r"\S+: not found", r"\S*Exception.*"):
        for line in lines:
            if found := re.search(mark, line):
                return found[0][:200]
    return next((line[:200] for line in reversed(lines) if line), "the resolver gave no reason")
