"""The demo: a feed, ten consumers who subscribe by SQL, the real job, and what came of it, read back as tables."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import deque
from pathlib import Path
from shutil import which

from pyspark.sql import DataFrame
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import routing
from jobs.feed import write_feed
from routing.config import conf_directory, load
from routing.engine import Engine
from routing.errors import RoutingError
from routing.java import spark_environment
from routing.session import session

SUBSCRIBE = """
INSERT INTO sluice.subscriptions (consumer, filter) VALUES
  ('alice',            'symbol = ''DIS'' AND change > 0'),
  ('alice',            'symbol = ''NFLX'' AND change > 0'),
  ('bob',              'price BETWEEN 100 AND 120'),
  ('energy-desk',      'sector = ''energy'''),
  ('big-trades',       'volume >= 5000'),
  ('germany',          'venue.country = ''DE'' AND NOT venue.auction'),
  ('auctions',         'venue.auction'),
  ('crash-watch',      'change < -4 OR price < 2'),
  ('s-names',          'symbol LIKE ''S%'' AND sector IN (''technology'', ''industry'')'),
  ('compliance',       'symbol = ''BA'' OR symbol = ''GS'''),
  ('everything-tech',  'sector = ''technology'' AND price IS NOT NULL')
"""
BATCH = re.compile(r"^batch=\d+ .*\bevents=(\d+)")


def main(config: Path | None = None) -> int:
    """Run the demo; the exit code is the job's."""
    console = Console()
    path = config or (Path("conf/demo.yaml") if Path("conf/demo.yaml").is_file() else conf_directory() / "demo.yaml")
    settings = load(path)
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console) as progress:
        steps = progress.add_task("feed, tables and subscriptions", total=3)
        events = write_feed(Path(str(settings.sources["quotes"].path)))
        progress.advance(steps)
        engine = routing.open(session(settings, brief=True), settings)
        progress.advance(steps)
        engine.spark.sql(SUBSCRIBE)
        progress.advance(steps)
        routed = progress.add_task("spark-submit jobs/route.py --config " + str(path), total=events)
        code = _route(path, lambda count: progress.advance(routed, count))
        progress.update(routed, completed=events)
    if code:
        return code
    _show(console, engine, path)
    return 0


def _route(config: Path, advance) -> int:  # type: ignore[no-untyped-def]
    """Run the job as a user would; its output is shown only if it fails."""
    environment = spark_environment()
    job = Path(__file__).with_name("route.py")
    submit = which("spark-submit", path=environment["PATH"]) or "spark-submit"
    child = subprocess.Popen([submit, str(job), "--config", str(config)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = deque[str](maxlen=40)
    for line in child.stdout or ():
        said.append(line)
        if match := BATCH.match(line):
            advance(int(match[1]))
    code = child.wait()
    if code:
        sys.stderr.write("".join(said))
        sys.stderr.write(f"the job ended with code {code}; `sluice doctor` says what may be missing\n")
    return code


def _show(console: Console, engine: Engine, path: Path) -> None:
    sql = engine.spark.sql
    engine.ledger.refresh()
    engine._register(engine.schemas())
    _table(console, "Notifications by consumer", sql(
        "SELECT consumer, count(*) AS notifications, count(DISTINCT event_id) AS events, max(published_at) AS newest FROM sluice.notifications GROUP BY consumer ORDER BY consumer"))
    _table(console, "Five of alice's, as a table: SELECT … FROM sluice.notifications_quotes WHERE consumer = 'alice'", sql(
        "SELECT consumer, symbol, price, change, volume, exchange, published_at FROM sluice.notifications_quotes WHERE consumer = 'alice' ORDER BY sequence LIMIT 5"))
    _table(console, "Dead letters", sql(
        "SELECT reason, detail, sum(copies) AS events, any_value(left(raw, 60)) AS example FROM sluice.dead_letters GROUP BY reason, detail ORDER BY reason, detail"))
    total = sql("SELECT sum(counts['events']) AS events, sum(counts['notifications']) AS notifications, sum(seconds) AS seconds, count(*) AS batches"
                " FROM (SELECT ordinal, max_by(counts, seconds) AS counts, max(seconds) AS seconds FROM sluice.batches WHERE state = 'closed' GROUP BY ordinal)").first()  # fmt: skip
    if total is not None and total["seconds"]:
        console.print(f"{total['events']:,} events and {total['notifications']:,} notifications in {total['batches']} batches, {total['seconds']:.1f} s: "
                      f"[bold]{total['events'] / total['seconds']:,.0f} events/s[/bold] (first batch and its warm-up included)\n")  # fmt: skip
    console.print(
        "Try next:\n"
        f"  sluice sql --config {path} \"SELECT symbol, price FROM sluice.notifications_quotes WHERE consumer = 'bob' LIMIT 5\"\n"
        f"  sluice sql --config {path} \"INSERT INTO sluice.subscriptions (consumer, filter) VALUES ('you', 'price > 300')\"\n"
        f"  spark-submit jobs/route.py --config {path}     # routes what is new in the feed; nothing twice\n"
        f"  sluice sql --config {path} \"SELECT * FROM sluice.active_subscriptions\"\n"
        "  sluice doctor",
        markup=False, highlight=False,
    )  # fmt: skip


def _table(console: Console, title: str, rows: DataFrame) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in rows.columns:
        table.add_column(name)
    for row in rows.collect():  # each caller bounds its rows
        table.add_row(*("" if value is None else str(value) for value in row))
    console.print(table)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RoutingError as error:
        sys.exit(f"{type(error).__name__}: {error}")
