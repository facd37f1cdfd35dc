"""Commands that need no Spark."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from jobs.cli import app


@pytest.mark.parametrize(
    ("first", "second", "answers"),
    [
        ("x > 3", "x = 5", ["yes", "no", "yes"]),
        ("x > 3", "x < 3", ["no", "no", "no"]),
        ("x <> 2", "x < 2 OR x > 2", ["yes", "yes", "yes"]),
    ],
)
def test_compare(first: str, second: str, answers: list[str]) -> None:
    result = CliRunner().invoke(app, ["compare", first, second])
    assert [line.rsplit(": ")[-1] for line in result.output.splitlines()] == answers


def test_compare_says_where_a_text_is_wrong() -> None:
    result = CliRunner().invoke(app, ["compare", "x > 3", "x ="])
    assert result.exit_code == 1
    assert "column 4: expected a value" in result.output
