"""What one would pick instead, on the same generated files and with the same results checked.

    make bench-peers

A streaming query per party (`benchmarks.one_query_per_party`), and event-ruler (`benchmarks.event_ruler`), which needs
a JDK and one package from Maven, and is left out, with the reason, where these are not to be had.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numba

from benchmarks import workload
from benchmarks.event_ruler import against_event_ruler, missing
from benchmarks.harness import Result, report
from benchmarks.one_query_per_party import against_queries
from routing.config import Config
from routing.matching import compile_program
from routing.session import session

Facts: TypeAlias = dict[str, object]
MEMORY = "6g"
"""Of the Spark session that both share: hundreds of queries need more than the job does."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parties", type=int, nargs="*", default=[10, 100, 300])
    parser.add_argument("--events", type=int, default=100_000, help="of the streaming queries")
    parser.add_argument("--bound", type=float, default=180, help="seconds that all queries together may take")
    parser.add_argument("--rules", type=int, nargs="*", default=[10, 100, 1_000], help="with ranges")
    parser.add_argument("--plain", type=int, nargs="*", default=[1_000, 10_000], help="rules without ranges")
    parser.add_argument("--batch", type=int, default=20_000, help="events that event-ruler and the kernel match")
    parser.add_argument("--rounds", type=int, default=5, help="of event-ruler and the kernel")
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    measured: list[tuple[Result, Facts]] = []
    try:
        lacking = missing() if options.rules or options.plain else ""
        if lacking:
            print(f"event-ruler is left out: {lacking}", file=sys.stderr)
        for result, found in chain(() if lacking else _event_ruler(place, options), _queries(place, options)):
            print(f"{result.name}: {dict(result.seconds)} {found}", file=sys.stderr, flush=True)
            measured.append((result, found))
        facts = {result.name: found for result, found in measured}
        report(*(result for result, _ in measured), facts=facts, left_out=lacking)
    finally:
        shutil.rmtree(place)


def _event_ruler(place: Path, options: argparse.Namespace) -> Iterator[tuple[Result, Facts]]:
    numba.set_num_threads(1)
    compile_program(workload.subscriptions(1_000), workload.SCHEMA).match(workload.events(100))  # machine code
    many, few = workload.events(options.batch), workload.events(options.batch // 10)
    for size in options.rules:
        yield against_event_ruler(place, size, many, ranges=True, at_a_time=[len(many)], rounds=options.rounds)
    for size in options.plain:
        yield against_event_ruler(place, size, many, ranges=False, at_a_time=[len(many)], rounds=options.rounds)
    for size in options.rules[-1:]:
        yield against_event_ruler(place, size, few, ranges=True, at_a_time=[1, 10, 100], rounds=options.rounds)


def _queries(place: Path, options: argparse.Namespace) -> Iterator[tuple[Result, Facts]]:
    if options.parties:
        spark = session(Config(spark={"spark.driver.memory": MEMORY}), name="sluice-bench")
        for count in options.parties:
            yield against_queries(spark, place, count, options.events, options.bound)


if __name__ == "__main__":
    main()
