"""Imports point one way: schemas ← udfs ← routing ← jobs; inside routing, from the core outwards."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ["schemas", "udfs", "routing", "jobs"]

# Each layer may import the layers before it. Modules of one layer in braces do not import each other.
LAYERS = [
    {"errors", "crash", "beside"},
    {"filters"},
    {"model", "config", "variant_path", "checker"},
    {"java"},
    {"jars"},
    {"session"},
    {"tables"},
    {"registry", "matching", "sources", "rejections", "views", "ledger"},
    {"mappings", "maintain", "inboxes", "seen"},
    {"scopes", "check"},
    {"acting"},
    {"subscriptions", "delay"},
    {"snapshot"},
    {"identify"},
    {"admit"},
    {"memory"},
    {"flow"},
    {"policy"},
    {"pipeline"},
    {"sink"},
    {"running"},
    {"engine"},
]


def imports(file: Path) -> set[str]:
    """The modules that a file imports when it is run, not only for type checkers."""
    found: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(file.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        waiting.extend(ast.iter_child_nodes(node))
    return found


def sources(room: str) -> list[Path]:
    return sorted((ROOT / room).rglob("*.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_earlier_rooms(room: str) -> None:
    later = ROOMS[ROOMS.index(room) + 1 :]
    wrong = {(file.name, module) for file in sources(room) for module in imports(file) if module.split(".")[0] in later}
    assert not wrong


def test_every_module_of_routing_has_a_layer() -> None:
    modules = {
        path.stem for path in (ROOT / "routing").iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert modules - {"__init__"} == set().union(*LAYERS)


@pytest.mark.parametrize("layer", range(len(LAYERS)))
def test_layers_of_routing_import_only_earlier_layers(layer: int) -> None:
    later = set[str]().union(*LAYERS[layer:])
    for module in LAYERS[layer]:
        files = (
            [ROOT / "routing" / f"{module}.py"]
            if (ROOT / "routing" / f"{module}.py").is_file()
            else sources(f"routing/{module}")
        )
        for file in files:
            used = {name.split(".")[1] for name in imports(file) if name.startswith("routing.")}
            assert not (used & later) - {module}, f"{file.relative_to(ROOT)} imports {sorted(used & later)}"


def test_the_checker_shares_nothing_but_the_language_of_filters() -> None:
    used = {module for file in sources("routing/checker") for module in imports(file) if module.startswith("routing.")}
    assert {module.split(".")[1] for module in used} == {"checker", "filters", "errors"}


def test_importing_routing_starts_nothing() -> None:
    code = "import sys, routing, routing.filters; assert 'pyspark' not in sys.modules and 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
