"""The streaming queries of an engine: one per source, their batches put in one order by the ledger.

Law: a batch is a retry exactly if its key was opened before; the key is the source, the checkpoint's generation,
Spark's batch id, and a hash of what the checkpoint says is in the batch. A deleted checkpoint begins a new generation;
one that lost a part makes other batches under the old ids, and these are no retries. `stop` lets the batch under way
finish. A source has one query at a time, over all processes.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from hashlib import md5
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from routing.errors import ConfigError, RoutingError, SourceBusy, SourceError
from routing.sources import Rows, decoder, stream

if TYPE_CHECKING:
    from routing.engine import Engine

_BROKEN = ("Incomplete log file", "Failed to read log file", "Malformed log file")
"""What Spark says of a checkpoint that was cut short."""
# A Delta source whose table gained a column stops once with one of these and goes on after a restart.
_SCHEMA_CHANGED = ("DELTA_SCHEMA_CHANGED", "DELTA_STREAMING_METADATA_EVOLUTION", "DELTA_STREAMING_SCHEMA")


class Running:
    """The queries under way. Made by `engine.start()`."""

    def __init__(self, engine: Engine, streams: Mapping[str, DataFrame]) -> None:
        self.engine = engine
        names = tuple(streams) or tuple(engine.config.sources)
        if not names:
            raise ConfigError("no sources: add one under `sources:` in the configuration")
        self._streams, self._stopping = dict(streams), threading.Event()
        self._failure: dict[str, RoutingError] = {}
        self._queries: dict[str, StreamingQuery] = {}
        self._claims = self._claimed(names)
        try:
            for name in names:
                self._queries[name] = self._query(name)
        except BaseException:
            self.stop()  # do not leave the sources that did start running on their own
            raise

    def await_termination(self) -> bool:
        """Wait until every query has ended; true if they were drained, false if stopped. A query that fails raises."""
        try:
            while self._queries and not self._stopping.is_set():
                for name, query in list(self._queries.items()):
                    if self._ended(name, query):
                        del self._queries[name]
        finally:
            drained = not self._queries
            self.stop()
        return drained

    def ask_to_stop(self) -> None:
        """Make `await_termination` stop the queries. Safe in a signal handler: it only sets a flag."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop all queries, each after the batch that it is in."""
        self._stopping.set()
        with self.engine.turn():  # the batch under way ends, and no other begins
            pass
        try:
            for query in self._queries.values():
                query.stop()
            self._queries = {}
            self.engine.close()
        finally:
            for claim in self._claims:
                claim.close()

    def _claimed(self, names: Iterable[str]) -> list[IO[str]]:
        """Keep other jobs off these sources: two on one checkpoint would each do half of a batch."""
        held: list[IO[str]] = []
        for name in names if self.engine.tables.directory else ():
            claim = self.engine.tables.claim(f"_source_{name}")
            if claim is None:
                for mine in held:
                    mine.close()
                raise SourceBusy(
                    f"another job is routing {name} into {self.engine.tables.directory}. Stop it, or wait until it "
                    "has ended; one job routes all sources of an engine"
                )
            held.append(claim)
        return held

    def _ended(self, name: str, query: StreamingQuery) -> bool:
        try:
            return query.awaitTermination(1) or False
        except StreamingQueryException as error:
            if self._stopping.is_set():
                return True
            if any(mark in str(error) for mark in _SCHEMA_CHANGED):
                self._queries[name] = self._query(name)
                return False
            if any(mark in str(error) for mark in _BROKEN):
                raise SourceError(
                    f"the checkpoint of {name} cannot be read. Move {self._checkpoint(name)} away and start again: the "
                    "source is then read anew, and what was delivered within the horizon is refused as a duplicate"
                ) from error
            raise self._failure.get(name, error) from error

    def _query(self, name: str) -> StreamingQuery:
        engine, source = self.engine, self.engine._source(name)
        rows = self._streams.get(name) or stream(engine.spark, name, source)
        checkpoint = self._checkpoint(name)
        seen = False

        def each(batch: DataFrame, number: int) -> None:
            nonlocal seen
            batch.sparkSession.conf.set("spark.sql.caseSensitive", "true")  # attribute names are exact
            offsets = _offsets(batch, checkpoint, number)
            known = md5(offsets.encode(), usedforsecurity=False).hexdigest()
            try:
                decode = Rows(batch, source) if name in self._streams else decoder(batch.sparkSession, source, batch)
                engine.process(
                    name,
                    decode,
                    key=f"{name}/{_generation(batch)}/{number}/{known}",
                    offsets=offsets,
                    known_new=seen,
                    cancelled=self._stopping.is_set,
                )
            except RoutingError as error:
                self._failure[name] = error  # as it is: Spark would hand it back as text
                raise
            seen = True

        writer = (
            rows.writeStream.queryName(f"sluice_{name}").option("checkpointLocation", checkpoint).foreachBatch(each)
        )
        return _triggered(writer, engine.config.trigger).start()

    def _checkpoint(self, name: str) -> str:
        tables = self.engine.tables
        root = self.engine.config.checkpoints or (
            str(tables.directory / "_checkpoints") if tables.directory else tables.location("_checkpoints")
        )
        return f"{root}/{name}"


def _triggered(writer: DataStreamWriter, trigger: str) -> DataStreamWriter:
    if trigger == "once":
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime="0 seconds" if trigger == "continuous" else trigger)


def _offsets(batch: DataFrame, checkpoint: str, number: int) -> str:
    """What the checkpoint says of a batch: its offsets, and on a local file system the newest entry of each source.

    Both are written before the batch begins, and read back when it is done again. A directory's files are only in the
    second.
    """
    directory = checkpoint.removeprefix("file:")
    if re.match(r"[a-z0-9]+:", directory):
        lines = batch.sparkSession.read.text(f"{checkpoint}/offsets/{number}").toArrow()
        return "\n".join(lines["value"].to_pylist())
    texts = [(Path(directory) / "offsets" / str(number)).read_text()]
    for source in sorted((Path(directory) / "sources").glob("*")):
        entries = [file for file in source.iterdir() if file.name.removesuffix(".compact").isdigit()]
        texts += [max(entries, key=lambda file: int(file.name.removesuffix(".compact"))).read_text()] if entries else []
    return "\n".join(texts)


def _generation(batch: DataFrame) -> str:
    """Spark's id of the query: it lives and dies with the checkpoint, wherever that lies."""
    return str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
