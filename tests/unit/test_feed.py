from __future__ import annotations

import json
from pathlib import Path

from jobs.feed import feed, write_feed


def test_the_feed_is_the_same_every_time_and_has_mistakes(tmp_path: Path) -> None:
    lines = list(feed(5000))
    assert lines == list(feed(5000))
    readable = [json.loads(line) for line in lines if line.endswith("}") and line.count("{") == line.count("}")]
    assert len(lines) == 5000 > len(readable) and len({quote["id"] for quote in readable}) < len(readable)
    assert write_feed(tmp_path, 10) == 10 and write_feed(tmp_path, 10) == 10 and len(list(tmp_path.iterdir())) == 1
