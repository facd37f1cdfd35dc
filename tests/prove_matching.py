"""The matching kernel against the reference evaluator, on request: millions of (event, subscription) pairs.

    make prove-match

Law: a round is a seeded set of filters of the whole language, and of the workloads of the benchmarks, compiled for
columns of random types and matched in every way that the kernel has; its matches are those of the evaluator, exactly.
The exit status is 1, and the seed is printed, if a round differs.
"""

from __future__ import annotations

import argparse
import random
import sys
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from rich.progress import track

from benchmarks import workload
from routing.filters import Filter, evaluate, parse
from routing.matching import compile_program
from tests.filter_families import CHARACTERS, DAYS, FAMILIES, MOMENTS, NUMBERS
from tests.ways import WAYS, matching

EVENTS, GROUPS = 200, 30
SPECIAL = [0.0, -0.0, 0.1, 0.30000000000000004, float("nan"), float("inf"), 1e300, 2.0**53]
TYPES: dict[str, tuple[pa.DataType, ...]] = {
    "x": (pa.int64(), pa.float64(), pa.decimal128(38, 19), pa.int32(), pa.string()),
    "y": (pa.float64(), pa.int64(), pa.float32(), pa.decimal128(20, 1)),
    "flag": (pa.bool_(), pa.int64()),
    "day": (pa.date32(), pa.timestamp("us", "UTC")),
    "at": (pa.timestamp("us", "UTC"), pa.date32()),
    "s": (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())),
    "t": (pa.string(),),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    pairs = wrong = number = 0
    per_round = EVENTS * GROUPS * 8
    for number in track(range(-(-options.pairs // per_round)), description="rounds of pairs"):
        seed = f"{options.seed} {number}"
        filters, batch = workloads(seed) if number % 4 == 0 else families(seed)
        pairs += len(filters) * batch.num_rows
        if differ(filters, batch):
            print(f"round '{seed}' differs", file=sys.stderr)
            wrong += 1
    print(f"{pairs:,} pairs in {number + 1} rounds, {wrong} rounds wrong")
    sys.exit(bool(wrong))


def differ(filters: list[Filter], batch: pa.RecordBatch) -> bool:
    """Whether any way of matching gives anything else than the evaluator."""
    events = batch.to_pylist()
    wanted = [[place for place, tree in enumerate(filters) if evaluate(tree, event) is True] for event in events]
    for way in WAYS:
        program = compile_program([(str(place), tree) for place, tree in enumerate(filters)], batch.schema)
        with matching(way):
            if program.match(batch).to_pylist() != wanted:
                return True
    return False


def families(seed: str) -> tuple[list[Filter], pa.RecordBatch]:
    """Filters of the whole language, in related groups, and events near their constants."""
    draw = random.Random(seed)
    names = [name for name in FAMILIES if "arithmetic" not in name]
    filters = [tree for _ in range(GROUPS) for tree in FAMILIES[draw.choice(names)].group(draw)]
    types = {name: draw.choice(some) for name, some in TYPES.items()}
    columns = {name: pa.array([value(draw, type) for _ in range(EVENTS)], type) for name, type in types.items()}
    return filters, pa.record_batch(columns)


def value(draw: random.Random, type: pa.DataType) -> Any:
    """A value of the type, or none."""
    if draw.random() < 0.2:
        return None
    if pa.types.is_integer(type):
        return min(int(draw.choice(NUMBERS)), 2**30 if type == pa.int32() else 2**62) + draw.randint(-1, 1)
    if pa.types.is_floating(type):
        return draw.choice([*SPECIAL, *(float(number) for number in NUMBERS)])
    if pa.types.is_decimal(type):
        return (Decimal(draw.choice(NUMBERS)) % 10**9).quantize(Decimal(1).scaleb(-type.scale))
    if pa.types.is_boolean(type):
        return draw.random() < 0.5
    if pa.types.is_date(type):
        return draw.choice(DAYS) + timedelta(draw.randint(-1, 1))
    if pa.types.is_timestamp(type):
        return draw.choice(MOMENTS) + timedelta(microseconds=draw.randint(-1, 1))
    return "".join(draw.choice(CHARACTERS) for _ in range(draw.randint(0, 4))).encode("utf-8", "ignore").decode()


def workloads(seed: str) -> tuple[list[Filter], pa.RecordBatch]:
    """A stretch of one of the benchmarks' workloads, and its events."""
    draw = random.Random(seed)
    first = draw.randrange(20_000)
    made = workload.subscriptions(first + GROUPS * 8, draw.choice(["standard", "sigma"]))[first:]
    return [parse(text) for _, text in made], workload.events(EVENTS, seed=first)


if __name__ == "__main__":
    main()
