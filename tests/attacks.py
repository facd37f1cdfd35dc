"""The named list of attacks: hostile filters, mappings, policies, events, names and configurations, with the answers.

A text is a string, or a list of pieces; a piece with a number is repeated so often.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).parent / "fixtures" / "attacks" / "attacks.jsonl"


class Attack(NamedTuple):
    """What is tried, and what must come of it."""

    name: str
    kind: str
    answer: str
    text: str


def attacks(*kinds: str) -> list[Attack]:
    """Those of these kinds, in order."""
    lines = [line for line in _FILE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    found = [Attack(**{**row, "text": _text(row["text"])}) for row in map(json.loads, lines)]
    return [attack for attack in found if attack.kind in kinds] if kinds else found


def _text(written: str | list[str | list[object]]) -> str:
    if isinstance(written, str):
        return written
    return "".join(part if isinstance(part, str) else str(part[0]) * int(str(part[1])) for part in written)
