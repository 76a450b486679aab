"""What people meet: commands that work as printed, paths that mean where one is, cuts and failures that are told."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.command import COMMAND, clean_env, harness, newest, owning
from tests.run_files import add_pipeline, add_skill, add_tool, calls, finish, make_project, script


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p")


def confined(project: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """One command with the levels that this machine gives, under a home without a policy."""
    home = project.parent / "plain-home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        [*COMMAND, *arguments], cwd=cwd or project, env=clean_env(owning(home, project)), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, start_new_session=True,
    )  # fmt: skip


def test_a_verifiers_question_is_told_and_the_printed_answer_command_answers_it(project: Path) -> None:
    add_tool(project, "vask", '[ "$HARNESS_REPLY" = yes ] && exit 0; echo "is it ok?"; exit 10')
    add_skill(project, "asks", "look", "metadata:\n  verify: vask\n")
    done = harness("run", "asks", "go", "-m", script(project, finish("so")), cwd=project)
    assert done.returncode == 10 and "is it ok?" in done.stderr and "the model asks" not in done.stderr
    assert "FAILED" not in done.stderr and "tool.end vask #2 waiting" in done.stderr
    [line] = re.findall(r"next: harness (answer .*) TEXT", done.stderr)
    assert harness(*line.split(), "yes", cwd=project).returncode == 0
    assert harness("resume", "last", cwd=project).stdout == "so\n"


def test_output_beyond_the_cap_is_said_to_be_cut(project: Path) -> None:
    add_tool(project, "big", "head -c 9000000 /dev/zero | tr '\\0' x")
    done = harness("tools", "run", "big", cwd=project)
    assert done.returncode == 0 and len(done.stdout) == 8 * 1024**2 and "more were dropped" in done.stderr


def test_a_runs_folder_with_a_pipe_in_it_is_listed_without_waiting(project: Path) -> None:
    harness("tools", "run", "look", cwd=project)
    odd = project / ".harness" / "runs" / "20260101T000000-z-cccccccc"
    odd.mkdir()
    os.mkfifo(odd / "events.jsonl")
    (odd.parent / "20260101T000000-z-dddddddd").symlink_to("/tmp")
    done = harness("runs", cwd=project)
    assert done.returncode == 0 and "look" in done.stdout and "dddddddd" not in done.stdout
    assert "cccccccc  damaged" in done.stdout
    assert harness("show", "last", cwd=project).returncode == 0
    for words in (["show"], ["show", "-F"], ["fork"], ["resume"], ["stop"], ["show", "--output", "stream-json"]):
        one = harness(words[0], "cccccccc", *words[1:], cwd=project)
        assert one.returncode == 3 and "it is a pipe, not a file" in one.stderr, words
        assert one.stderr.count("error:") == 1 and "fix:" in one.stderr


def test_findings_come_in_the_same_order_every_time(project: Path) -> None:
    add_skill(project, "many", "zeta eta theta iota kappa", "metadata:\n  requires: zeta eta theta iota kappa\n")
    said = {harness("skills", "check", "many", cwd=project, PYTHONHASHSEED=str(n)).stdout for n in range(4)}
    assert len(said) == 1 and said.pop().count("unknown-tool") == 5


def test_a_tag_behind_another_comment_mark_is_told(project: Path) -> None:
    path = project / "bin" / "mixed"
    path.write_text("#!/bin/sh\n# @describe a\n# @meta effect read\n// @option --x\n")
    path.chmod(0o755)
    assert "header-below-code" in harness("tools", "check", "mixed", cwd=project).stdout


def test_what_a_result_says_never_becomes_an_option(project: Path) -> None:
    add_tool(project, "src", "echo '{\"x\": [\"--x\", \"9\"], \"n\": \"-5\"}'")
    add_pipeline(project, "inject", '  a: {run: [src]}\n  b: {run: [look, "${a.x}"]}\n')
    done = harness("pipeline", "bin/inject", cwd=project)
    assert done.returncode == 2 and "would be read as an option" in done.stderr
    add_tool(project, "echoes", 'echo "$@"')
    add_pipeline(project, "value", '  a: {run: [src]}\n  b: {run: [echoes, "--x=${a.n}"]}\n')
    assert harness("pipeline", "bin/value", cwd=project).stdout == "--x=-5\n"


def test_a_pipeline_that_runs_itself_is_refused_before_it_begins(project: Path) -> None:
    add_pipeline(project, "loop", "  a: {run: [loop]}\n")
    done = harness("pipeline", "bin/loop", cwd=project)
    assert done.returncode == 2 and "this pipeline itself" in done.stderr
    assert not (project / ".harness" / "runs").exists()


def test_a_handled_failure_is_named_where_the_pipeline_ends(project: Path) -> None:
    add_tool(project, "breaks", "exit 3")
    add_pipeline(project, "mend", "  a: {run: [breaks], on-failure: b}\n  b: {run: [look]}\n")
    done = harness("pipeline", "bin/mend", cwd=project)
    assert done.returncode == 0 and "handled: stage a ended FAILED" in done.stderr
    assert "2  b  <- a?" in harness("pipeline", "--graph", "bin/mend", cwd=project).stdout


def test_tools_run_says_time_out_by_124_and_an_unknown_effect_by_7(project: Path) -> None:
    add_tool(project, "stuck", "sleep 30", "# @meta effect read\n# @meta timeout 1")
    assert harness("tools", "run", "stuck", cwd=project).returncode == 124
    add_tool(project, "odd", "echo x", "# @meta effect raed")
    done = harness("tools", "run", "odd", cwd=project)
    assert done.returncode == 7 and "near: read" in done.stderr


def test_a_file_that_is_only_not_executable_says_so(project: Path) -> None:
    (project / "bin" / "look").chmod(0o644)
    done = harness("tools", "run", "look", cwd=project)
    assert done.returncode == 2 and "fix: chmod +x bin/look" in done.stderr


def test_a_relative_path_means_where_the_person_is(project: Path) -> None:
    below = project / "deep" / "er"
    below.mkdir(parents=True)
    (below / "here.log").write_text("ERROR disk full\n")
    done = confined(project, "tools", "run", "search-logs", "--logs", "here.log", cwd=below)
    assert done.returncode == 0 and "deep/er/here.log" in done.stdout
    done = confined(project, "run", "oncall-triage", "what", "-i", "logs=here.log", "-m", "none", cwd=below)
    assert done.returncode == 0 and "disk full" in done.stdout


def test_what_is_named_as_an_input_inside_the_workspace_can_be_written(project: Path) -> None:
    add_tool(project, "mark", 'echo more >> "$4"', "# @option --to! <FILE>  which\n# @meta effect write")
    (project / "notes.txt").write_text("one\n")
    for _ in range(2):
        assert confined(project, "tools", "run", "mark", "--to", "notes.txt").returncode == 0
    assert (project / "notes.txt").read_text() == "one\nmore\nmore\n"


def test_allow_holds_for_the_run_however_often_it_is_opened(project: Path) -> None:
    replies = (calls(["act", "--x", "a"]), calls(["pay"]), calls(["act", "--x", "b"]), finish("done"))
    done = harness("run", "work", "x", "-m", script(project, *replies), "--allow", "act", cwd=project)
    assert done.returncode == 5
    assert harness("deny", newest(project).name, "--why", "no", cwd=project).returncode == 0
    assert harness("resume", "last", cwd=project).returncode == 0
    assert (project / "ledger").read_text() == "a\nb\n"


def test_a_key_that_resembles_a_limit_is_told(project: Path) -> None:
    add_skill(project, "near", "look", "metadata:\n  verifier: look\n  require: look\n")
    found = harness("skills", "check", "near", cwd=project).stdout
    assert "verifier in metadata means nothing here; near: verify" in found and "near: requires" in found


def test_a_rejections_reason_is_shown(project: Path) -> None:
    add_tool(project, "judge", 'echo "no number in the answer"; exit 1')
    add_skill(project, "judged", "look", "metadata:\n  verify: judge\n")
    done = harness("run", "judged", "x", "-m", script(project, *[finish("so")] * 3), cwd=project)
    assert done.returncode == 1 and "no number in the answer" in done.stderr


def test_a_relative_state_folder_is_ignored(project: Path) -> None:
    """What guards a journal must not lie where the run's own tools may write."""
    done = harness("run", "work", "x", "-m", script(project, finish("ok")), cwd=project, XDG_STATE_HOME="rel")
    assert done.returncode == 0 and not (project / "rel").exists(), done.stderr
