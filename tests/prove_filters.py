"""The filter algebra against its oracles, on request: many seeded pairs of filters, a table of the answers.

    make prove-filters        1,000,000 pairs by sampling
    make prove-filters-z3        50,000 pairs by z3

Law: the algebra may be undecided, except where it promises an answer; it is never wrong. The exit status is 1 if it is
wrong, or undecided where it promised.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations
from typing import Protocol

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from routing.filters import Filter, Relation, relation, satisfiable, to_sql
from tests.filter_families import FAMILIES, GROUP, Family
from tests.oracles import Arithmetic, Grid, counterexample_to_cover, witness, witness_of_overlap

PAIRS = GROUP * (GROUP - 1) // 2  # of a group
BY_SAMPLING = ("conjunctions", "disjunctions", "nested", "one kind of text test", "text tests", "everything")
BY_Z3 = ("arithmetic", "nested arithmetic")
Ask = Callable[[Filter, Filter], Relation]
CHUNK = 50  # groups that a process takes at once


class Oracle(Protocol):
    """What is true of two filters; None if it does not know."""

    def covers(self, f: Filter, g: Filter) -> bool | None: ...
    def overlaps(self, f: Filter, g: Filter) -> bool | None: ...
    def satisfiable(self, f: Filter) -> bool | None: ...


class Sampled:
    """What the events of one grid show; where they are not all, z3 is asked if it can be."""

    def __init__(self, filters: list[Filter]) -> None:
        self.grid = Grid(filters)

    def covers(self, f: Filter, g: Filter) -> bool | None:
        if counterexample_to_cover(f, g, self.grid) is not None:
            return False
        return True if self.grid.exact else z3().covers(f, g) if Arithmetic.understands(f, g) else None

    def overlaps(self, f: Filter, g: Filter) -> bool | None:
        if witness_of_overlap(f, g, self.grid) is not None:
            return True
        return False if self.grid.exact else z3().overlaps(f, g) if Arithmetic.understands(f, g) else None

    def satisfiable(self, f: Filter) -> bool | None:
        if witness(f, self.grid) is not None:
            return True
        return False if self.grid.exact else z3().satisfiable(f) if Arithmetic.understands(f) else None


@cache
def z3() -> Arithmetic:
    return Arithmetic()


@dataclass
class Report:
    """How often each question was answered how, by family; and every wrong answer in words."""

    pairs: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __iadd__(self, other: Report) -> Report:
        self.pairs += other.pairs
        self.answers += other.answers
        self.wrong += other.wrong
        return self

    def note(self, family: str, question: str, claimed: bool | None, truth: bool | None, *filters: Filter) -> None:
        """One answer of the algebra beside the oracle's."""
        if claimed is not None and truth is not None and claimed is not truth:
            self.wrong.append(f"{question}: {claimed}, in truth {truth}: " + "  ;  ".join(map(to_sql, filters)))
        said = "undecided" if claimed is None else str(claimed).lower()
        self.answers[family, question, said] += 1
        self.answers[family, question, "unchecked"] += claimed is not None and truth is None

    def undecided(self, *, promised: bool = False) -> int:
        """How many questions were left open; or only those that the algebra promised to answer."""
        return sum(
            count
            for (family, _, said), count in self.answers.items()
            if said == "undecided" and (FAMILIES[family].promised or not promised)
        )


def prove(family: Family, draw: random.Random, groups: int, oracle: Callable[[list[Filter]], Oracle]) -> Report:
    """The answers about so many groups of the family."""
    report = Report()
    for _ in range(groups):
        filters = family.group(draw)
        compare(report, family.name, filters, oracle(filters))
    return report


def compare(report: Report, family: str, filters: list[Filter], oracle: Oracle, ask: Ask = relation) -> None:
    """Every pair of the filters: what the algebra says beside what the oracle knows."""
    for f in filters:
        claimed = None if ask(f, f).overlaps is None else satisfiable(f)
        report.note(family, "satisfiable", claimed, oracle.satisfiable(f), f)
    for f, g in combinations(filters, 2):
        report.pairs[family] += 1
        found = ask(f, g)
        report.note(family, "covers", found.covers, oracle.covers(f, g), f, g)
        report.note(family, "covered", found.covered, oracle.covers(g, f), f, g)
        report.note(family, "overlaps", found.overlaps, oracle.overlaps(f, g), f, g)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("oracle", choices=["sampling", "z3"])
    parser.add_argument("--pairs", type=int, help="1,000,000 by sampling, 50,000 by z3")
    parser.add_argument("--seed", type=int, default=4)
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 4))
    options = parser.parse_args()
    pairs = options.pairs or {"sampling": 1_000_000, "z3": 50_000}[options.oracle]
    report = _in_processes(options.oracle, pairs, options.seed, options.processes)
    _print(report)
    sys.exit(bool(report.wrong or report.undecided(promised=True)))


def _in_processes(oracle: str, pairs: int, seed: int, processes: int) -> Report:
    report = Report()
    columns = SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress, ProcessPoolExecutor(processes) as pool:
        task = progress.add_task(f"pairs by {oracle}", total=pairs)
        for done in as_completed([pool.submit(_chunk, oracle, *chunk) for chunk in _chunks(oracle, pairs, seed)]):
            report += done.result()
            progress.update(task, completed=report.pairs.total(), description=f"pairs by {oracle}, {_standing(report)}")
    return report


def _chunks(oracle: str, pairs: int, seed: int) -> Iterator[tuple[str, str, int]]:
    """Family, seed and number of groups: together at least so many pairs."""
    families = BY_SAMPLING if oracle == "sampling" else BY_Z3
    for family in families:
        groups = -(-pairs // (PAIRS * len(families)))
        for start in range(0, groups, CHUNK):
            yield family, f"{seed} {family} {start}", min(CHUNK, groups - start)


def _chunk(oracle: str, family: str, seed: str, groups: int) -> Report:
    answers: Callable[[list[Filter]], Oracle] = Sampled if oracle == "sampling" else lambda filters: z3()
    return prove(FAMILIES[family], random.Random(seed), groups, answers)


def _standing(report: Report) -> str:
    return f"{len(report.wrong)} wrong, {report.undecided()} undecided"


def _print(report: Report) -> None:
    console, said = Console(), ("true", "false", "undecided", "unchecked")
    table = Table("family", "question", *said, title=f"{report.pairs.total():,} pairs, {_standing(report)}")
    for family, question in sorted({(family, question) for family, question, _ in report.answers}):
        table.add_row(family, question, *(f"{report.answers[family, question, each]:,}" for each in said))
    console.print(table)
    for line in report.wrong[:20]:
        console.print(line, markup=False, highlight=False)


if __name__ == "__main__":
    main()
