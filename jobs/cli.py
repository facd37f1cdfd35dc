"""The command `sluice`: set up, create tables, run SQL, route. Each command is thin; the work is done in `routing`."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from routing.config import Config, load
from routing.errors import FilterError, RoutingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from routing.tables import Tables

app = typer.Typer(
    help="Sluice: content-based routing on Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
ConfigFile = Annotated[Path | None, typer.Option("--config", "-c", help="a YAML file; without one, the defaults")]

_READS = re.compile(r"\s*(select|show|describe|desc|explain|with|values|table|from)\b", re.IGNORECASE)
_SHOWN = 1000
_ANSWERS = {True: "yes", False: "no", None: "undecided (too costly to find out)"}


@app.command()
def setup(
    retry: Annotated[bool, typer.Option(help="ask again for optional jars that could not be had")] = False,
) -> None:
    """Resolve the jars and compile the kernels once, and let spark-submit and spark-sql find Delta."""
    from routing import jars
    from routing.session import install

    with _plainly():
        for package in jars.PACKAGES:
            known = jars.present(package)
            if known is None or (known.problem and retry):
                print(f"resolving {package.coordinate} …", flush=True)
            done = jars.ensure(package, retry=retry)
            print(
                f"{package.name}: "
                + (
                    f"not to be had ({done.problem}); without it there is no {package.gives}"
                    if done.problem
                    else "ready"
                )
            )
        print(f"Spark settings: {install()}")
        from routing.matching.warm import warm

        print("kernels: compiling (about a minute, once) …", flush=True)
        warm()


@app.command()
def init(config: ConfigFile = None) -> None:
    """Create the tables, whatever of them is missing."""
    import routing
    from routing.session import session

    with _plainly():
        settings = load(config)
        engine = routing.open(session(settings, brief=True), settings)
        script = engine.tables.directory / "register.sql" if engine.tables.directory else None
        print(
            f"{len(engine.tables.described)} tables in {engine.config.database}"
            + (f" at {engine.tables.directory}" if script else "")
        )
        if script:
            print(f"any other session knows them after: spark-sql -i {script}")


@app.command()
def doctor(
    config: ConfigFile = None,
    session: Annotated[bool, typer.Option(help="also start Spark and look at the tables")] = True,
) -> None:
    """Check Java, packages, jars, paths and the catalog, and say what to do about what is missing."""
    from jobs import doctor as checks

    console = Console()
    failed = False
    with _plainly():
        for finding in checks.examine(load(config), start_session=session):
            failed = failed or finding.status == checks.FAILED
            colour = {"ok": "green", "warning": "yellow"}.get(finding.status, "red")
            console.print(f"[{colour}]{finding.status:8}[/{colour}] {finding.check}: ", end="")
            console.print(
                finding.found + (f" → {finding.advice}" if finding.advice else ""),
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
    console.print("something is missing" if failed else "all is well")
    raise typer.Exit(1 if failed else 0)


@app.command()
def sql(
    statement: Annotated[str | None, typer.Argument(help="SQL; several statements are separated by ;")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="a file of SQL statements")] = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per row")] = False,
) -> None:
    """Run SQL with the tables of a configuration at hand."""
    with _plainly():
        text = statement if statement is not None else file.read_text() if file else sys.stdin.read()
        settings = load(config)
        tables = _registered(settings)
        for one in statements(text):
            if _READS.match(one):
                _print(tables.spark.sql(one), as_json)
            else:
                with tables.lock(*tables.described):
                    result = tables.spark.sql(one)
                _print(result, as_json)


@app.command()
def check(
    config: ConfigFile = None,
    first: Annotated[int, typer.Option("--from", help="the first batch that is looked at")] = 1,
    last: Annotated[
        int | None, typer.Option("--to", help="the last one; without it, the last that has finished")
    ] = None,
    pairs: Annotated[
        int, typer.Option(help="pairs of an event and a subscription, beyond which it is a sample")
    ] = 100_000_000,
    seed: Annotated[int, typer.Option(help="of the sample")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object per property")] = False,
) -> None:
    """Prove or refute, from the tables alone, that everything was delivered as it should be."""
    import json
    from dataclasses import asdict

    from routing.check import check as prove
    from routing.checker.finding import HOLDS, VIOLATED
    from routing.checker.range import Options

    colours = {HOLDS: "green", VIOLATED: "red"}
    console, violated = Console(soft_wrap=True, highlight=False), False
    with _plainly():
        settings = load(config)
        for finding in prove(_registered(settings), settings, Options(first, last, pairs, seed)):
            violated = violated or finding.verdict == VIOLATED
            if as_json:
                print(json.dumps(asdict(finding), default=str), flush=True)
                continue
            colour = colours.get(finding.verdict, "yellow")
            console.print(f"[{colour}]{finding.verdict:12}[/{colour}]{finding.property:18}", end="")
            console.print(f"{finding.words} ({finding.seconds:.1f} s)", markup=False)
            for row in finding.rows:
                console.print(f"    {row}", markup=False)
            if finding.offending > len(finding.rows):
                console.print(f"    … and more, {finding.offending} together", markup=False)
    raise typer.Exit(1 if violated else 0)


@app.command()
def requeue(
    source: Annotated[str | None, typer.Option(help="of which source; needed if there are several")] = None,
    reason: Annotated[
        list[str] | None, typer.Option(help="only these reasons; else all that a correction may mend")
    ] = None,
    config: ConfigFile = None,
) -> None:
    """Route dead letters again, after a correction, exactly once."""
    import routing
    from routing.engine import REQUEUED

    with _plainly():
        report = routing.open(None, load(config)).requeue(source, reasons=tuple(reason or REQUEUED))
        print(report or "there is nothing to requeue")


@app.command()
def view(
    consumer: Annotated[str, typer.Argument(help="whose notifications it shows")],
    name: Annotated[str | None, typer.Option(help="of the view; else inbox_ and the consumer's name")] = None,
    config: ConfigFile = None,
) -> None:
    """Make a view that shows only one consumer's notifications."""
    import routing

    with _plainly():
        settings = load(config)
        print(f"{settings.database}.{routing.open(None, settings).create_view(consumer, name)}")


