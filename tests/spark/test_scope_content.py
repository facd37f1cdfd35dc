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
from itertools import combinations
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from routing.checker.content import same_value, sameness
from routing.errors import MappingFailed
from routing.filters import Filter, evaluate, parse
from routing.mappings import Mapping, apply, parse_mapping, to_sql
from routing.matching.attributes import ANY, Attribute
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


def children(attribute: Attribute) -> list[tuple[Column, T.DataType]]:
    """What the kernel sees of an attribute: a column for each type, or one where it has one type."""
    if attribute.field.type == ANY:
        return [(attribute.column[child], type) for child, type in CHILDREN.items()]
    if pa.types.is_binary(attribute.field.type):
        return [(attribute.column, T.VariantType())]
    return [(attribute.column, from_arrow_type(attribute.field.type))]


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
        numbers = spark.range(branches).select(F.col("id").cast("integer").alias("branch"))
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
        columns += [struct(seen(c, type) for c, type in children(a)).alias(f"kernel {a.name}") for a in kernel]
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
            for a in kernel:
                got = value(row[f"kernel {a.name}"], [type for _, type in children(a)])
                assert got == image(get(tree, a.name)), (a.name, got, version)
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
    branches = Branches(spark, draw, 30, 5)
    branches.round({}, {})
    for _ in range(3):
        filters = {
            n: parse(re.sub(r"\b(gone|v)\b", lambda _: draw.choice(NESTED), typed.condition(draw))) for n in range(6)
        }
        mappings = [mapping(draw) for _ in range(9)]
        branches.round(dict(enumerate([*mappings, mappings[0]])), filters)
    assert min(branches.counts.values()) > 40, branches.counts


# Examples.

EVENT = "id string, i int, a struct<x: int, y: string>, v variant"
OBJECT = {"id": "e", "i": 100, "a": {"x": 1, "y": "t"}, "v": {"k": 1, "o": {"p": 2}}}

# the event, the mappings in turn, and the payload
EXAMPLES: list[tuple[Tree, list[str], Tree]] = [
    (OBJECT, ["DROP i"], {"id": "e", "a": {"x": 1, "y": "t"}, "v": {"k": 1, "o": {"p": 2}}}),
    # what is inside goes with what is around it
    (OBJECT, ["DROP a, DROP v", "b = a.x, c = v.k, d = v.o.p"], {"id": "e", "i": 100}),
    (OBJECT, ["a = 5, DROP v", "b = a.x"], {"id": "e", "i": 100, "a": 5}),
    (OBJECT, ["DROP a, DROP v", "a.x = 7"], {"id": "e", "i": 100, "a": {"x": 7}}),
    (OBJECT, ["DROP v", "DROP a", "a.y = 'u'", "b = a.y, DROP a"], {"id": "e", "i": 100, "b": "u"}),
    (OBJECT, ["v.o.p = 3", "v.o = 4", "b = v.o.p"], OBJECT | {"v": {"k": 1, "o": 4}}),
    # of one mapping the outer assignment comes first
    (OBJECT, ["a.x = a.x + 1, DROP a"], OBJECT | {"a": {"x": 2}}),
    # fields are set inside structs and objects
    (OBJECT, ["a.x = 'one', a.z = 2"], OBJECT | {"a": {"x": "one", "y": "t", "z": 2}}),
    (OBJECT, ["DROP a.x, DROP v.o.p"], OBJECT | {"a": {"y": "t"}, "v": {"k": 1, "o": {}}}),
    (OBJECT, ["v.o.p = 3, v.o.q.r = 4, v.l = 5"], OBJECT | {"v": {"k": 1, "o": {"p": 3, "q": {"r": 4}}, "l": 5}}),
    ({"i": 1}, ["a.x = 1, v.k = 2, n.x.y = 3"], {"i": 1, "a": {"x": 1}, "v": {"k": 2}, "n": {"x": {"y": 3}}}),
    ({"i": 1}, ["DROP a.x, DROP v.k.l, DROP n.x"], {"i": 1}),
    # an object that a mapping made is there as long as something is in it, in the place of a plain value
    ({"v": 5}, ["v.k = 1", "b = v", "DROP b.k, DROP v.k", "c = v"], {"v": 5, "b": {}, "c": 5}),
    # below a plain column there is nothing: a column of its own
    (OBJECT, ["i.x = 1, a.x.q = 2", "DROP i, DROP a"], {"id": "e", "v": OBJECT["v"], "i.x": 1, "a.x.q": 2}),
    # a struct or an object is a value
    (
        OBJECT,
        ["b = a, c = v, DROP a, DROP v", "b.x = c.o.p, d = c.k"],
        {"id": "e", "i": 100, "b": {"x": 2, "y": "t"}, "c": OBJECT["v"], "d": 1},
    ),
    (OBJECT, ["a.x = 2", "b = a, v = a", "c = b.x + v.x"], OBJECT | {k: {"x": 2, "y": "t"} for k in "abv"} | {"c": 4}),
    # the id is no attribute, until a mapping sets it
    (OBJECT, ["b = id, DROP v"], {"id": "e", "i": 100, "a": {"x": 1, "y": "t"}}),
    (OBJECT, ["id = 7, DROP a, DROP v", "b = id"], {"id": 7, "i": 100, "b": 7}),
    (OBJECT, ["DROP id, DROP a, DROP v"], {"i": 100}),
    # any name
    (
        {"i": 1},
        ["`x.y``'\"` = 1, `v.?` = 3", "b = `x.y``'\"`, c = `v.?`"],
        {"i": 1, "x": {"y`'\"": 1}, "v": {"?": 3}, "b": 1, "c": 3},
    ),
]


