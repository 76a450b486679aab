"""A model that proposes only what it may not: nothing of it is carried out, whoever drives the run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from harness.runs.agent import handed_over, step
from harness.runs.flags import Options
from harness.runs.session import start_skill
from tests.loop_world import Project, Ran, call, finish, reply
from tests.skill_files import catalog_of

CANARY = "canary-7f3a"
NAMES = (
    "lok", "Look", "LOOK", "look ", " look", "look\n", "look\0", "look\t", "./look", "bin/look", "look/",
    "look/../spare",
    "../bin/look", "/bin/sh", "sh", "bash", "env", "xargs", "sudo", "harness", "python3", "look;id",
    "look && id", "look|id",
    "look>effects", "$(look)", "`look`", "${look}", "lοok", "ｌｏｏｋ", "lo\u200bok", "look\u202e", "l\u0308ook", " ",
    "-", "--", "--help", "*", "l??k", "[l]ook", "~", "$HOME/bin/look", "look%00", "read", "run", "finish",
    "ask", "spare",
    "other", "own", "others/own", "skill:own", "demo", "other-skill", "op:1", "run:events.jsonl",
    "look" * 5_000,
)  # fmt: skip
TAILS: tuple[tuple[str, ...], ...] = ((), ("--at", "x"), ("--help",))
SMUGGLED: tuple[tuple[str, ...], ...] = (
    (), ("--at",), ("--at", "a", "--at", "b"), ("--at=a", "--at=b"), ("--att", "x"), ("--At", "x"),
    ("-at", "x"), ("-a", "x"),
    ("--at", "x", "y"), ("y", "--at", "x"), ("--at", "x", "--", "--kind", "b"), ("--at", "x", "--exec", "id"),
    ("--at", "x", "--output=effects"), ("--at", "x", "-rf"), ("--at", "x", "--kind", "c"), ("--at", "x", "--kind"),
    ("--at", "x", "--kind", "a", "--kind", "b"), ("--at", "x", "--kind=a b"), ("--at", "x", "--kind", "A"),
    ("--at", "x", "--most", "many"), ("--at", "x", "--most", "1e9"), ("--at", "x", "--most", "0x10"),
    ("--at", "x", "--most", "NaN"), ("--at", "x", "--most", "١٢"), ("--at", "x", "--most", "1 --kind b"),
    ("--at", "a\0b"), ("--at", "x", "\0"), ("\u2014at", "x"), ("--at\u200b", "x"), ("--ａｔ", "x"),
    ("--at", "x" * 200_000), tuple(["x"] * 300),
    ("--at", "x", "--harness", "y"),
    ("--at", "x", ";", "id"), ("--at", "x", "&&", "id"), ("--at", "x", "|", "tee", "effects"),
    ("--at", "x", ">", "effects"),
)  # fmt: skip
PATHS = (
    "../outside.txt", "../../outside.txt", "/etc/shadow", "~/outside.txt", "$HOME/x", "file:///etc/passwd",
    "a/../../outside.txt",
    "link", "link/", "./link", "link/../outside.txt", "skill:../../../outside.txt", "skill:/etc/passwd",
    "run:../../../outside.txt",
    "run:/etc/passwd", "op:99", "op:0", "op:-1", "op:1/../../x", "op:1/err/../out", "/proc/self/environ",
    "/dev/zero", "//etc/passwd",
    "", ".", "..", "\0", "a\0", "https://x.io/", "outside.txt\n", "\u2025/outside.txt", "．．/outside.txt",
    "skill:", "run:", "op:",
    "op:１", "pipe", "nothing", "x" * 5_000,
)  # fmt: skip


def proposals() -> Iterator[dict[str, Any]]:
    """What may not be carried out, of every kind there is."""
    yield from (call(name, *tail) for name, tail in product(NAMES, TAILS))
    yield from (call("look", *words) for words in SMUGGLED)
    yield from (call("report", *words) for words in ((), ("x",), ("--force",), ("--at", "x")))
    yield from ({"read": path} for path in PATHS)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Tools that leave a mark when they run, and a text outside that nothing may bring in."""
    (tmp_path / "outside.txt").write_text(CANARY)
    made = Project(tmp_path / "project")
    mark = 'echo "$0" >> "$PWD/effects"'
    made.tool(
        "look",
        mark,
        "@option --at! <WHERE>  where\n@option --kind[a|b]  kind\n@option --most <INT>  n\n@meta effect read",
    )
    made.tool("report", mark)
    made.tool("spare", mark)
    made.skill(tools="look report", deps="report: look", requires="report")
    made.skill("other", tools="own")
    made.tool("own", mark, place="skills/other/scripts")
    (made.path / "link").symlink_to(tmp_path / "outside.txt")
    return made


def nothing_happened(project: Project, ran: Ran) -> None:
    assert ran.spawned == []
    assert not (project.path / "effects").exists()
    assert not [end for end in ran.ends() if end[1] in ("OK", "done")]
    texts = [path.read_text(errors="replace") for path in ran.folder.rglob("*") if path.is_file()]
    assert not any(CANARY in text for text in texts)


def test_there_are_two_hundred_of_them() -> None:
    assert len(list(proposals())) >= 200


def test_a_hostile_model_gets_nothing_done(project: Project) -> None:
    every = list(proposals())
    replies = [reply(*every[at : at + 60]) for at in range(0, len(every), 60)]
    ran = project.run([*replies, *[finish()] * 3], budget="calls=1000")
    nothing_happened(project, ran)
    assert ran.stop.name in ("declined", "no-progress")


def test_a_hostile_agent_gets_nothing_done(project: Project) -> None:
    """The same through `harness step`: a run ends after some turns without progress, and another one begins."""
    catalog, folder, taken = catalog_of(project.path), None, 0
    for one in proposals():
        ((verb, given),) = one.items()
        arguments = {"path": given} if verb == "read" else {"tool": given[0], "args": given[1:]}
        if folder is None:
            session = start_skill(project.world(), catalog, "demo", "go", {}, handed_over(Options()))
        else:
            session = step(project.world(), catalog, folder, (verb, arguments))
            taken += 1
        ran = project._drive(session)
        nothing_happened(project, ran)
        folder = ran.folder if ran.stop.parked else None
    assert taken >= 150
