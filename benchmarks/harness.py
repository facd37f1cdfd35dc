"""Contenders run in turn, round after round, in one process; medians; a table of ratios; and last one line of JSON.

Law: only ratios between contenders of the same run mean anything. Interleaving spreads the machine's moods over all.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.progress import track
from rich.table import Table


@dataclass(frozen=True)
class Result:
    """The median seconds of each contender, and their ratio to the baseline."""

    name: str
    baseline: str
    seconds: Mapping[str, float]

    @property
    def ratios(self) -> dict[str, float]:
        """How many times the baseline's time each contender took."""
        return {name: taken / self.seconds[self.baseline] for name, taken in self.seconds.items()}


def compare(
    name: str, contenders: Mapping[str, Callable[[int], object]], *, baseline: str, rounds: int = 5, warm_up: int = 1
) -> Result:
    """Run every contender once a round (it is handed the round's number); the warm-up rounds do not count.

    >>> naps = {"one": lambda turn: time.sleep(0.001), "ten": lambda turn: time.sleep(0.01)}
    >>> result = compare("naps", naps, baseline="one")
    >>> result.ratios["ten"] > 1 == result.ratios["one"]
    True
    """
    taken: dict[str, list[float]] = {contender: [] for contender in contenders}
    for turn in track(range(warm_up + rounds), description=name, console=Console(stderr=True), transient=True):
        for contender, run in contenders.items():
            started = time.perf_counter()
            run(turn)
            if turn >= warm_up:
                taken[contender].append(time.perf_counter() - started)
    return Result(name, baseline, {contender: statistics.median(times) for contender, times in taken.items()})


def report(*results: Result, **facts: object) -> None:
    """Print a table for each result and, last, one line of JSON with everything."""
    console = Console()
    for result in results:
        table = Table("contender", "median s", f"× {result.baseline}", title=result.name, title_justify="left")
        for contender, ratio in result.ratios.items():
            table.add_row(contender, f"{result.seconds[contender]:.3f}", f"{ratio:.2f}")
        console.print(table)
    figures = {r.name: {"baseline": r.baseline, "seconds": dict(r.seconds), "ratios": r.ratios} for r in results}
    print(json.dumps({"results": figures, **facts}))
