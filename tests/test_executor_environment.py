"""The environment of a tool: built, never inherited."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.events.io import IO
from harness.executor import Cancel, Job, environment, run


def built(out: Path, **more: object) -> dict[str, str]:
    given: dict[str, object] = {"op_id": "r-1/7", "run": Path("/runs/r-1"), "out": out, "depth": 2, "passed": {}}
    return environment(**{**given, "skill": None, **more})  # type: ignore[arg-type]


def test_exactly_these_variables_reach_the_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_TOKEN", "s3cret")
    monkeypatch.setenv("HARNESS_PLANTED", "1")
    monkeypatch.setenv("LD_PRELOAD_PLANTED", "1")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    env = built(tmp_path, passed={"PGHOST": "db"}, skill=Path("/skills/triage"))
    got = run(Job(("/usr/bin/env", "-0"), tmp_path, env, 20, "r-1/7"), IO(), Cancel())
    seen = dict(text.split("=", 1) for text in os.fsdecode(got.out).split("\0") if text)
    assert seen.pop("PATH").split(":")[1:] == ["/usr/local/bin", "/usr/bin", "/bin"]
    assert seen == {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "LANG": "de_DE.UTF-8",
        "TZ": "Asia/Tokyo",
        "HARNESS_RUN": "/runs/r-1",
        "HARNESS_OUT": str(tmp_path),
        "HARNESS_OP_ID": "r-1/7",
        "HARNESS_DEPTH": "2",
        "HARNESS_SKILL": "/skills/triage",
        "PGHOST": "db",
    }


def test_without_locale_zone_and_skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LANG", raising=False)
    monkeypatch.delenv("TZ", raising=False)
    env = built(tmp_path)
    assert env["LANG"] == "C.UTF-8"
    assert not {"TZ", "HARNESS_SKILL"} & set(env)


def test_path_takes_absolute_places_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/planted:.")
    path = built(tmp_path, tools_path=["/opt/tools", ".", "", "bin", "/usr/bin", "/a:."])["PATH"].split(":")
    assert path[1:] == ["/usr/local/bin", "/usr/bin", "/bin", "/opt/tools"]


def test_a_recent_python_is_the_first_on_the_path(tmp_path: Path) -> None:
    tool = tmp_path / "version"
    tool.write_text("#!/usr/bin/env python3\nimport sys\nprint(sys.version_info >= (3, 11))\n")
    tool.chmod(0o755)
    got = run(Job((str(tool),), tmp_path, built(tmp_path), 20, "r-1/7"), IO(), Cancel())
    assert got.out == b"True\n"


def test_the_harness_variables_cannot_be_passed_over(tmp_path: Path) -> None:
    env = built(tmp_path, passed={"HARNESS_OP_ID": "forged", "HARNESS_REPLY": "yes", "HOME": "/home/of/user"})
    assert env["HARNESS_OP_ID"] == "r-1/7"
    assert env["HARNESS_REPLY"] == "yes"
    assert env["HOME"] == "/home/of/user"
