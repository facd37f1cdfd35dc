"""Sources: how a stream is read, and how one of its batches becomes events with typed columns.

Law: every line or row that arrives becomes one row of ARRIVED, readable or not. A column that appears in mid-stream
is a column from that batch on; a known column keeps its type (integers may widen to doubles). Directories are
followed file by file, so that each batch can look at the columns its own files have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow.fs
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from routing.config import FILES, Source
from routing.errors import SourceError
from routing.variant_path import variant_path

COLUMNS, RAW, MALFORMED = "columns", "raw", "malformed"
ARRIVED = (COLUMNS, RAW, MALFORMED)

CORRUPT = "_corrupt_record"  # Spark's usual name, in rows that come typed
UNREADABLE = "__sluice_unreadable"  # ours; an event cannot have such a column
_FOLLOWING = {
    option.lower()
    for option in (
        "maxFilesPerTrigger",
        "maxBytesPerTrigger",
        "latestFirst",
        "fileNameOnly",
        "maxFileAge",
        "maxCachedFiles",
        "cleanSource",
        "sourceArchiveDir",
        "pathGlobFilter",
        "recursiveFileLookup",
    )
}
_FILE = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
_HEADER_BYTES = 1 << 16


def stream(spark: SparkSession, name: str, source: Source) -> DataFrame:
    """The source as a streaming DataFrame; of a directory, a stream of its files."""
    options = dict(source.options)
    try:
        if source.format in FILES:
            following = {key: value for key, value in options.items() if key.lower() in _FOLLOWING}
            reader = (
                spark.readStream.format("binaryFile").schema(_FILE).options(**{"maxFilesPerTrigger": 1000, **following})
            )
            return reader.load(source.path).select("path")
        if source.format == "delta":
            options = {"skipChangeCommits": "true", **options}
        reader = spark.readStream.format(source.format).options(**options)
        return reader.table(source.table) if source.table else reader.load(source.path)
    except AnalysisException as error:
        raise SourceError(f"source {name}: {str(error).splitlines()[0]} Check its path, table and options.") from error


def decoder(spark: SparkSession, source: Source, batch: DataFrame) -> Decoder:
    """What reads one batch of the stream."""
    if source.format in FILES:
        paths = [_literal_path(row["path"]) for row in batch.collect()]  # at most maxFilesPerTrigger
        if source.format == "json":
            return JsonText(
                spark.read.text(paths, lineSep=_text(source, "lineSep"))
                if "lineSep" in source.options
                else spark.read.text(paths),
                source,
            )
        return CsvFiles(spark, paths, source) if source.format == "csv" else ParquetFiles(spark, paths, source)
    if source.value == "json":
        meta = F.struct("topic", "partition", "offset", "timestamp", F.col("key").cast("string").alias("key")).alias(
            "kafka"
        )
        return JsonText(batch.select(F.col("value").cast("string").alias("value"), meta), source)
    return Rows(batch, source)


class Decoder:
    """Two questions: which columns does the batch have, given those known so far; and its rows, under a schema."""

    def observe(self, known: StructType | None) -> StructType:
        """The schema of this batch: the known one with the batch's new columns added."""
        raise NotImplementedError

    def rows(self, schema: StructType) -> DataFrame:
        """The batch as ARRIVED."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rows(Decoder):
    """Rows that are typed already. A column `_corrupt_record`, if there is one, holds what could not be read."""

    batch: DataFrame
    source: Source

    def observe(self, known: StructType | None) -> StructType:
        """The known columns, each with the batch's own type if it has the column, and the batch's new ones."""
        own = StructType([field for field in self.batch.schema if field.name != CORRUPT])
        kept = [own[field.name] if field.name in own.names else field for field in known or ()]
        return StructType([*kept, *(field for field in own if known is None or field.name not in known.names)])

    def rows(self, schema: StructType) -> DataFrame:
        """The batch as ARRIVED."""
        return _arrived(self.batch, schema)


@dataclass(frozen=True)
class JsonText(Decoder):
    """One JSON object a line, in the column `value`; any other column is kept as it is."""

    batch: DataFrame
    source: Source

    def observe(self, known: StructType | None) -> StructType:
        """The columns that Spark infers from this batch, added to the known ones."""
        reader = self.batch.sparkSession.read.options(dropFieldIfAllNull="true", mode="DROPMALFORMED")
        inferred = reader.options(**self._options()).json(self.batch.select("value")).schema
        readable = StructType([field for field in inferred if field.name != UNREADABLE])
        return merged(merged(known, self._settled(readable, known or StructType())), self._others())

    def _settled(self, inferred: StructType, known: StructType) -> StructType:
        """Spark calls a column a string as soon as one of its values is; what most of its values are is what it is.

        Of a column known to hold integers it matters only whether there are fractions now.
        """
        settled = [field.name for field in known if not isinstance(field.dataType, LongType)]
        doubtful = [f.name for f in inferred if isinstance(f.dataType, StringType) and f.name not in settled]
        if not doubtful:
            return inferred
        parsed = F.try_parse_json("value")
        counts = []
        for name in doubtful:
            kind = F.schema_of_variant(F.try_variant_get(parsed, variant_path([name]) or "$", "variant"))
            fraction = kind.startswith("DECIMAL") | (kind == "DOUBLE")
            tests = (kind == "BIGINT", fraction, kind == "BOOLEAN", kind == "STRING", kind.startswith("OBJECT"))
            counts.append(F.struct(*(F.count_if(test) for test in tests)))
        counted = self.batch.select(*counts).first() or ()
        types: dict[str, DataType] = {}
        for name, (whole, broken, logical, written, nested) in zip(doubtful, counted, strict=True):
            types[name] = _majority(whole, broken, logical, written, integers=name in known.names)
            if nested > max(whole + broken, logical, written):
                types[name] = self._nested(name)
        return StructType([StructField(field.name, types.get(field.name, field.dataType)) for field in inferred])

    def _nested(self, name: str) -> StructType:
        """The fields of a column that mostly holds objects."""
        inner = F.try_variant_get(F.try_parse_json("value"), variant_path([name]) or "$", "variant")
        objects = self.batch.where(F.schema_of_variant(inner).startswith("OBJECT")).select(
            F.to_json(inner).alias("value")
        )
        return self.batch.sparkSession.read.options(**self._options()).json(objects).schema

    def rows(self, schema: StructType) -> DataFrame:
        """Each line parsed under the schema; lines that do not fit it are malformed, blank ones are nothing."""
        others = self._others()
        fields = [field for field in schema if field.name not in others.names]
        parsed = F.from_json(
            "value",
            StructType([*fields, StructField(UNREADABLE, StringType())]),
            {**self._options(), "mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE},
        )
        lines = self.batch.where(F.coalesce(~F.col("value").rlike(r"^\s*$"), F.lit(True))).select(
            "*", parsed.alias("parsed")
        )
        # Spark reads the first object of a line and forgets the rest; such a line is not one event.
        unquoted = F.regexp_replace("value", r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', "")
        more = ~F.col("value").rlike(r"\}\s*$") | (F.col("value").rlike(r"\}\s*\{") & unquoted.rlike(r"\}\s*\{"))
        unfit = F.col(f"parsed.{UNREADABLE}").isNotNull()
        wrong = F.when(
            F.try_parse_json("value").isNull() | ~F.col("value").rlike(r"^\s*\{"), "not a JSON object"
        ).otherwise("a value does not fit the type of its column")
        columns = [F.col("parsed")[field.name].alias(field.name) for field in fields] + [
            F.col(name) for name in others.names
        ]
        problem = (
            F.when(F.col("value").isNull(), "no value")
            .when(unfit, wrong)
            .when(more, "more than one JSON object in a line")
        )
        return lines.select(
            F.struct(*columns).alias(COLUMNS) if columns else F.lit(None).cast(schema).alias(COLUMNS),
            F.col("value").alias(RAW),
            problem.alias(MALFORMED),
        )

    def _options(self) -> dict[str, str]:
        return {key: _text(self.source, key) for key in self.source.options if key.lower() not in _FOLLOWING}

    def _others(self) -> StructType:
        return StructType([field for field in self.batch.schema if field.name != "value"])


@dataclass(frozen=True)
class ParquetFiles(Decoder):
    """Parquet files, whose columns may differ."""

    spark: SparkSession
    paths: Sequence[str]
    source: Source

    def observe(self, known: StructType | None) -> StructType:
        """The columns of all files of the batch, from their footers, added to the known ones."""
        return merged(known, self.spark.read.option("mergeSchema", "true").parquet(*self.paths).schema)

    def rows(self, schema: StructType) -> DataFrame:
        """The files under the schema."""
        return _arrived(self.spark.read.schema(schema).parquet(*self.paths), schema)


@dataclass(frozen=True)
class CsvFiles(Decoder):
    """CSV files, whose headers may differ: files with the same header are read together."""

    spark: SparkSession
    paths: Sequence[str]
    source: Source

    def observe(self, known: StructType | None) -> StructType:
        """The known columns and, with inferred types, those that only a header of this batch has."""
        schema = known
        for header, paths in self._by_header().items():
            if schema is None or not set(header) <= set(schema.names):
                schema = merged(schema, self._reader().option("inferSchema", "true").csv(paths).schema)
        return schema or StructType()

    def rows(self, schema: StructType) -> DataFrame:
        """The files, each under the part of the schema that its header names."""
        parts = []
        for header, paths in self._by_header().items():
            fields = [schema[name] for name in header] if header else list(schema)
            read = self._reader().schema(StructType([*fields, StructField(UNREADABLE, StringType())])).csv(paths)
            parts.append(_arrived(read, schema))
        return reduce(DataFrame.unionAll, parts) if parts else _arrived(self.spark.createDataFrame([], schema), schema)

    def _reader(self) -> DataFrameReader:
        options = {
            "header": "true",
            **{key: _text(self.source, key) for key in self.source.options if key.lower() not in _FOLLOWING},
        }
        return self.spark.read.options(**options, mode="PERMISSIVE", columnNameOfCorruptRecord=UNREADABLE)

    def _by_header(self) -> dict[tuple[str, ...], list[str]]:
        """The files by the names of their columns, as Spark reads them off the first line."""
        if _text(self.source, "header", "true").lower() == "false":
            return {(): list(self.paths)}
        lines: dict[str, list[str]] = {}
        for path in self.paths:
            lines.setdefault(_first_line(path), []).append(path)
        named: dict[tuple[str, ...], list[str]] = {}
        for line, paths in lines.items():
            if line.strip():  # an empty file has no columns and no rows
                named.setdefault(tuple(self._reader().csv(paths[0]).columns), []).extend(paths)
        return named


def _first_line(path: str) -> str:
    plain = re.sub(r"\\(.)", r"\1", path)
    local = re.match(r"file:/*(/.*)", plain)
    if local:
        with Path(local[1]).open("rb") as file:
            head = file.read(_HEADER_BYTES)
    else:
        system, place = pyarrow.fs.FileSystem.from_uri(plain)
        with system.open_input_stream(place) as stored:
            head = stored.read(_HEADER_BYTES)
    return head.decode("utf-8-sig", errors="replace").split("\n", 1)[0]


def _majority(whole: int, broken: int, logical: int, written: int, *, integers: bool = False) -> DataType:
    """The type that most values have; strings only if nothing else is as frequent.

    >>> _majority(whole=5, broken=1, logical=0, written=2)
    DoubleType()
    """
    if whole + broken >= max(logical, written, 1) or (integers and broken):
        return DoubleType() if broken else LongType()
    return BooleanType() if logical >= max(written, 1) else StringType()


def merged(known: StructType | None, observed: StructType) -> StructType:
    """The known columns, widened where integers met doubles, and the observed ones that are new.

    >>> merged(StructType([StructField("x", LongType())]), StructType([StructField("y", StringType())])).names
    ['x', 'y']
    """
    if known is None:
        return observed
    fields = [
        StructField(field.name, _wider(field.dataType, observed[field.name].dataType))
        if field.name in observed.names
        else field
        for field in known
    ]
    return StructType([*fields, *(field for field in observed if field.name not in known.names)])


def _wider(known: DataType, observed: DataType) -> DataType:
    if isinstance(known, StructType) and isinstance(observed, StructType):
        return merged(known, observed)
    widens = (isinstance(known, LongType) and isinstance(observed, DoubleType | DecimalType)) or (
        isinstance(known, DecimalType) and isinstance(observed, DoubleType)
    )
    return observed if widens else known


def _arrived(read: DataFrame, schema: StructType) -> DataFrame:
    """Typed rows as ARRIVED: a column that this batch lacks is NULL, and the raw row is its columns as JSON."""
    columns = [
        F.col(_backticked(field.name))
        if field.name in read.columns
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in schema
    ]
    marks = [name for name in (UNREADABLE, CORRUPT) if name in read.columns and name not in schema.names]
    corrupt = F.col(marks[0]) if marks else F.lit(None).cast("string")
    packed = F.struct(*columns).alias(COLUMNS) if columns else F.lit(None).cast(schema).alias(COLUMNS)
    problem = F.when(F.col(RAW).isNotNull(), F.lit("the row does not fit the columns or their types"))
    return read.select(packed, corrupt.alias(RAW)).select(COLUMNS, RAW, problem.alias(MALFORMED))


def _backticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _literal_path(path: str) -> str:
    """A path that Spark takes as it is, and not as a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _text(source: Source, option: str, otherwise: str = "") -> str:
    value = next((value for key, value in source.options.items() if key.lower() == option.lower()), otherwise)
    return str(value).lower() if isinstance(value, bool) else str(value)
