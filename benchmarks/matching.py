"""The matching kernel on one core against the floor (`benchmarks.floor`), and how fast subscriptions compile.

    make bench-match

For each size: encode and match the same events, in turn with the floor; matches per event; and the time and memory to
compile the subscriptions from text. Then 100,000 against 1,000,000 subscriptions that match equally often; and, unless
only the kernel is asked for, what matching costs inside Spark (`benchmarks.end_to_end`).
"""

from __future__ import annotations

import argparse
import resource
import time

import numba

from benchmarks import end_to_end
from benchmarks.floor import floor
from benchmarks.harness import Result, compare, report
from benchmarks.workload import SCHEMA, events, subscriptions
from routing.matching import Program, compile_program

SIZES = (1_000, 10_000, 100_000, 1_000_000)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=20_000, help="rows of the batch")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="subscriptions of the largest set")
    parser.add_argument("--kernel", action="store_true", help="leave out Spark")
    options = parser.parse_args()
    numba.set_num_threads(1)
    compile_program(subscriptions(1_000), SCHEMA).match(events(100))  # machine code
    results, facts = [], {}
    for workload in ("standard", "sigma"):
        for size in (size for size in SIZES if size <= options.most):
            name = f"{workload}, {size:,} subscriptions"
            result, facts[name] = _measure(name, workload, size, options.events, options.rounds)
            results.append(result)
    if options.most >= SIZES[-1]:
        results.append(_growth(options.events, options.rounds))
    if not options.kernel:
        results += end_to_end.measure()
    report(*results, facts=facts)


def _measure(name: str, workload: str, size: int, rows: int, rounds: int) -> tuple[Result, dict[str, float]]:
    """The kernel against the floor at one size."""
    made, batch = subscriptions(size, workload), events(rows)
    program, seconds, megabytes = _compiled(made)
    matched = program.match(batch)
    bottom = floor(program, batch, matched)
    contenders = {"floor": lambda _: bottom(), "kernel": lambda _: program.match(batch)}
    result = compare(name, contenders, baseline="floor", rounds=rounds)
    return result, {
        "matches per event": round(len(matched.values) / rows, 2),
        "events per second": round(rows / result.seconds["kernel"]),
        "compile seconds": round(seconds, 2),
        "compile megabytes": round(megabytes),
    }


def _compiled(made: list[tuple[str, str]]) -> tuple[Program, float, float]:
    """The program, the seconds it took, and by how many megabytes the peak of the process grew."""
    before, started = _peak(), time.perf_counter()
    program = compile_program(made, SCHEMA)
    return program, time.perf_counter() - started, _peak() - before


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _growth(rows: int, rounds: int) -> Result:
    """Ten times the subscriptions, each of which matches a tenth as often."""
    batch = events(rows)
    few = compile_program(subscriptions(SIZES[2]), SCHEMA)
    many = compile_program(subscriptions(SIZES[3], rare=True), SCHEMA)
    contenders = {"100,000": lambda _: few.match(batch), "1,000,000": lambda _: many.match(batch)}
    return compare("growth at equal matches per event", contenders, baseline="100,000", rounds=rounds)


if __name__ == "__main__":
    main()
