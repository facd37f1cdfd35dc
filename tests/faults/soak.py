"""Random kills, one after the other, on one engine: `make soak KILLS=200 SEED=1`; it goes on where it was stopped.

Each kill is a function of the seed and its number, and a line of the log. After every tenth the feed is drained and the
checker looks at everything since the beginning; the first property that does not hold ends it, with the seed to repeat
it by.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from routing.crash import POINTS
from tests.faults.jobs import Job, checked, configure, kill_workers, sql
from tests.faults.test_crashes import SETUP, write

RECOVERY = 30.0
EDITS = (
    "INSERT INTO sluice.subscriptions (consumer, filter, id) VALUES ('{name}', 'price > {number}', '{id}')",
    "DELETE FROM sluice.subscriptions WHERE id = '{id}'",
    "UPDATE sluice.subscriptions SET filter = 'price < {number}' WHERE id = '{id}'",
    "INSERT INTO sluice.scope_edges (child, parent) VALUES ('{name}', 'desk')",
    "DELETE FROM sluice.scope_edges WHERE child = '{name}' AND parent = 'desk'",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--place", type=Path, default=Path(".sluice/soak"))
    options = parser.parse_args()
    soak = Soak(options.place / str(options.seed), options.seed)
    while soak.kills < options.kills:
        soak.kill()
        if soak.kills % 10 == 0:
            soak.check()
    soak.check()
    print(f"{soak.kills} kills, seed {options.seed}: 0 lost, 0 twice, 0 leaked, 0 torn")


class Soak:
    """The engine under attack, and the log of what was done to it."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place, self.seed, self.log = place.absolute(), seed, place.absolute() / "kills.jsonl"
        if not self.log.is_file():
            (self.place / "feed").mkdir(parents=True)
            sql(configure(self.place), SETUP)
            self.log.touch()
        self.history = [json.loads(line) for line in self.log.read_text().splitlines()]

    @property
    def kills(self) -> int:
        """How many there have been."""
        return sum(one["what"] == "kill" for one in self.history)

    def kill(self) -> None:
        """One more: by name at a point, or at any moment; the driver with all it started, or only a worker."""
        draw = random.Random(f"{self.seed}/{len(self.history)}")
        files = draw.randint(1, 3)
        first = sum(one.get("files", 0) for one in self.history)
        for number in range(first, first + files):
            write(self.place / "feed", number)
        how = draw.choice(["point", "point", "moment", "worker"])
        point = f"{draw.choice(POINTS)}:{draw.randint(1, files)}" if how == "point" else ""
        delay = round(draw.uniform(0, 8), 2)
        started = time.monotonic()
        job = Job(configure(self.place, trigger="once"), **({"SLUICE_CRASH": point} if point else {}))
        try:
            if how != "point":
                job.wait_for("routing")
                time.sleep(delay)
                kill_workers(job) if how == "worker" else job.signal(signal.SIGKILL, group=True)
            said = job.output()
        finally:
            job.end()
        code = job.process.returncode
        happened = "kill" if code == -signal.SIGKILL or how == "worker" else "missed"
        seconds = round(time.monotonic() - started, 1)
        self._note(
            what=happened, how=how, point=point, delay=delay, files=files, code=code, seconds=seconds, said=said[-300:]
        )

    def check(self) -> None:
        """Drain, prove, and change something for those that come."""
        started = time.monotonic()
        job = Job(configure(self.place, trigger="once"))
        try:
            first = job.wait_for("")
            while not first.startswith(("batch=", "drained")):
                first = job.wait_for("")
            recovered = round(time.monotonic() - started, 1)
            if first.startswith("batch="):
                job.wait_for("drained")
            job.process.wait(60)
        finally:
            job.end()
        found = checked(self.place / "job.yaml")
        wrong = [one for one in found if one["verdict"] != "holds"]
        self._note(what="check", recovered=recovered, wrong=wrong, words=[one["words"] for one in found])
        if wrong or recovered > RECOVERY:
            raise SystemExit(f"seed {self.seed}, after {self.kills} kills: recovered in {recovered} s, {wrong}")
        draw = random.Random(f"{self.seed}/edit/{len(self.history)}")
        id = f"e{draw.randint(1, 5)}"
        sql(self.place / "job.yaml", draw.choice(EDITS).format(name=f"n{id}", number=draw.randint(0, 40), id=id))

    def _note(self, **fact: Any) -> None:
        self.history.append(fact)
        with self.log.open("a") as file:
            file.write(json.dumps(fact) + "\n")
        print(f"{self.kills} kills: {fact}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
