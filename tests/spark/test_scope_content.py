"""The content of versions against slow, obvious trees: dicts in dicts, changed by the reference's `apply`.

Random events go through random chains of mappings, several branches for each event. After every round the attributes,
the failures, the payload, what the kernel sees, and the keys of all versions of an event are compared.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, localcontext
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from routing.checker.content import same_value
from routing.errors import MappingFailed
from routing.filters import Filter, evaluate, parse
from routing.mappings import Mapping, apply, parse_mapping, to_sql
from routing.scopes.content import FAILURE, Contents
from routing.sources import COLUMNS
from tests.properties import test_mapping_columns as typed

Tree = dict[str, Any]

PLAIN = [name for name in typed.SOURCE if name != "v"]
NESTED = [
    "a",
    "a.x",
    "a.y",
    "a.b",
    "a.b.z",
    "a.b.day",
    "w",
    "w.p",
    "w.q",
    "w.q.r",
    "v",
    "v.k",
    "n",
    "n.x",
    "n.x.y",
    "id",
]
NAMES = [*PLAIN, *NESTED, "i1.q", "gone"]
JSON = [None, "null", "5", '"t"', "[1, 2.0]", "{}", '{"p": 1}', '{"p": 1.0, "q": {"r": "a"}}']
JSON += [
    '{"p": 1e0, "q": {"r": "2026-01-31", "s": [1e2, {"t": 100}]}}',
    '{"q": 7, "u\\"": "1.0,\\" 2.50"}',
    '{"q": {"r": 0.1}}',
]


def way(name: str) -> tuple[str, ...]:
    return ("i1.q",) if name == "i1.q" else tuple(name.split("."))


def get(tree: Tree, name: str) -> Any:
    found: Any = tree
    for step in way(name):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def put(tree: Tree, name: str, value: Any) -> None:
    """Sets or, with None, drops what is there. Where something is set in no object, one is made."""
    *outer, last = way(name)
    for step in outer:
        if not isinstance(tree.get(step), dict):
            if value is None:
                return
            tree[step] = {}
        tree[step] = dict(tree[step])
        tree = tree[step]
    tree.pop(last, None)
    if value is not None:
        tree[last] = value


def flat(tree: Tree) -> dict[str, Any]:
    return {name: value for name in NAMES if (value := get(tree, name)) is not None}


@dataclass
class Version:
    """The original and what has been set since, None for dropped; setting an attribute forgets what was set inside."""

    original: Tree
    settings: dict[str, Any] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)

    @property
    def tree(self) -> Tree:
        tree = dict(self.original)
        for name in sorted(self.settings, key=lambda name: len(way(name))):
            put(tree, name, self.settings[name])
        return tree

    def mapped(self, mapping: Mapping) -> Version:
        after = apply(mapping, flat(self.tree))
        new = {one.attribute: after.get(one.attribute) for one in mapping.assignments}
        kept = {n: v for n, v in self.settings.items() if not any(way(n)[: len(way(o))] == way(o) for o in new)}
        return Version(self.original, kept | new, [*self.history, to_sql(mapping)])


def same(value: Any) -> Hashable:
    if isinstance(value, dict):
        return frozenset((key, same(inner)) for key, inner in value.items())
    return tuple(map(same, value)) if isinstance(value, list) else same_value(value)


def from_json(text: str | None) -> Any:
    """As Spark reads numbers: exact, unless they have an exponent."""
    return json.loads(text or "null", parse_float=lambda digits: float(digits) if "e" in digits else Decimal(digits))


# Events, as rows and as trees.

STRUCT = "struct<x: bigint, y: string, b: struct<z: double, day: date>>"


def events(spark: SparkSession, draw: random.Random, number: int) -> tuple[DataFrame, list[Tree]]:
    content = list(typed.rows(draw, number))
    inner = [
        draw.choice([None, (draw.choice([None, draw.choice(typed.DOUBLES)]), draw.choice([None, date(2026, 1, 31)]))])
        for _ in content
    ]
    structs = [
        draw.choice([None, (draw.choice([None, 1, 100]), draw.choice([None, "2026-01-31", "a"]), b)]) for b in inner
    ]
    objects = [draw.choice(JSON) for _ in content]
    more = spark.createDataFrame(
        [(n, a, w) for n, (a, w) in enumerate(zip(structs, objects, strict=True))], f"n int, a {STRUCT}, w string"
    )
    alternatives = [F.col(column).cast("variant") for column, _, _ in typed.SOURCE["v"]]
    columns = F.struct(
        F.lit("e").alias("id"), *PLAIN, F.coalesce(*alternatives).alias("v"), "a", F.parse_json("w").alias("w")
    )
    trees = []
    for row, struct, text in zip(content, structs, objects, strict=True):
        tree = typed.event(row)
        if struct:
            fields = {"x": struct[0], "y": struct[1], "b": struct[2] and {"z": struct[2][0], "day": struct[2][1]}}
            tree["a"] = without_none(fields)
        if (value := from_json(text)) is not None:
            tree["w"] = value
        trees.append(tree)
    return typed.frame(spark, content).join(more, "n").select("n", columns.alias(COLUMNS)), trees


def without_none(tree: Tree) -> Tree:
    return {k: without_none(v) if isinstance(v, dict) else v for k, v in tree.items() if v is not None}


def mapping(draw: random.Random) -> Mapping:
    targets = draw.sample([*NESTED, *NESTED, "i1", "s1", "d1", "m1", "day", "i1.q"], draw.choice([1, 1, 2, 3]))
    parts = [f"DROP {t}" if draw.random() < 0.25 else f"{t} = {expression(draw, t)}" for t in dict.fromkeys(targets)]
    return parse_mapping(", ".join(parts))


def expression(draw: random.Random, target: str) -> str:
    if draw.random() < 0.2:
        return target if draw.random() < 0.5 else f"COALESCE({target} * 1e0, {target})"  # often the same again
    if draw.random() < 0.3:
        return draw.choice(
            [*NAMES, "1", "1.00", "1e0", "'2026-01-31'", "DATE '2026-01-31'", "100", "'a'", "0.1", "0.1e0"]
        )
    made = draw.choice([typed.text, typed.number, typed.anything])(draw, draw.choice([0, 1, 1, 2]))
    return re.sub(r"\b(gone|v|f1)\b", lambda _: draw.choice(NESTED), made)


# The comparison.

CHILDREN: dict[str, T.DataType] = {
    "integer": T.LongType(),
    "double": T.DoubleType(),
    "decimal": T.DecimalType(),
    "string": T.StringType(),
    "boolean": T.BooleanType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "other": T.VariantType(),
}


def image(value: Any) -> Any:
    """Equal images for equal values of one type; what is no plain value is just there."""
    return "other" if isinstance(value, dict | list) else typed.image(value)


def struct(columns: Iterable[Column]) -> Column:
    return F.struct(F.lit(None).alias("none"), *(column.alias(f"v{place}") for place, column in enumerate(columns)))


def seen(column: Column, type: T.DataType) -> Column:
    """A column that Python reads without loss, or whether it is there."""
    match type:
        case T.TimestampType():
            return F.unix_micros(column)
        case T.StructType() | T.VariantType():
            return F.when(column.isNotNull(), F.lit("other"))
    return column


def value(row: Row, types: list[T.DataType]) -> Any:
    found = [(value, type) for value, type in zip(row[1:], types, strict=True) if value is not None]
    assert len(found) <= 1, found
    for value, type in found:
        match type:
            case T.TimestampType():
                return ("timestamp", value)
            case T.DecimalType():
                return image(Decimal(value))
            case T.StructType() | T.VariantType():
                return "other"
        return image(value)
    return None


def python(payload: T.VariantVal) -> Any:
    with localcontext(prec=100):  # PySpark rounds to the precision of the context
        return payload.toPython()


class Branches:
    """Versions of events, as rows and as trees; none where a mapping has failed."""

    def __init__(self, spark: SparkSession, draw: random.Random, number: int, branches: int) -> None:
        self.spark, self.draw = spark, draw
        rows, trees = events(spark, draw, number)
        numbers = spark.range(branches).select(F.col("id").cast("int").alias("branch"))
        self.rows = rows.crossJoin(numbers).localCheckpoint()
        self.contents = Contents(rows.schema[COLUMNS].dataType, frozenset({"id"}))
        self.versions: dict[tuple[int, int], Version | None] = {
            (n, branch): Version(tree) for n, tree in enumerate(trees) for branch in range(branches)
        }
        self.keys: dict[int, list[tuple[str, Hashable]]] = {n: [] for n in range(number)}
        self.counts = {"failed": 0, "original": 0, "equal": 0, "different": 0, "passed": 0, "stopped": 0}

    def round(self, mappings: dict[int, Mapping], filters: dict[int, Filter]) -> None:
        chosen = {place: self.draw.randrange(len(mappings) + 2) for place in self.versions}
        numbers = self.spark.createDataFrame(
            [(*place, by) for place, by in chosen.items()], "n int, branch int, by int"
        )
        rows = self.rows.drop("by").join(numbers, ["n", "branch"])
        rows, self.contents = self.contents.applied(rows, mappings, "by")
        self.rows = rows.localCheckpoint()
        for place, version in self.versions.items():
            try:
                mapping = mappings.get(chosen[place])
                self.versions[place] = version.mapped(mapping) if version and mapping else version
            except MappingFailed:
                self.versions[place] = None
        self.check({place: filters.get(by) for place, by in chosen.items()}, filters)

    def check(self, judges: dict[tuple[int, int], Filter | None], filters: dict[int, Filter]) -> None:
        attributes = self.contents.attributes()
        looked = {name: attributes[name] for name in [*PLAIN, *self.draw.sample(NESTED, 4), "i1.q", "gone"]}
        columns = [struct(seen(c, type) for c, type in found).alias(f"typed {n}") for n, found in looked.items()]
        kernel = self.contents.fields(self.draw.sample(NAMES, 15), frozenset(NAMES))
        columns += [struct(seen(a.column[c], CHILDREN[c]) for c in CHILDREN).alias(f"kernel {a.name}") for a in kernel]
        columns += [self.contents.key().alias("key"), self.contents.variant().alias("payload")]
        columns += [self.contents.passing(filters, "by").alias("passing")]
        for row in self.rows.select("n", "branch", FAILURE, *columns).collect():
            place = (row["n"], row["branch"])
            version = self.versions[place]
            assert (row[FAILURE] is None) == (version is not None), (place, row[FAILURE], version)
            if version is None:
                self.counts["failed"] += 1
                continue
            tree = version.tree
            for name, found in looked.items():
                got = value(row[f"typed {name}"], [type for _, type in found])
                assert got == image(get(tree, name)), (name, got, version)
            for name in (a.name for a in kernel):
                got = value(row[f"kernel {name}"], list(CHILDREN.values()))
                assert got == image(get(tree, name)), (name, got, version)
            payload, expected = python(row["payload"]), tree if "id" in version.settings else {"id": "e", **tree}
            assert same(payload) == same(expected), (payload, version)
            judge = judges[place]
            passes = judge is None or evaluate(judge, flat(tree)) is True
            assert row["passing"] == passes, (judge, version)
            self.counts["passed" if passes else "stopped"] += 1
            self.compare(row["n"], row["key"], version)

    def compare(self, event: int, key: str, version: Version) -> None:
        """The key against those of all versions of the event so far, in whatever layout they were."""
        mine = same(version.tree)
        for other, theirs in self.keys[event]:
            assert (key == other) == (mine == theirs), (key, other, theirs, version)
            self.counts["equal" if key == other and key else "original" if key == other else "different"] += 1
        self.keys[event].append((key, mine))


@pytest.fixture
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Without compiling: these columns are large, and the rows few."""
    settings = {"spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.codegen.wholeStage": "false"}
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield
    for key, old in before.items():
        spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def test_versions_are_the_reference(spark: SparkSession, interpreted: None) -> None:
    draw = random.Random("contents")
    branches = Branches(spark, draw, 40, 5)
    branches.round({}, {})
    for _ in range(3):
        filters = {
            n: parse(re.sub(r"\b(gone|v)\b", lambda _: draw.choice(NESTED), typed.condition(draw))) for n in range(6)
        }
        mappings = [mapping(draw) for _ in range(9)]
        branches.round(dict(enumerate([*mappings, mappings[0]])), filters)
        import time

        print("ROUND", time.time(), branches.counts)
    assert min(branches.counts.values()) > 50, branches.counts
