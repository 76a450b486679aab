"""Going on with runs, listing and showing them: what has ended is not done again, what is damaged is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command import COMMAND, clean_env, events, harness, home_of, newest, owning, shell
from tests.run_files import add_pipeline, add_skill, add_tool, calls, finish, make_project, script

OK = (calls(["look"]), finish("the answer"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p")


def run(project: Path, *replies: Any, more: tuple[str, ...] = ()) -> Path:
    harness("run", "work", "do it", "-m", script(project, *replies), *more, cwd=project)
    return newest(project)


def without_rights(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command that may not read what its owner may not, although we may be root."""
    prefix: list[str] = []
    if os.getuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root reads everything, and setpriv is not here")
        prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
    return subprocess.run(
        [*prefix, *COMMAND, *arguments], cwd=cwd, env=clean_env(home_of(cwd)), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """One clear text, the code, and nothing of ours in it."""
    assert done.returncode == code, done.stderr
    text = "\n".join(line for line in done.stderr.splitlines() if not line.startswith("warning: "))
    assert text.startswith("error: ") and "  fix: " in text and "Traceback" not in text and "bug in" not in text
    for word in words:
        assert word in text


def test_a_passed_run_needs_a_message_and_keeps_every_byte_without_one(project: Path) -> None:
    folder = run(project, *OK, finish("more", expect={"contains": ["and the other pod"]}))
    assert events(folder)[-1]["data"]["stop"] == "failed", "the third reply was never asked for"
    folder = run(project, *OK)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    refused(harness("resume", "last", cwd=project), 2, "has passed", "MESSAGE")
    refused(harness("resume", folder.name, "-b", "turns=9", cwd=project), 2, "has passed")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    script(project, *OK, finish("more", expect={"contains": ["and the other pod"]}))
    done = harness("resume", "last", "and", "the", "other", "pod", cwd=project)
    assert (done.returncode, done.stdout) == (0, "more\n"), done.stderr
    assert len(events(folder, "tool.start")) == 1


def test_resume_finds_a_run_by_a_part_of_its_id_and_names_the_candidates(project: Path) -> None:
    first, second = run(project, calls({"ask": "a"})), run(project, calls({"ask": "b"}))
    part = second.name[-8:][2:7]
    assert harness("show", part, "--json", cwd=project).stdout.count(second.name) >= 1
    refused(harness("resume", "zzzz", cwd=project), 2, "no run 'zzzz'", "harness runs")
    last = "7" if second.name[-1] != "7" else "6"
    shutil.copytree(first, first.with_name(first.name[:-8] + second.name[-8:-1] + last))
    refused(harness("resume", second.name[-8:][:5], cwd=project), 2, "could be any of", second.name)


def test_changed_files_are_listed_and_accepted_only_by_word(project: Path) -> None:
    folder = run(project, *OK, more=("-b", "turns=1"))
    add_tool(project, "look", "echo another")
    (project / "skills/work/SKILL.md").write_text((project / "skills/work/SKILL.md").read_text() + "More.\n")
    before = (folder / "events.jsonl").read_bytes()
    refused(harness("resume", "last", cwd=project), 2, "skill: ", "tool look: ", " → ", "--accept-changes")
    assert (folder / "events.jsonl").read_bytes() == before
    done = harness("resume", "last", "--accept-changes", "-b", "turns=5", cwd=project)
    assert done.returncode == 0, done.stderr
    assert [change["what"] for change in events(folder, "resume")[0]["data"]["changes"]] == ["skill", "tool look"]
    other = script(project, *OK, name="other.yaml")
    refused(harness("resume", "last", "go", "-m", other, cwd=project), 2, "model: ")


def test_a_model_named_from_another_folder_is_found_again(project: Path) -> None:
    below = project / "below"
    below.mkdir()
    model = script(below, calls({"ask": "which"}), finish("found"))
    assert harness("run", "work", "x", "-m", model, "-C", "below", cwd=project).returncode == 10
    answered = harness("answer", newest(project).name, "this", "--resume", cwd=project)
    assert (answered.returncode, answered.stdout) == (0, "found\n"), answered.stderr


def test_c_works_as_if_started_there(project: Path, tmp_path: Path) -> None:
    (tmp_path / "away").mkdir()
    owning(home_of(tmp_path / "away"), project)
    model = script(project, *OK)
    done = harness("-C", str(project), "run", "work", "x", "-m", model, cwd=tmp_path / "away")
    assert done.returncode == 0 and newest(project).is_dir() and not (tmp_path / "away/.harness").exists()
    assert harness("show", "-C", str(project), cwd=tmp_path / "away").stdout.startswith("work ")


def test_case_3_words_an_argument_a_pipe_and_a_file(project: Path) -> None:
    (project / "goal.txt").write_text("why is 42 late\n")
    model = script(project, finish("x"))
    starts = []
    ways = (["why", "is", "42", "late"], ["why is 42 late"], ["-"], ["-f", "goal.txt"], [])
    for words in ways:
        piped = "why is 42 late\n" if "-" in words else None
        done = harness("run", "work", *words, "-m", model, cwd=project, stdin=piped)
        assert done.returncode == 0
        starts.append(events(newest(project))[0]["data"])
        assert ("counts as input" in done.stderr) == (words[:1] in (["-"], ["-f"]))
    assert [start["goal"] for start in starts] == ["why is 42 late"] * 4 + [""]
    assert [start.get("by", "user") for start in starts] == ["user", "user", "input", "input", "user"]
    refused(harness("run", "work", "x", "-f", "goal.txt", "-m", model, cwd=project), 2, "-f FILE")


def test_inputs_are_values_files_or_the_pipe_and_have_their_rules(project: Path) -> None:
    (project / "app.log").write_text("line 1\nline 2\n")
    model = script(project, finish("x"))
    given = ["-i", "log=@app.log", "-i", "pods=@@x"]
    assert harness("run", "work", "x", *given, "-m", model, cwd=project).returncode == 0
    assert events(newest(project))[0]["data"]["inputs"] == {"log": "line 1\nline 2", "pods": "@x"}
    wrong = (["log=1", "log=2"], ["lgo=1"], ["log"], ["log=@nowhere"], ["log=@bin"])
    for items in wrong:
        pairs = [word for item in items for word in ("-i", item)]
        refused(harness("run", "work", "x", *pairs, "-m", model, cwd=project), 2)
    (project / "long").write_text("x" * 100_000)
    count = len(list((project / ".harness/runs").glob("2*")))
    long = harness("run", "work", "x", "-i", "log=@long", "-m", model, cwd=project)
    refused(long, 2, "bytes together", "into a file")
    refused(harness("tools", "run", "look", "--x", "x" * 100_000, cwd=project), 2, "bytes together")
    assert len(list((project / ".harness/runs").glob("2*"))) == count
    assert harness("run", "work", "-f", "long", "-m", model, cwd=project).returncode == 0


def test_a_skill_by_path_and_one_whose_tools_are_missing(project: Path) -> None:
    model = script(project, *OK)
    for path in ("./skills/work", "skills/work/SKILL.md", str(project / "skills/work")):
        assert harness("run", path, "x", "-m", model, cwd=project).stdout == "the answer\n"
    add_skill(project, "lost", "look gone", "metadata:\n  tool-dependencies: |\n    look: gone\n  requires: gone\n")
    done = harness("run", "lost", "x", "-m", model, cwd=project)
    refused(done, 2, "skill 'lost' ", "gone", "skills/lost/SKILL.md:")
    add_skill(project, "round", "look keep", "metadata:\n  tool-dependencies: |\n    look: keep\n    keep: look\n")
    refused(harness("run", "round", "x", "-m", model, cwd=project), 2, "look", "keep", "skills/round/SKILL.md:")
    refused(harness("run", "./skills/nowhere", "x", "-m", model, cwd=project), 2, "nowhere")


def test_runs_are_filtered_and_an_empty_list_says_what_to_do(project: Path) -> None:
    empty = harness("runs", cwd=project)
    assert (empty.returncode, empty.stdout) == (0, "") and "harness run SKILL" in empty.stderr
    refused(harness("show", cwd=project), 2, "no run")
    refused(harness("resume", "last", cwd=project), 2, "no run")
    run(project, *OK)
    run(project, calls({"ask": "which"}))
    run(project, calls(["act"], ["keep"]))
    harness("tools", "run", "look", cwd=project)

    def stops(*options: str) -> list[str]:
        found = json.loads(harness("runs", *options, "--json", cwd=project).stdout)["runs"]
        return [one["stop"] for one in found]

    assert stops() == ["passed", "needs-approval", "needs-answer", "passed"]
    assert stops("--waiting") == ["needs-approval", "needs-answer"]
    assert stops("--status", "needs-answer") == ["needs-answer"] and stops("--skill", "look") == ["passed"]
    assert stops("--tool", "keep") == ["needs-approval"] and stops("--last", "1") == ["passed"]
    assert len(stops("--since", "1h")) == 4 and stops("--skill", "nothing") == []
    refused(harness("runs", "--status", "pased", cwd=project), 2, "near: passed")
    refused(harness("runs", "--since", "soon", cwd=project), 2, "span of time")


def test_half_made_and_damaged_folders_are_listed_and_never_raised(project: Path) -> None:
    good = run(project, *OK)
    runs = good.parent
    stamp = "20300101T00000{}-work-{}"
    names = ("aaaaaaaa", "bbbbbbbb", "cccccccc")
    half, empty, garbage = (runs / stamp.format(number, name) for number, name in enumerate(names))
    for folder in (half, empty, garbage):
        folder.mkdir()
    (empty / "events.jsonl").write_bytes(b"")
    (garbage / "events.jsonl").write_bytes(b"\0garbage\xff\n" * 3)
    (runs / "99999999T999999-work-dddddddd").mkdir()
    (runs / "notes.txt").write_text("a person's")
    listed = harness("runs", cwd=project)
    assert listed.returncode == 0 and not listed.stderr
    rows = {line.split()[0]: line for line in listed.stdout.splitlines()}
    assert "never started" in rows["aaaaaaaa"] and "never started" in rows["bbbbbbbb"] and "damaged" in rows["cccccccc"]
    assert "passed" in rows[good.name[-8:]] and "dddddddd" in rows
    assert good.name[-8:] in harness("runs", "--since", "1h", cwd=project).stdout
    for folder in (half, empty, garbage):
        for command in ("show", "show --graph", "show --event 1", "show -F", "resume", "approve"):
            word, *options = command.split()
            done = harness(word, folder.name, *options, cwd=project)
            refused(done, 3, str(folder))
    cut = good / "events.jsonl"
    lines = cut.read_bytes().splitlines(keepends=True)
    cut.write_bytes(b"".join([*lines[:2], lines[2].replace(b'"turn":1', b'"turn":7'), *lines[3:]]))
    before = cut.read_bytes()
    refused(harness("resume", good.name, "go on", cwd=project), 3, str(good))
    assert harness("show", good.name, cwd=project).returncode in (0, 3) and cut.read_bytes() == before


def test_a_torn_last_line_is_cut_and_the_run_goes_on(project: Path) -> None:
    folder = run(project, *OK, more=("-b", "turns=1"))
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"v":1,"seq":99,"ep')
    assert harness("show", cwd=project).returncode == 0
    done = harness("resume", "last", "-b", "turns=5", cwd=project)
    assert (done.returncode, done.stdout) == (0, "the answer\n") and events(folder, "resume")[0]["data"]["repaired"]


def test_what_may_not_be_read_or_written_is_one_clear_line(project: Path) -> None:
    folder = run(project, *OK, calls({"ask": "x"}))
    parked = run(project, calls({"ask": "x"}))
    model, runs = "scripted:script.yaml", project / ".harness/runs"
    again = ("run", "work", "x", "-m", model)
    cases: list[tuple[Path, int, tuple[str, ...], int]] = [
        (runs, 0, ("runs",), 3), (runs, 0, ("show",), 3), (runs, 0, again, 3), (runs, 0o500, again, 3),
        (folder, 0, ("show", folder.name), 3), (folder, 0, ("resume", folder.name, "x"), 3),
        (parked / "inbox", 0o500, ("answer", parked.name, "x"), 3), (project / "skills/work/SKILL.md", 0, again, 2),
        (project / "script.yaml", 0, again, 2), (project / "bin/look", 0, ("tools", "run", "look"), 2),
        (project, 0, again, 2), (parked / "lock", 0, ("resume", parked.name), 3),
        (parked / "events.jsonl", 0o400, ("resume", parked.name), 3),
    ]  # fmt: skip
    home_of(project)
    for path, mode, command, code in cases:
        was = path.stat().st_mode
        path.chmod(mode)
        try:
            done = without_rights(*command, cwd=project) if path != project else without_cwd(project, *command)
        finally:
            path.chmod(was)
        assert done.returncode == code, (path, command, done.stderr)
        refused(done, code)
    (project / "out").mkdir(mode=0o500)
    refused(without_rights(*again, "-o", "out/f", cwd=project), 2, "cannot be written")
    folder.chmod(0)
    listed = without_rights("runs", cwd=project)
    folder.chmod(0o700)
    assert listed.returncode == 0 and "unreadable" in listed.stdout


def without_cwd(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return without_rights("-C", str(project), *arguments, cwd=project.parent)


def test_100_runs_are_listed_whole_and_folded_once(project: Path) -> None:
    first = run(project, *OK)
    letters = "abcdefghijklmnopqrstuvwxyz234567"
    for number in range(99):
        shutil.copytree(first, first.with_name(f"{first.name[:-8]}aaaaaa{letters[number // 32]}{letters[number % 32]}"))
    assert len(harness("runs", cwd=project).stdout.splitlines()) == 21
    assert len(harness("runs", "--last", "100", cwd=project).stdout.splitlines()) == 101
    assert len(harness("runs", "--last", "100", "--tool", "look", cwd=project).stdout.splitlines()) == 101


def test_case_8_a_pipeline_is_a_command_with_its_own_help(project: Path) -> None:
    add_pipeline(project, "steps", "  a: {run: [look, --x, '${inputs.x}']}\n", "# @option --x=5 <X>  what\n")
    (project / "path").mkdir()
    wrapper = project / "path/harness"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m harness "$@"\n')
    wrapper.chmod(0o755)
    path = f"{project}/path:{os.environ['PATH']}"
    shown = shell("bin/steps --help; bin/steps --x 7; bin/steps --y; echo $?", cwd=project, PATH=path)
    assert "steps: steps in stages" in shown.stdout and "--x X  what (default 5)" in shown.stdout
    assert "Usage: harness" not in shown.stdout and shown.stdout.endswith("looked at 7\n2\n")


CODES = [(75, 75), (69, 69), (77, 77), (2, 2), (65, 65), (5, 1), (3, 1), (1, 1)]


@pytest.mark.parametrize(("exit_code", "code"), CODES)
def test_case_8_a_pipeline_and_a_tool_end_with_the_code_of_the_class(project: Path, exit_code: int, code: int) -> None:
    add_tool(project, "fails", f"echo partly; echo 'it broke' >&2; exit {exit_code}")
    add_pipeline(project, "steps", "  a: {run: [look]}\n  bad: {run: [fails], needs: [a]}\n")
    done = harness("pipeline", "bin/steps", cwd=project)
    assert done.returncode == code and "stage bad (fails) ended" in done.stderr
    if exit_code != 65:
        return
    alone = harness("tools", "run", "fails", cwd=project)
    assert (alone.returncode, alone.stdout) == (code, "partly\n") and "it broke" in alone.stderr


def test_a_pipeline_that_cannot_run_is_2_with_the_line(project: Path) -> None:
    add_pipeline(project, "round", "  a: {run: [look], needs: [b]}\n  b: {run: [look], needs: [a]}\n")
    add_pipeline(project, "unknown", "  a: {run: [lok]}\n")
    (project / "bin/broken").write_text("#!/usr/bin/env -S harness pipeline\nstages: [\n")
    (project / "bin/binary").write_bytes(b"#!/usr/bin/env -S harness pipeline\n\0\xff\xfe\n")
    refused(harness("pipeline", "bin/round", cwd=project), 2, "bin/round:4", "a waits for b waits for a")
    refused(harness("pipeline", "bin/unknown", cwd=project), 2, "bin/unknown:4", "look")
    for name in ("bin/broken", "bin/binary", "bin/look", "bin", "nowhere"):
        refused(harness("pipeline", name, cwd=project), 2)
    assert harness("pipeline", "--check", "bin/round", cwd=project).returncode == 1
    assert not (project / ".harness/runs").exists()


def test_a_message_for_a_run_without_a_model_is_refused(project: Path) -> None:
    add_pipeline(project, "steps", "  a: {run: [act]}\n")
    assert harness("pipeline", "bin/steps", cwd=project).returncode == 5
    refused(harness("resume", "last", "hello", cwd=project), 2, "no model")
    assert harness("deny", newest(project).name, "--resume", cwd=project).returncode == 7
