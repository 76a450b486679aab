from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from harness.errors import Finding, HarnessError
from harness.tools.discovery import digest, read_bin, static_findings
from harness.tools.header import read_tool

SCRIPT = "#!/bin/sh\n# @describe Says it\n# @meta effect read\necho it\n"


def put(path: Path, text: str = SCRIPT, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def codes(findings: list[Finding] | tuple[Finding, ...]) -> list[tuple[str, str, str]]:
    return [(finding.file, finding.code, finding.severity) for finding in findings]


def test_names_are_paths_below_the_folder_with_their_extension(tmp_path: Path) -> None:
    for name in ("search-logs", "warehouse/describe-table", "rotate.py", "a/b/c/d", ".hidden", "x~", "y.bak", "z.swp",
                 "__pycache__/m", "q.orig"):  # fmt: skip
        put(tmp_path / "bin" / name)
    tools, loose = read_bin(tmp_path / "bin", tmp_path)
    assert list(tools) == ["a/b/c/d", "rotate.py", "search-logs", "warehouse/describe-table"]
    assert loose == []
    assert tools["rotate.py"].path == tmp_path / "bin" / "rotate.py"
    assert all(tool.header and not tool.script and tool.file == f"bin/{name}" for name, tool in tools.items())


def test_case_9_names_that_are_refused(tmp_path: Path) -> None:
    for name in ("Deploy", "finish", "a_b", "a-b"):
        put(tmp_path / "bin" / name)
    tools, loose = read_bin(tmp_path / "bin", tmp_path)
    assert codes(loose) == [("bin/Deploy", "bad-name", "error"), ("bin/finish", "reserved-name", "error")]
    assert list(tools) == ["a-b", "a_b"]
    assert all(tool.broken and tool.broken.code == "confusable-name" for tool in tools.values())


@pytest.mark.parametrize("name", ["two words", "é", "-x", "a/B", "a/b/c/d/e", "x" * 65, "new\nline"])
def test_other_names_are_no_tools(tmp_path: Path, name: str) -> None:
    put(tmp_path / "bin" / name)
    tools, loose = read_bin(tmp_path / "bin", tmp_path)
    assert tools == {}
    assert [finding.code for finding in loose] == ["bad-name"]
    assert "\n" not in loose[0].text()


def test_a_name_that_is_no_utf8_is_a_finding_that_can_be_printed(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    raw = os.fsencode(tmp_path / "bin") + b"/caf\xe9"
    with open(raw, "w") as file:
        file.write(SCRIPT)
    os.chmod(raw, 0o755)  # noqa: PTH101
    _, loose = read_bin(tmp_path / "bin", tmp_path)
    assert [finding.code for finding in loose] == ["bad-name"]
    assert loose[0].text().encode()


def test_only_scripts_that_look_like_tools_are_missed_when_not_executable(tmp_path: Path) -> None:
    put(tmp_path / "bin" / "README.md", "words\n", 0o644)
    put(tmp_path / "bin" / "data.csv", "a,b\n", 0o644)
    put(tmp_path / "bin" / "forgotten", SCRIPT, 0o644)
    put(tmp_path / "bin" / "tagged", "# @describe x\n", 0o644)
    tools, loose = read_bin(tmp_path / "bin", tmp_path)
    assert tools == {}
    assert codes(loose) == [("bin/forgotten", "not-executable", "warning"), ("bin/tagged", "not-executable", "warning")]
    assert loose[0].fix == "chmod +x bin/forgotten"


def test_links_are_followed_and_reported_where_they_leave(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", put(tmp_path / "outside")
    put(project / "bin" / "real")
    (project / "bin" / "alias").symlink_to("real")
    (project / "bin" / "out").symlink_to(outside)
    (project / "bin" / "gone").symlink_to("nowhere")
    (project / "bin" / "round").symlink_to(".")
    (project / "bin" / "self").symlink_to("self")
    tools, loose = read_bin(project / "bin", project)
    assert list(tools) == ["alias", "out", "real"]
    assert codes(loose) == [("bin/gone", "broken-link", "warning"), ("bin/self", "broken-link", "warning")]
    assert codes(tools["out"].findings) == [("bin/out", "link-outside", "warning")]
    assert tools["alias"].findings == () and not tools["out"].broken
    assert digest(project / "bin" / "alias") == hashlib.sha256(SCRIPT.encode()).hexdigest()


def test_a_tool_with_a_second_name_that_nothing_protects_is_none(tmp_path: Path) -> None:
    """What a write call puts there would be what runs next."""
    project = tmp_path / "project"
    put(project / "build" / "made")
    (project / "bin").mkdir()
    (project / "bin" / "linked").symlink_to("../build/made")
    (project / "build" / "way").symlink_to("made")
    (project / "bin" / "over").symlink_to("../build/way")
    put(project / "build" / "twin")
    (project / "bin" / "hard").hardlink_to(project / "build" / "twin")
    tools, _ = read_bin(project / "bin", project)
    assert tools["linked"].findings == (), "where it ends is protected"
    assert codes(tools["over"].findings) == [("bin/over", "link-outside", "error")]
    assert codes(tools["hard"].findings) == [("bin/hard", "hard-link", "error")] and tools["hard"].broken
    assert tools["hard"].broken.fix == "make it a file of its own: cp bin/hard bin/hard~ && mv bin/hard~ bin/hard"
    assert read_bin(project / "bin")[0]["hard"].findings == (), "a person's own folders, and what is shipped"


def test_without_a_project_no_link_leads_out(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "out").symlink_to(put(tmp_path / "outside"))
    assert read_bin(tmp_path / "bin")[0]["out"].findings == ()


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    os.mkfifo(tmp_path / "bin" / "pipe", 0o755)
    assert read_bin(tmp_path / "bin") == ({}, [])
    assert read_tool(tmp_path / "bin" / "pipe", "pipe").broken


def test_a_folder_that_is_not_there_holds_no_tools(tmp_path: Path) -> None:
    assert read_bin(tmp_path / "bin") == ({}, [])
    assert read_bin(put(tmp_path / "file")) == ({}, [])


def test_digest_of_nothing_is_an_error_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(HarnessError) as raised:
        digest(tmp_path / "gone")
    assert raised.value.fix and raised.value.where == str(tmp_path / "gone")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (SCRIPT, []),
        ("# @describe x\n# @meta effect read\n", ["no-shebang"]),
        ("#!/no/such/thing\n# @describe x\n# @meta effect read\n", ["no-interpreter"]),
        ("#!bin/sh\n# @describe x\n# @meta effect read\n", ["no-interpreter"]),
        ("#!/usr/bin/env no-such-interpreter\n# @describe x\n# @meta effect read\n", ["no-interpreter"]),
        ("#!/usr/bin/env sh -e\n# @describe x\n# @meta effect read\n", ["no-interpreter"]),
        ("#!/usr/bin/env -S A=1 sh -e\n# @describe x\n# @meta effect read\n", []),
        ("#!/usr/bin/env -S harness pipeline\n# @describe x\n", []),
        ("#!/bin/sh\n# @describe x\n", ["no-effect"]),
        ("#!/bin/sh\n# @meta effect read\n", ["no-describe"]),
        ("#!/bin/sh\n# words\n", ["no-header"]),
        ("\x7fELF\0", ["no-header"]),
    ],
)
def test_static_findings(tmp_path: Path, text: str, wanted: list[str]) -> None:
    tool = read_tool(put(tmp_path / "tool", text), "tool", display="bin/tool")
    found = static_findings(tool)
    assert [finding.code for finding in found] == wanted
    assert all(finding.file == "bin/tool" for finding in found)
