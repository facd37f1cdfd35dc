"""`sluice doctor` names what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.doctor import FAILED, OK, WARNING, Finding, examine
from routing import jars
from routing.config import load


def findings(config: dict[str, object] | None = None) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine(load(config or {}), start_session=False)}


def test_nothing_fails_here() -> None:
    assert not [finding for finding in findings().values() if finding.status == FAILED]


def test_no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("jobs.doctor.find_spec", lambda name: None)
    found = findings()["Java"]
    assert found.status == FAILED and str(tmp_path) in found.found and "JAVA_HOME" in found.advice


def test_an_old_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("jobs.doctor.find_spec", lambda name: None)
    assert findings()["Java"].status == FAILED


def test_a_jar_is_gone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLUICE_JARS", str(tmp_path))
    found = findings()
    assert found["jar delta"].status == FAILED and "sluice setup" in found["jar delta"].advice
    assert found["jar kafka"].status == WARNING  # optional


def test_the_jars_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start with warm jars resolves nothing."""
    monkeypatch.setattr(jars, "_resolve", lambda package: pytest.fail(f"resolved {package.name}"))
    assert any("delta-spark" in jar.name for jar in jars.available())


def test_the_warehouse_is_not_there_or_not_ours(tmp_path: Path) -> None:
    missing = findings({"warehouse": str(tmp_path / "gone")})["warehouse"]
    assert missing.status == WARNING and "gone is missing" in missing.found and "sluice init" in missing.advice
    (tmp_path / "file").write_text("")
    assert findings({"warehouse": str(tmp_path / "file")})["warehouse"].status == FAILED
    assert findings({"warehouse": str(tmp_path)})["warehouse"].status == OK


def test_a_package_is_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    installed = metadata.version
    monkeypatch.setattr("jobs.doctor.metadata.version", lambda name: "3.5.0" if name == "pyspark" else installed(name))
    assert findings()["pyspark"].status == FAILED and "pyspark==4.2.0" in findings()["pyspark"].advice
