"""The profile of test runners, through whole runs: workspace, loopback, the person's own PATH, more time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.sandbox.facts import Facts
from tests.cage_world import HERE, NO_BWRAP, Caged, last, level, make, needs_full, needs_landlock, printed

MACHINES = pytest.mark.parametrize(
    ("machine", "name"),
    [pytest.param(HERE, "full", marks=needs_full), pytest.param(NO_BWRAP, "landlock", marks=needs_landlock)],
    ids=["full", "landlock"],
)
LOOPBACK = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
print("connected")
"""
CONNECT = """
import socket, sys
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5)
    print("reached")
except OSError as error:
    print("refused")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    made = make(tmp_path, monkeypatch)
    made.policy("sandbox:\n  tests: [check]")
    return made


@MACHINES
@pytest.mark.parametrize("effect", ["read", "write"])
def test_it_writes_the_workspace_and_uses_loopback(project: Caged, machine: Facts, name: str, effect: str) -> None:
    project.machine = machine
    project.python("check", f"{LOOPBACK}\nopen('report', 'w').write('x')", f"@meta effect {effect}")
    ran = project.one("check")
    assert (level(ran), printed(ran), last(ran)["class"]) == (name, "connected\n", "OK")
    assert (project.path / "report").exists()
    assert (ran.folder / "ops" / "1" / "1" / "rc").exists(), "it may take long: it has a shim"


@needs_full
def test_at_full_the_loopback_is_its_own(project: Caged) -> None:
    import socket

    project.python("check", CONNECT, "@meta effect read\n@arg port!  where")
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert printed(project.one("check", str(server.getsockname()[1]))) == "refused\n"


@MACHINES
def test_protected_names_stay(project: Caged, machine: Facts, name: str) -> None:
    project.machine = machine
    project.tool("check", "echo evil >> bin/check; exit 0", "@meta effect read")
    before = (project.path / "bin" / "check").read_text()
    ran = project.one("check")
    assert (project.path / "bin" / "check").read_text() == before
    assert (last(ran)["class"] == "DENIED") == (name == "landlock")


@MACHINES
def test_the_persons_own_path_and_what_is_on_it(
    project: Caged, monkeypatch: pytest.MonkeyPatch, machine: Facts, name: str
) -> None:
    project.machine = machine
    chain = project.home / "chain"
    (chain / "bin").mkdir(parents=True)
    (chain / "lib").mkdir()
    (chain / "lib" / "data").write_text("from lib\n")
    (chain / "bin" / "build").write_text(f"#!/bin/sh\ncat {chain}/lib/data\n")
    (chain / "bin" / "build").chmod(0o755)
    (project.home / "private").write_text("not for tools")
    monkeypatch.setenv("PATH", f".:{chain}/bin:{os.environ['PATH']}")
    body = f"build; cat {project.home}/private; echo $PATH; exit 0"
    project.tool("check", body, "@meta effect read")
    project.tool("other", body, "@meta effect read")
    first = printed(project.one("check")).splitlines()
    assert first[0] == "from lib" and len(first) == 2
    assert first[1].split(":")[0] == f"{chain}/bin"
    other = printed(project.one("other")).splitlines()
    assert len(other) == 1 and str(chain) not in other[0]


def test_it_has_half_an_hour_if_its_header_says_nothing(project: Caged) -> None:
    project.policy("sandbox:\n  require: none\n  tests: [check, quick]")
    project.tool("check", "cat $HARNESS_RUN/ops/1/1/request.json", "@meta effect read")
    project.tool("quick", "echo ok", "@meta effect write\n@meta timeout 5")
    import json

    ran = project.one("check")
    asked = [path for path in (ran.folder / "ops" / "1" / "1").iterdir() if path.name.startswith("request")]
    assert json.loads(asked[0].read_text())["seconds"] == 1800
    ran = project.one("quick")
    asked = [path for path in (ran.folder / "ops" / "1" / "1").iterdir() if path.name.startswith("request")]
    assert json.loads(asked[0].read_text())["seconds"] == 5
