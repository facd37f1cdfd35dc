from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from routing.config import conf_directory, load
from routing.errors import ConfigError

QUOTES = {"format": "json", "path": "feed", "id": "id", "publisher": "exchange"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"databse": "x"}, "'databse' is not a known key. Did you mean 'database'?"),
        ({"notifications": {"layuot": "bucket"}}, "'notifications.layuot' is not a known key. Did you mean 'layout'?"),
        (
            {"sources": {"q": {**QUOTES, "shema": "x INT"}}},
            "'sources.q.shema' is not a known key. Did you mean 'schema'?",
        ),
        ({"sources": {"q": {**QUOTES, "format": "xml"}}}, "sources.q.format"),
        ({"sources": {"q": {"format": "json", "path": "feed", "id": "id"}}}, "give either publisher"),
        ({"sources": {"q; DROP": QUOTES}}, "sources.q; DROP"),
        ({"sources": {"q": {"format": "json", "id": "id", "publisher": "p"}}}, "needs a path"),
        ({"duplicates": {"horizon": "7 fortnights"}}, "'7 fortnights' is not a duration"),
        ({"trigger": "sometimes"}, "trigger: 'sometimes' is none of"),
        ({"journal": "off"}, "also set duplicates"),
        ({"journal": "keys", "notifications": {"payload": "reference"}}, "needs journal: full"),
        ({"warehouse": None}, "say where checkpoints lie"),
        ({"database": "a`b"}, "database"),
        ({"filters": {"depth": 100000}}, "filters.depth"),
    ],
)
def test_a_mistake_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match="configuration") as caught:
        load(given)
    assert message in str(caught.value)


def test_durations() -> None:
    assert load({"duplicates": {"horizon": "36 hours"}}).duplicates.horizon == timedelta(hours=36)
    assert load({"retention": "1 week"}).retention == timedelta(weeks=1)


def test_the_environment_overrides_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_NOTIFICATIONS__LAYOUT", "bucket")
    assert load({"notifications": {"layout": "consumer"}}).notifications.layout == "bucket"


def test_default_yaml_shows_the_defaults() -> None:
    assert load(conf_directory() / "default.yaml") == load({})


def test_default_yaml_names_every_key() -> None:
    shown = yaml.safe_load((conf_directory() / "default.yaml").read_text())
    assert set(shown) == set(load({}).model_dump())


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(tmp_path / "missing.yaml")
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(ConfigError, match="not YAML"):
        load(tmp_path / "bad.yaml")
    (tmp_path / "list.yaml").write_text("- a")
    with pytest.raises(ConfigError, match="expected keys and values"):
        load(tmp_path / "list.yaml")
    (tmp_path / "tagged.yaml").write_text("!!python/object/apply:os.system ['true']")
    with pytest.raises(ConfigError, match="not YAML"):
        load(tmp_path / "tagged.yaml")