@app.command()
def maintain(config: ConfigFile = None) -> None:
    """Expire what is older than the retention, compact small files and vacuum. Safe while jobs run."""
    import routing

    with _plainly():
        for done in routing.open(None, load(config)).maintain():
            print(done, flush=True)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="a filter")], second: Annotated[str, typer.Argument(help="another")]
) -> None:
    """How two filters relate: does one match all that the other matches, do they meet at all?"""
    from routing.filters import parse, relation

    with _plainly():
        trees = []
        for which, text in (("first", first), ("second", second)):
            try:
                trees.append(parse(text))
            except FilterError as error:
                raise RoutingError(f"the {which} filter, {error}") from error
        found = relation(*trees)
        questions = {
            "the first covers the second": found.covers,
            "the second covers the first": found.covered,
            "some event matches both": found.overlaps,
        }
        for question, answer in questions.items():
            print(f"{question}: {_ANSWERS[answer]}")


@app.command()
def route(
    config: Annotated[Path, typer.Option("--config", "-c", help="a YAML file")],
    accept_restored: Annotated[
        bool, typer.Option("--accept-restored", help="go on although tables were set back")
    ] = False,
) -> None:
    """Route every source of a configuration (the same job as spark-submit jobs/route.py)."""
    from jobs.route import main

    raise typer.Exit(main(["--config", str(config), *(["--accept-restored"] if accept_restored else [])]))


@app.command()
def demo() -> None:
    """A stock-market feed, ten consumers, and what came of it."""
    from jobs.demo import main

    with _plainly():
        raise typer.Exit(main())


@app.command()
def version() -> None:
    """The version of Sluice."""
    from importlib.metadata import version as installed

    print(installed("sluice-spark"))


def statements(text: str) -> list[str]:
    r"""SQL text split at semicolons that are not inside quotes or comments.

    >>> statements("SELECT ';'; SELECT 2 -- two; \n;")
    ["SELECT ';'", 'SELECT 2 -- two;']
    """
    parts, start = [], 0
    for match in re.finditer(
        r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|(;)", text, re.DOTALL
    ):
        if match[1]:
            parts.append(text[start : match.start()])
            start = match.end()
    return [part.strip() for part in (*parts, text[start:]) if part.strip()]


def _registered(config: Config) -> Tables:
    """The tables, made known to a new session by the script that the engine wrote."""
    import routing
    from routing.engine import REGISTER
    from routing.session import session
    from routing.tables import Tables

    tables = Tables(session(config, brief=True), config)
    script = tables.directory / REGISTER if tables.directory else None
    if script is None:
        return tables
    if not script.is_file():
        return routing.open(tables.spark, config).tables
    for one in statements(script.read_text()):
        tables.spark.sql(one)
    return tables


def _print(rows: DataFrame, as_json: bool) -> None:
    if not rows.columns:
        return
    from pyspark.sql import functions as F

    rows = rows.limit(_SHOWN + 1)
    shown = rows.select(F.to_json(F.struct("*"))).collect() if as_json else rows.collect()
    if as_json:
        for row in shown[:_SHOWN]:
            print(row[0])
    else:
        table = Table(*rows.columns)
        for row in shown[:_SHOWN]:
            table.add_row(*("NULL" if value is None else str(value) for value in row))
        console = Console()
        console.print(table)
    if len(shown) > _SHOWN:
        print(f"… and more; the first {_SHOWN} rows are shown", file=sys.stderr)


class _plainly:
    """Errors as one plain message; a stack trace is for bugs."""

    def __enter__(self) -> None:
        os.environ["TZ"] = "UTC"  # PySpark hands out times in the machine's zone; the tables speak UTC
        time.tzset()
        logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        if isinstance(error, RoutingError):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            raise typer.Exit(1) from None
        if isinstance(error, PySparkException):
            print(str(error).split("\n\nJVM stacktrace")[0].split("== SQL")[0].strip(), file=sys.stderr)
            raise typer.Exit(1) from None
        if isinstance(error, Py4JJavaError):
            print(next(_messages(error)), file=sys.stderr)
            raise typer.Exit(1) from None


def _messages(error: Exception) -> Iterator[str]:
    """The Java error's own words, without its stack."""
    lines = [
        line for line in str(error).splitlines() if not line.lstrip().startswith(("at ", "...", "An error occurred"))
    ]
    yield re.sub(r"^:?\s*[\w.]+Exception:\s*", "", "\n".join(lines[:3])).strip() or type(error).__name__


if __name__ == "__main__":
    app()
