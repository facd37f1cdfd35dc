"""The pages agree with the code."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from schemas import tables

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_table_and_column_is_described() -> None:
    page = re.sub(r"\s+", " ", (ROOT / "docs" / "tables.md").read_text())
    for table in (*tables("consumer"), *tables("bucket")):
        assert table.comment in page, table.name
        for column in table.columns:
            assert f"`{column.name}`" in page and column.metadata["comment"] in page, f"{table.name}.{column.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
        assert target.startswith("http") or (page.parent / target).exists(), target


def test_every_make_target_is_real() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in PAGES:
        for target in re.findall(r"^    make ([a-z-]+)", page.read_text(), re.M):
            assert target in targets, f"{page.name}: make {target}"


def test_examples_of_the_filter_algebra_are_true() -> None:
    failed, tried = doctest.testfile(str(ROOT / "docs" / "filter-algebra.md"), module_relative=False)
    assert tried > 5 and not failed
