"""The only module that speaks Delta: create, read at a version, append once, and say which version is current.

Law: an append carries a tag, and `appended` tells whether a commit with that tag happened; so an append can be made
to happen once. Every commit made here holds the table's lock: on a local file system two processes that commit to one
table at the same moment could overwrite each other, because Delta guards only inside one JVM.
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, timedelta, tzinfo
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from routing.config import Config
from routing.errors import SetupError
from schemas import Table
from schemas import tables as all_tables
from schemas.delivery import BATCH, BUCKET
from schemas.table import COMMENT, DEFAULT

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession

_COMMIT = re.compile(r"(\d{20})\.json")
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
EXPIRED = "sluice expired"
"""The tag of a deletion of what nobody needs any more."""


class Tables:
    """The tables of one engine: a catalog, a database and, unless the catalog decides, a directory."""

    def __init__(self, spark: SparkSession, config: Config) -> None:
        self.spark, self.config = spark, config
        self.described = {table.name: table for table in all_tables(config.notifications.layout)}

    @cached_property
    def zone(self) -> tzinfo:
        """The session's time zone, in which timestamps without one are read."""
        try:
            return ZoneInfo(self.spark.conf.get("spark.sql.session.timeZone") or "UTC")
        except (ZoneInfoNotFoundError, ValueError):
            return UTC

    # — where —

    @cached_property
    def directory(self) -> Path | None:
        """The database's directory on a local file system, or None if the tables lie elsewhere."""
        where = self.config.warehouse
        if where is None or (re.match(r"[a-z0-9]+:", where) and not where.startswith("file:")):
            return None
        return Path(where.removeprefix("file:")).absolute() / self.config.database

    @property
    def database(self) -> str:
        """The database, quoted for SQL."""
        return f"{quoted(self.config.catalog)}.{quoted(self.config.database)}"

    def name(self, table: str) -> str:
        """A table's full name, quoted for SQL."""
        return f"{self.database}.{quoted(table)}"

    def location(self, table: str) -> str | None:
        """Where a table lies, or None if the catalog decides."""
        if self.config.warehouse is None:
            return None
        root = f"file:{self.directory}" if self.directory else f"{self.config.warehouse}/{self.config.database}"
        return f"{root}/{table}"

    # — create —

    def create(self) -> None:
        """Create the database and whatever table is missing. Safe to repeat; says so if the layout has changed."""
        self.spark.sql(f"CREATE DATABASE IF NOT EXISTS {self.database}" + self._located(""))
        with ThreadPoolExecutor(4) as pool:
            list(
                pool.map(
                    lambda table: self.spark.sql(
                        self._known(table.name) if self._exists(table.name) else self.ddl(table)
                    ),
                    self.described.values(),
                )
            )
        self._expect_the_same()

    def _expect_the_same(self) -> None:
        """One session knows one place and one layout for a table; another configuration must not mix with it."""
        rows = self.spark.sql(f"DESCRIBE TABLE EXTENDED {self.name('notifications')}").collect()
        facts = {row["col_name"]: row["data_type"] for row in rows}
        found, wanted = facts["Location"], self.location("notifications")
        if wanted is not None and Path(found.removeprefix("file:")) != Path(wanted.removeprefix("file:")):
            raise SetupError(
                f"this session already knows a database '{self.config.database}' at {found}. "
                "Use another database name, or another Spark session."
            )
        buckets = re.search(r"sluice\.buckets=(\d+)", facts["Table Properties"])
        if buckets and int(buckets[1]) != self.config.notifications.buckets:
            raise SetupError(
                f"notifications lie in {buckets[1]} buckets, but the configuration says "
                f"buckets: {self.config.notifications.buckets}. Change the configuration back, or use another database."
            )
        names = [row["col_name"] for row in rows]
        partition = names[names.index("# Partition Information") + 2]
        if (partition,) != self.described["notifications"].partitioned_by:
            raise SetupError(
                f"notifications are laid out by {partition}, but the configuration says "
                f"layout: {self.config.notifications.layout}. Change the configuration back, or use another database."
            )

    def statements(self) -> list[str]:
        """The SQL by which any session, in any process, comes to know the tables."""
        return [f"CREATE DATABASE IF NOT EXISTS {self.database}" + self._located(""), *map(self._known, self.described)]

    def ddl(self, table: Table) -> str:
        """CREATE TABLE, from the description."""
        columns = ",\n  ".join(
            f"{quoted(field.name)} {field.dataType.simpleString()}"
            + ("" if field.nullable else " NOT NULL")
            + (f" DEFAULT {field.metadata[DEFAULT]}" if DEFAULT in field.metadata else "")
            + f" COMMENT {text(field.metadata[COMMENT])}"
            for field in table.columns
        )
        partitioned = (
            f"\nPARTITIONED BY ({', '.join(map(quoted, table.partitioned_by))})" if table.partitioned_by else ""
        )
        properties = ", ".join(f"{text(key)} = {text(value)}" for key, value in self._properties(table).items())
        return (
            f"CREATE TABLE IF NOT EXISTS {self.name(table.name)} (\n  {columns}\n) USING DELTA{partitioned}"
            f"{self._located(table.name)} COMMENT {text(table.comment)} TBLPROPERTIES ({properties})"
        )

    def _known(self, table: str) -> str:
        """Make a table that exists known to the session; its columns and properties come from its log."""
        return f"CREATE TABLE IF NOT EXISTS {self.name(table)} USING DELTA" + self._located(table)

    def _exists(self, table: str) -> bool:
        from delta.tables import DeltaTable

        if self.directory is not None:
            return any((self.directory / table / "_delta_log").glob("*.json"))
        where = self.location(table)
        return (
            self.spark.catalog.tableExists(self.name(table))
            if where is None
            else DeltaTable.isDeltaTable(self.spark, where)
        )

    def _located(self, table: str) -> str:
        where = self.location(table)
        return "" if where is None else f" LOCATION {text(where.rstrip('/'))}"

    def _properties(self, table: Table) -> dict[str, str]:
        kept = f"interval {max(self.config.retention, timedelta(days=1)) // timedelta(hours=1)} hours"
        return {
            "delta.feature.allowColumnDefaults": "supported",
            "delta.checkpointInterval": "100",  # a log checkpoint takes seconds; control tables are small anyway
            "delta.logRetentionDuration": kept,
            "delta.deletedFileRetentionDuration": kept,
            # Of two rows with one key the newest commit counts: row tracking tells which, also after OPTIMIZE.
            # And a change feed tells what a new version brought, without a look at all rows.
            **({"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"} if table.control else {}),
            **({"sluice.buckets": str(self.config.notifications.buckets)} if BUCKET in table.partitioned_by else {}),
            **{f"delta.constraints.{name}": expression for name, expression in table.constraints.items()},
            **table.properties,
        }

    # — read —

    def version(self, table: str) -> int:
        """The table's current version. On a local file system a look at the log's directory, under a millisecond."""
        if self.directory is None:
            newest = self.delta(table).history(1).select("version").first()
            return int(newest["version"])  # type: ignore[index]
        log = self.directory / table / "_delta_log"
        try:
            return max(int(match[1]) for entry in log.iterdir() if (match := _COMMIT.fullmatch(entry.name)))
        except (FileNotFoundError, ValueError):
            raise SetupError(f"there is no table {self.name(table)} at {log.parent}. Run `sluice init`.") from None

    def read(self, table: str, version: int | None = None) -> DataFrame:
        """The table, as it is or as it was at a version."""
        if version is None:
            return self.spark.read.table(self.name(table))
        return self.spark.read.option("versionAsOf", version).table(self.name(table))

    def changes(self, table: str, since: int, until: int) -> DataFrame | None:
        """The rows that commits after `since` brought or took, by Delta's change feed; None after a RESTORE.

        A restored row counts as old as it was, and the feed does not say how old that is.
        """
        if self.restored(table, since, until):
            return None
        feed = self.spark.read.option("readChangeFeed", "true").option("startingVersion", since + 1)
        return feed.option("endingVersion", until).table(self.name(table))

    def restored(self, table: str, since: int, until: int) -> bool:
        """Whether a commit after `since` and up to `until` has set the table back to an older version."""
        if self.directory is None:
            rows = self.delta(table).history(self.version(table) - since).select("operation", "version").collect()
            return any(row["operation"] == "RESTORE" and row["version"] <= until for row in rows)
        log = self.directory / table / "_delta_log"
        files = [file for version in range(since + 1, until + 1) if (file := log / f"{version:020}.json").is_file()]
        facts = (json.loads(line) for file in files for line in file.read_text().splitlines() if "commitInfo" in line)
        return any(fact.get("commitInfo", {}).get("operation") == "RESTORE" for fact in facts)

    def appended_files(self, table: str, since: int, until: int) -> list[Path] | None:
        """The files that commits after `since` and up to `until` have added, on a local file system.

        Rows that moved to other files do not count, nor rows that `expire` took. None if others were taken, or if the
        log does not say.
        """
        if self.directory is None:
            return None
        files: list[Path] = []
        for version in range(since + 1, until + 1):
            try:
                lines = (self.directory / table / "_delta_log" / f"{version:020}.json").read_text().splitlines()
            except OSError:
                return None
            actions = [json.loads(line) for line in lines]
            if any(action.get("commitInfo", {}).get("userMetadata") == EXPIRED for action in actions):
                continue
            if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
                return None
            added = [action["add"] for action in actions if "add" in action and action["add"].get("dataChange", True)]
            if any(add.get("deletionVector") for add in added):
                return None
            files += [self.directory / table / unquote(add["path"]) for add in added]
        return files

    def newest(self, table: str, *, tag: str) -> int:
        """The version of the newest commit with this tag, 0 if there is none."""
        commits = self.delta(table).history()
        found = commits.where(commits["userMetadata"] == tag).agg({"version": "max"}).first()
        return int(found[0]) if found and found[0] is not None else 0

    def delta(self, table: str) -> DeltaTable:
        """The table's Delta handle."""
        from delta.tables import DeltaTable

        return DeltaTable.forName(self.spark, self.name(table))

    # — write —

    def append(self, table: str, rows: DataFrame, *, tag: str) -> None:
        """Append rows in one commit that carries the tag."""
        self._save(table, rows, lambda writer: writer.mode("append"), tag)

    def replace(self, table: str, rows: DataFrame, *, batch: int, tag: str) -> None:
        """Write rows of a batch instead of those that it has in the table, in one commit that carries the tag."""
        condition = f"{quoted(BATCH)} = {batch:d}"
        self._save(table, rows, lambda writer: writer.mode("overwrite").option("replaceWhere", condition), tag)

    def _save(self, table: str, rows: DataFrame, mode: Callable[[DataFrameWriter], DataFrameWriter], tag: str) -> None:
        described = self.described[table]
        with self.lock(table):
            writer = mode(rows.select(*described.columns.names).write.format("delta").option("userMetadata", tag))
            writer = writer.partitionBy(*described.partitioned_by)
            where = self.location(table)
            # By its place a table is found sooner than by its name.
            writer.save(where) if where else writer.saveAsTable(self.name(table))

    def appended(self, table: str, *, tag: str, since: int) -> int | None:
        """How many rows the last commit after version `since` with this tag has written; None if there is none."""
        newer = self.version(table) - since
        if newer <= 0:
            return None
        commits = self.delta(table).history(newer)
        found = (
            commits.where((commits["version"] > since) & (commits["userMetadata"] == tag))
            .select("operationMetrics")
            .first()
        )
        return None if found is None else int(found["operationMetrics"].get("numOutputRows", 0))

    def overwrite(self, table: str, rows: DataFrame) -> None:
        """Replace the whole content of a (small) table in one commit."""
        with self.lock(table):
            rows.select(*self.described[table].columns.names).write.format("delta").mode("overwrite").saveAsTable(
                self.name(table)
            )

    def insert(self, table: str, rows: DataFrame) -> None:
        """Insert rows that may lack columns with a default."""
        view = f"sluice_insert_{id(rows)}"
        rows.createOrReplaceTempView(view)
        names = ", ".join(map(quoted, rows.columns))
        try:
            with self.lock(table):
                self.spark.sql(f"INSERT INTO {self.name(table)} ({names}) SELECT {names} FROM {view}")
        finally:
            self.spark.catalog.dropTempView(view)

    def delete(self, table: str, condition: Column) -> None:
        """Delete the rows that satisfy a condition."""
        with self.lock(table):
            self.delta(table).delete(condition)

    def expire(self, table: str, condition: Column) -> None:
        """Delete rows that nobody needs any more, in a commit that says so."""
        self.spark.conf.set(_METADATA, EXPIRED)
        try:
            self.delete(table, condition)
        finally:
            self.spark.conf.unset(_METADATA)

    @contextmanager
    def lock(self, *names: str) -> Iterator[None]:
        """Hold the locks of the tables against other processes and threads; a no-op where the store itself guards."""
        if self.directory is None:
            yield
            return
        held = []
        try:
            for name in sorted(names):
                file = self._lock_file(name)
                held.append(file)
                fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            for file in reversed(held):
                file.close()

    def claim(self, name: str) -> IO[str] | None:
        """A lock to be held until the file is closed or the process ends; None if another holds it."""
        file = self._lock_file(name)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def _lock_file(self, name: str) -> IO[str]:
        assert self.directory is not None
        directory = self.directory / "_locks"
        directory.mkdir(parents=True, exist_ok=True)
        return (directory / f"{name}.lock").open("a")


def quoted(identifier: str) -> str:
    """An identifier for SQL.

    >>> quoted("odd`name")
    '`odd``name`'
    """
    return "`" + identifier.replace("`", "``") + "`"


def text(value: str) -> str:
    r"""A string literal for SQL.

    >>> print(text("it's"))
    'it\'s'
    """
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
