"""The streaming queries of an engine: one per source, their batches put in one order by the ledger.

Law: a batch is a retry exactly if its key was opened before; the key is the source, the checkpoint's generation and
Spark's batch id. A deleted checkpoint begins a new generation. `stop` lets the batch under way finish.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from routing.errors import ConfigError, RoutingError
from routing.sources import Rows, decoder, stream

if TYPE_CHECKING:
    from routing.engine import Engine

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
        for query in self._queries.values():
            query.stop()
        self._queries = {}
        self.engine.close()

    def _ended(self, name: str, query: StreamingQuery) -> bool:
        try:
            return query.awaitTermination(1) or False
        except StreamingQueryException as error:
            if self._stopping.is_set():
                return True
            if any(mark in str(error) for mark in _SCHEMA_CHANGED):
                self._queries[name] = self._query(name)
                return False
            raise self._failure.get(name, error) from error

    def _query(self, name: str) -> StreamingQuery:
        engine, source = self.engine, self.engine._source(name)
        rows = self._streams.get(name) or stream(engine.spark, name, source)
        checkpoint = self._checkpoint(name)
        seen = False

        def each(batch: DataFrame, number: int) -> None:
            nonlocal seen
            batch.sparkSession.conf.set("spark.sql.caseSensitive", "true")  # attribute names are exact
            try:
                decode = Rows(batch, source) if name in self._streams else decoder(batch.sparkSession, source, batch)
                engine.process(
                    name,
                    decode,
                    key=f"{name}/{_generation(batch)}/{number}",
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


def _generation(batch: DataFrame) -> str:
    """Spark's id of the query: it lives and dies with the checkpoint, wherever that lies."""
    return str(batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
