"""A metastore instead of the embedded catalog is a matter of configuration. Its own process: a catalog is chosen once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, sys
import routing

engine = routing.open(None, json.loads(sys.argv[1]))
engine.subscribe("alice", "x > 1")
engine.start().await_termination()
again = routing.open(engine.spark, json.loads(sys.argv[1]))
rows = again.notifications("alice", source="numbers").select("event_id", "x").collect()
kind = engine.spark.sql("DESCRIBE EXTENDED sluice.notifications").where("col_name = 'Type'").first()["data_type"]
print(json.dumps([[tuple(row) for row in rows], kind]))
"""


def test_a_hive_metastore_decides_where_tables_lie(tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "1.json").write_text('{"id": "1", "x": 2}\n{"id": "2", "x": 0}\n')
    derby = f"jdbc:derby:;databaseName={tmp_path / 'metastore'};create=true"
    config = {
        "warehouse": None,
        "checkpoints": str(tmp_path / "checkpoints"),
        "sources": {"numbers": {"format": "json", "path": str(tmp_path / "feed"), "id": "id", "publisher_name": "x"}},
        "spark": {
            "spark.sql.catalogImplementation": "hive",
            "spark.sql.warehouse.dir": f"file:{tmp_path / 'warehouse'}",
            "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
        },
    }
    command = [sys.executable, "-c", PROGRAM, json.dumps(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [[["1", 2]], "MANAGED"]
