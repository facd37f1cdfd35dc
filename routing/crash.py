"""Where a job may be killed, by name: what the tests of faults need to kill it at every step.

Law: nothing happens unless the environment asks for it. `SLUICE_CRASH=journal:2` kills the whole process group, by
SIGKILL, the second time that the job comes to the point `journal`. The points stand in the order in which a batch
passes them; there is one before and one behind everything that a batch writes.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

POINTS = (
    "read",  # a batch of the source is there, nothing is written
    "opened",  # the ledger has pinned it
    "admitted",  # it is known which rows are events
    "journal",  # the events are written down
    "dead_letters",  # and what was refused
    "policy_state",  # and what policies remember
    "notifications",  # the batch is visible
    "closed",  # its closing is noted, Spark's checkpoint is not yet written
)

_passed = Counter[str]()


def crash_point(name: str) -> None:
    """Die here, if the environment says so."""
    wanted, _, count = os.environ.get("SLUICE_CRASH", "").partition(":")
    if wanted == name:
        _passed[name] += 1
        if _passed[name] == int(count or 1):
            os.killpg(os.getpgrp(), signal.SIGKILL)