def example_rows(spark: SparkSession, originals: list[Tree]) -> DataFrame:
    texts = [
        (n, json.dumps({k: v for k, v in tree.items() if k != "v"}), json.dumps(tree.get("v")))
        for n, tree in enumerate(originals)
    ]
    plain = F.from_json("text", EVENT.rpartition(",")[0])
    columns = F.struct(*(plain[name].alias(name) for name in ("id", "i", "a")), F.parse_json("v").alias("v"))
    return spark.createDataFrame(texts, "n int, text string, v string").select("n", columns.alias(COLUMNS))


def through(spark: SparkSession, chains: list[tuple[Tree, list[str]]]) -> tuple[DataFrame, Contents]:
    """Each original through its own mappings."""
    rows = example_rows(spark, [original for original, _ in chains])
    contents = Contents(rows.schema[COLUMNS].dataType, frozenset({"id"}))
    for turn in range(max(len(texts) for _, texts in chains)):
        mappings = {n: parse_mapping(texts[turn]) for n, (_, texts) in enumerate(chains) if turn < len(texts)}
        rows, contents = contents.applied(rows, mappings, "n")
        rows = rows.localCheckpoint()
    return rows, contents


def test_examples(spark: SparkSession, interpreted: None) -> None:
    rows, contents = through(spark, [(original, texts) for original, texts, _ in EXAMPLES])
    for n, payload, failure in rows.select("n", F.to_json(contents.variant()), FAILURE).collect():
        assert failure is None and json.loads(payload) == EXAMPLES[n][2], (EXAMPLES[n], payload)


def test_keys_of_numbers_and_kinds(spark: SparkSession, interpreted: None) -> None:
    """All values of all types, each as `x` of an event of its own, where keys are those of the value alone."""
    types = {name: type for name in PLAIN for _, type, _ in typed.SOURCE[name]} | {"d1": T.DoubleType()}
    values = {name: list(values) for name in PLAIN for _, _, values in typed.SOURCE[name]}
    values["d1"] = [
        *typed.EVERY_DOUBLE,
        1e37,
        -1e37,
        9.999999999999999e37,
        1e38,
        2.0**64 + 2**12,
        1e-38,
        1.5e-38,
        1e-7,
        123456789.125,
    ]
    values["m3"] += [Decimal(int(double)) for double in (1e23, 1e37, -1e37, 2.0**64 + 2**12)]
    values["m4"] += [Decimal("0.0000001"), Decimal("0.3")]
    values["s1"] += ["NaN", "true", "100", "2026-01-31"]
    content = [dict.fromkeys(types) | {name: value} for name in PLAIN for value in values[name]]
    for row in content:
        row |= {column: None for column, _, _ in typed.SOURCE["v"]}
    rows = typed.frame(spark, content).select("n", F.struct(*PLAIN).alias(COLUMNS))
    contents = Contents(rows.schema[COLUMNS].dataType)
    rows, contents = contents.applied(
        rows, dict.fromkeys(range(len(content)), parse_mapping(f"x = COALESCE({', '.join(PLAIN)})")), "n"
    )
    keys = dict(rows.select("n", contents.key()).collect())
    sames = {n: sameness({"x": typed.event(row).popitem()[1]}) for n, row in enumerate(content)}
    for a, b in combinations(keys, 2):
        assert (keys[a] == keys[b]) == (sames[a] == sames[b]), (sames[a], sames[b])


def test_layouts_unite(spark: SparkSession) -> None:
    some, narrow = through(spark, [(OBJECT, ["i = 100.0, v.k = 'a'"]), (OBJECT, ["v.k = 1e0"])])
    others, wide = through(spark, [(OBJECT, ["b = v, v.k = 'a', DROP n.x", "DROP b"]), (OBJECT, ["a = v, v = a"])])
    both = narrow.union(wide)
    united = narrow.widened(some, both).unionByName(wide.widened(others, both))
    keys = [row[0] for row in united.orderBy("n").select(both.key()).collect()]
    assert [row[0] for row in some.orderBy("n").select(narrow.key()).collect()] == [keys[0], ""]
    assert keys[0] == keys[1] and sorted(map(len, keys[2:])) == [0, 32] and keys[0] not in keys[2:]


def test_a_mapping_that_fails_is_remembered(spark: SparkSession) -> None:
    too_large = f"b = {' + '.join(['v.k'] * 25)}"
    rows, _ = through(
        spark, [(OBJECT, ["b = 1 / (i - 100)", "b = 1"]), (OBJECT, ["b = 1", "b = 'a' + 1"]), (OBJECT, [too_large])]
    )
    failures = [row[0] for row in rows.orderBy("n").select(FAILURE).collect()]
    assert [failure and failure.split(":")[0] for failure in failures] == ["b", "b", "column 1"], failures


def test_what_a_mapping_touches() -> None:
    contents = Contents(
        T.StructType().add("a", T.StructType().add("x", "integer")).add("v", "variant").add("i", "integer")
    )
    names = ["a", "a.x", "a.y", "v", "v.k", "i", "i.x", "b"]
    assert contents.touched(names, ["a.x", "i"]) == {"a", "a.x", "i"}
    assert contents.touched(names, ["v", "i.x"]) == {"v", "v.k", "i.x"}
