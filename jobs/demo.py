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
CONSUMERS = """
SELECT consumer, count(*) AS notifications, count(DISTINCT event_id) AS events, max(published_at) AS newest
FROM sluice.notifications GROUP BY consumer ORDER BY consumer
"""
FIVE = """
SELECT consumer, symbol, price, change, exchange, published_at
FROM sluice.notifications_quotes WHERE consumer = 'alice' ORDER BY sequence LIMIT 5
"""
LETTERS = """
SELECT reason, sum(copies) AS events, any_value(detail) AS detail, any_value(left(raw, 40)) AS example
FROM sluice.dead_letters GROUP BY reason ORDER BY reason
"""
TOTAL = """
SELECT sum(counts['events']) AS events, sum(counts['notifications']) AS notifications, sum(seconds) AS seconds,
  count(*) AS batches
FROM (SELECT max_by(counts, seconds) AS counts, max(seconds) AS seconds
      FROM sluice.batches WHERE state = 'closed' GROUP BY ordinal)
"""
NEXT = """
Try next (after: source .venv/bin/activate):
  sluice sql -c {config} "SELECT symbol, price FROM sluice.notifications_quotes WHERE consumer = 'bob' LIMIT 5"
  sluice sql -c {config} "INSERT INTO sluice.subscriptions (consumer, filter) VALUES ('you', 'price > 300')"
  sluice sql -c {config} "SELECT * FROM sluice.active_subscriptions"
  spark-submit jobs/route.py --config {config}     # routes what is new in the feed; nothing twice
  sluice doctor -c {config}
"""
BATCH = re.compile(r"^batch=\d+ .*\bevents=(\d+)")


def main(config: Path | None = None) -> int:
    """Run the demo; the exit code is the job's."""
    console = Console()
    path = config or (Path("conf/demo.yaml") if Path("conf/demo.yaml").is_file() else conf_directory() / "demo.yaml")
    settings = load(path)
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as progress:
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
    child = subprocess.Popen(
        [submit, str(job), "--config", str(config)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
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
    engine.register()
    sql = engine.spark.sql
    _table(console, "Notifications by consumer", sql(CONSUMERS))
    _table(console, "Five of alice's, read back as a table", sql(FIVE))
    _table(console, "Dead letters", sql(LETTERS))
    total = sql(TOTAL).first()
    if total is not None and total["seconds"]:
        rate = total["events"] / total["seconds"]
        console.print(
            f"{total['events']:,} events, {total['notifications']:,} notifications, {total['batches']} batches in "
            f"{total['seconds']:.1f} s: [bold]{rate:,.0f} events/s[/bold], the warm-up of the first batch included"
        )
    console.print(NEXT.format(config=path), markup=False, highlight=False, soft_wrap=True)


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
