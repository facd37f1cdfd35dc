"""event-ruler, a matcher in Java, against the kernel: both on one core, from the same lines of JSON in memory.

Law: the rules say what the subscriptions say (`benchmarks.rules`), and every (event, rule) that one of the two finds
the other must find: numbers and checksums are compared. event-ruler takes one event at a time, the kernel a batch.
Suffixes, wildcards and negations, which event-ruler also knows, are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Timer

import numpy as np
import pyarrow as pa
import pyspark
from pyarrow.json import ParseOptions, ReadOptions, read_json

from benchmarks.harness import Result, compare
from benchmarks.rules import rules
from benchmarks.workload import SCHEMA
from routing.errors import RoutingError
from routing.jars import Package, ensure
from routing.java import machine_java
from routing.matching import Program, compile_program

PACKAGE = Package(
    "event-ruler",
    "software.amazon.event.ruler:event-ruler:2.1.0",
    ("software.amazon.event.ruler_", "ch.randelshofer_"),
    False,
    "comparison with event-ruler",
)
THEIRS = "event-ruler, from JSON"
HEAP, BOUND = "6g", 900.0
"""The most that one of its processes may have, and the seconds that it may live."""

_SOURCE = Path(__file__).with_name("EventRuler.java")


@dataclass(frozen=True)
class Found:
    """How many (event, rule) pairs, and a sum over them that does not depend on their order."""

    matches: int
    checksum: int


def missing() -> str:
    """Why event-ruler cannot run here; empty if it can."""
    java = machine_java()
    if java is None or not _has_compiler(java):
        return "there is no JDK 17 or later (a runtime is not enough); install one and set JAVA_HOME"
    try:
        return ensure(PACKAGE, retry=True).problem
    except RoutingError as error:
        return str(error)


def against_event_ruler(
    place: Path, size: int, events: pa.RecordBatch, *, ranges: bool, at_a_time: Sequence[int], rounds: int
) -> tuple[Result, dict[str, object]]:
    """Both with so many rules, pass by pass in turn; the kernel gets the events so many at a time.

    And how long each took to build.
    """
    texts, written = zip(*rules(size, ranges=ranges), strict=True)
    lines = [_line(row) for row in events.to_pylist()]
    rules_file = _lines(place / "rules.json", (f"{rule}\n" for rule in written))
    events_file = _lines(place / "events.json", lines)
    started = time.perf_counter()
    program = compile_program([(str(number), text) for number, text in enumerate(texts)], SCHEMA)
    seconds = time.perf_counter() - started
    cut = {each: ["".join(lines[at : at + each]).encode() for at in range(0, len(lines), each)] for each in at_a_time}
    with one_core(), EventRuler(rules_file, events_file) as theirs:
        contenders: dict[str, Callable[[int], object]] = {THEIRS: lambda _: theirs.one_pass()}
        for each, parts in cut.items():
            contenders[f"kernel, from JSON, {each:,} at a time"] = partial(_pass, program, parts)
        contenders["kernel, from Arrow, all at once"] = lambda _: program.match(events)
        kind = "equality, prefix, range" if ranges else "equality, prefix"
        name = f"{size:,} rules ({kind}), {len(lines):,} events"
        result = compare(name, contenders, baseline=THEIRS, rounds=rounds)
        counted = found([program.match(events)])
        _same(name, theirs.one_pass(), counted, *(found(_pass(program, parts)) for parts in cut.values()))
    return result, {
        "matches per event": round(counted.matches / len(lines), 4),
        "events per second": {name: round(len(lines) / taken) for name, taken in result.seconds.items()},
        "seconds to build": {"kernel": round(seconds, 2), THEIRS: round(theirs.seconds, 2)},
    }


def _pass(program: Program, parts: Iterable[bytes], _: int = 0) -> list[pa.ListArray]:
    return [program.match(_read(part)) for part in parts]


class EventRuler:
    """The Java process, built and warm; killed when its time is over."""

    def __init__(self, rules_file: Path, events_file: Path) -> None:
        command = [str(machine_java()), f"-Xmx{HEAP}", "-cp", _class_path(), str(_SOURCE)]
        self._process = subprocess.Popen(
            [*command, str(rules_file), str(events_file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._bound = Timer(BOUND, self._process.kill)
        self._bound.start()

    def __enter__(self) -> EventRuler:
        self.seconds = float(self._answer()[0])
        return self

    def __exit__(self, *_: object) -> None:
        self._bound.cancel()
        self._process.kill()
        self._process.communicate()

    def one_pass(self) -> Found:
        """Match all events once."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        matches, checksum = self._answer()
        return Found(int(matches), int(checksum))

    def _answer(self) -> list[str]:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            self.__exit__()
            raise SystemExit("event-ruler ended early: out of memory, out of time, or a rule that it refuses")
        return line.split()


def found(passed: Iterable[pa.ListArray]) -> Found:
    """The matches of all events, batch after batch, counted as EventRuler.java counts."""
    lists = pa.chunked_array(passed).combine_chunks()
    events = np.repeat(np.arange(len(lists), dtype=np.uint64), np.diff(lists.offsets.to_numpy()))
    rules = lists.values.to_numpy().astype(np.uint64)
    mixed = events * np.uint64(0x9E3779B97F4A7C15) ^ rules * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(0xBF58476D1CE4E5B9)
    return Found(len(rules), int(mixed.sum(dtype=np.uint64)))


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and the processes that it starts, on one core, where the system can do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _same(name: str, *counted: Found) -> None:
    if len(set(counted)) > 1:
        raise SystemExit(f"{name}: event-ruler, the kernel from Arrow and the kernel from JSON differ: {counted}")


def _read(lines: bytes) -> pa.RecordBatch:
    """JSON lines as one batch, parsed on one thread."""
    table = read_json(
        pa.BufferReader(lines),
        ReadOptions(use_threads=False, block_size=len(lines) + 1),
        ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore"),
    )
    return table.combine_chunks().to_batches()[0]


def _line(event: dict[str, object]) -> str:
    return json.dumps({name: value for name, value in event.items() if value is not None}) + "\n"


def _lines(path: Path, lines: Iterable[str]) -> Path:
    path.write_text("".join(lines))
    return path


def _class_path() -> str:
    """event-ruler, and PySpark's own Jackson, which is near enough to the one that it names."""
    shared = (Path(pyspark.__file__).parent / "jars").glob("jackson-[acd]*.jar")
    return os.pathsep.join(str(jar) for jar in (*ensure(PACKAGE).jars, *shared))


def _has_compiler(java: Path) -> bool:
    said = subprocess.run([java, "--list-modules"], capture_output=True, text=True, timeout=60, check=False)
    return "jdk.compiler@" in said.stdout
