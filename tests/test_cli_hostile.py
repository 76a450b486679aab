"""What comes from outside: text that would repaint a terminal, tools that misbehave, readers that go away."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import COMMAND, AtTerminal, clean_env, events, harness, home_of, is_alive, newest, shell, waits
from tests.run_files import add_pipeline, add_tool, calls, finish, make_project, script

OK = (calls(["look"]), finish("the answer"))
HOSTILE = "\x1b[2J \x1b]52;c;aGk=\x07 over\rwritten \u202eevil\u2066 [red]x[/red] \x9b31m"
RAW = ("\x1b", "\r", "\x07", "\u202e", "\u2066", "\x9b")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p")


def clean(text: str) -> bool:
    return not any(letter in text for letter in RAW)


def hostile_tool(project: Path) -> None:
    (project / "hostile.txt").write_text(HOSTILE + "\n")
    add_tool(project, "shout", "cat hostile.txt; cat hostile.txt >&2; exit 1")
    (project / "skills/work/SKILL.md").write_text(
        (project / "skills/work/SKILL.md").read_text().replace("allowed-tools: look", "allowed-tools: shout look")
    )


def test_case_11_hostile_text_is_escaped_in_every_view_and_u_in_json(project: Path) -> None:
    hostile_tool(project)
    model = script(
        project, calls(["shout", "--x", HOSTILE], text=HOSTILE), calls({"ask": f"which {HOSTILE}"}), finish(HOSTILE)
    )  # fmt: skip
    done = harness("run", "work", f"goal {HOSTILE}", "-m", model, cwd=project)
    assert done.returncode == 10 and clean(done.stderr) and r"\x1b[2J" in done.stderr and "[red]x[/red]" in done.stderr
    run = newest(project)
    for command in (["show"], ["runs"], ["show", "--graph"], ["show", "--event", "1"], ["show", "-F"]):
        shown = harness(*command, cwd=project)
        assert clean(shown.stdout) and clean(shown.stderr), command
    for command in (["show", "--json"], ["runs", "--json"], ["show", "--output", "stream-json"]):
        assert clean(harness(*command, cwd=project).stdout), command
    assert json.loads(harness("runs", "--json", cwd=project).stdout)["runs"][0]["goal"] == f"goal {HOSTILE}"
    answered = harness("answer", run.name, "x", "--resume", "--json", cwd=project)
    assert clean(answered.stdout) and json.loads(answered.stdout)["answer"] == HOSTILE
    assert (run / "answer.md").read_bytes().decode() == HOSTILE


def test_case_11_an_answer_is_escaped_for_a_terminal_and_whole_for_a_pipe(project: Path) -> None:
    model = script(project, finish(HOSTILE))
    done = subprocess.run(
        [*COMMAND, "run", "work", "x", "-m", model], cwd=project, env=clean_env(home_of(project)), capture_output=True
    )
    assert done.stdout.decode() == HOSTILE + "\n"
    code, seen = AtTerminal(*COMMAND, "run", "work", "x", "-m", model, cwd=project).end()
    assert code == 0 and clean(seen.replace("\r\n", "\n")) and r"\x1b[2J" in seen


def test_case_11_the_prompt_shows_a_hostile_call_escaped(project: Path) -> None:
    asked = AtTerminal(*COMMAND, "run", "work", "x", "-m", script(project, calls(["act", "--x", HOSTILE])), cwd=project)
    seen = asked.until("[n] no").replace("\r\n", "\n")
    asked.kill()
    assert clean(seen) and r"\x1b[2J" in seen and r"\u202e" in seen


def test_case_12_a_reader_that_went_away_ends_a_list_and_never_a_run(project: Path) -> None:
    model = script(project, *OK)
    for option in ("", " --json", " --output stream-json", " -q"):
        done = shell(f"harness run work x -m {model}{option} | true; echo ${{PIPESTATUS[0]}}", cwd=project)
        assert done.stdout == "0\n" and "Traceback" not in done.stderr and "Broken" not in done.stderr
        assert (newest(project) / "answer.md").read_text() == "the answer"
    parked = script(project, calls(["act"]), name="act.yaml")
    assert shell(f"harness run work x -m {parked} | true; echo ${{PIPESTATUS[0]}}", cwd=project).stdout == "5\n"
    stderr = shell(f"(harness run work x -m {model} 3>&1 >&4 2>&3 | true) 4>out; cat out", cwd=project)
    assert stderr.stdout == "the answer\n" and events(newest(project))[-1]["data"]["exit"] == 0
    listed = shell("harness runs --last 100 | head -1; echo ${PIPESTATUS[0]}", cwd=project)
    assert listed.stdout.startswith("ID ") and listed.stderr == ""


@pytest.mark.parametrize("streams", [">&-", "2>&-", ">&- 2>&-", "<&-", "2>/dev/full"])
def test_a_run_goes_on_where_a_stream_is_closed_or_full(project: Path, streams: str) -> None:
    done = shell(f"harness run work x -m {script(project, *OK)} {streams}; echo $? > code", cwd=project)
    assert (project / "code").read_text() == "0\n", done.stderr
    assert done.stdout == ("" if ">&- " in f"{streams} " and not streams.startswith("2") else "the answer\n")
    assert (newest(project) / "answer.md").read_text() == "the answer" and "bug" not in done.stdout + done.stderr


def test_a_full_stdout_is_3_and_says_where_the_answer_is(project: Path) -> None:
    done = shell(f"harness run work x -m {script(project, *OK)} > /dev/full", cwd=project)
    assert done.returncode == 3 and "error: the output cannot be written: no space left" in done.stderr
    assert f"harness show {newest(project).name}" in done.stderr
    assert "the answer" in harness("show", cwd=project).stdout


BUG = """
import sys, harness.loop.turn as turn
def ask_model(run):
    secret = 'hunter' + '2'
    raise KeyError('x')
turn.ask_model = ask_model
from harness.cli.main import main
sys.exit(main())
"""


def test_case_12_a_bug_in_a_run_is_3_with_a_report_and_the_runs_name(project: Path) -> None:
    (project / "bug.py").write_text(BUG)
    command = [sys.executable, "bug.py", "run", "work", "x", "-m", script(project, *OK), "--json"]
    done = subprocess.run(command, cwd=project, env=clean_env(home_of(project)), capture_output=True, text=True)
    run = newest(project)
    assert done.returncode == 3 and "error: bug in harness: KeyError: 'x'" in done.stderr, done.stderr
    assert f"run: {run.name}" in done.stderr and "Traceback" not in done.stderr
    body = json.loads(done.stdout)
    assert (body["code"], body["run"], body["error"]["code"]) == (3, run.name, 3)
    [report] = (home_of(project) / ".local/state/harness/log").iterdir()
    assert "KeyError" in report.read_text()
    assert "hunter2" not in report.read_text() + done.stderr + done.stdout
    assert harness("resume", "last", cwd=project).stdout == "the answer\n"


def test_a_tools_bytes_are_printed_as_they_are(project: Path) -> None:
    add_tool(project, "raw", r"printf 'a\377\000\033[31mb'")
    command = [*COMMAND, "tools", "run", "raw"]
    done = subprocess.run(command, cwd=project, env=clean_env(home_of(project)), capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"a\xff\0\x1b[31mb")


BAD_TOOLS = {
    "floods": ("head -c 100000000 /dev/zero | tr '\\0' x", 0, ""),
    "hangs": ("sleep 60", 124, "no end within 1 s"),
    "dies": ("kill -SEGV $$", 1, "killed by signal 11"),
    "garbage": ("head -c 100000 /dev/urandom; printf '\\377\\000{'", 0, ""),
    "unusual": ("exit 200", 1, "FAILED: exit 200"),
    "no-interpreter": (None, 78, "MISCONFIGURED"),
}


@pytest.mark.parametrize("name", BAD_TOOLS)
def test_a_tool_that_misbehaves_is_one_line_and_a_code(project: Path, name: str) -> None:
    body, code, words = BAD_TOOLS[name]
    more = "\n# @meta timeout 1" if name == "hangs" else ""
    tool = add_tool(project, name, body or "", f"# @meta effect read{more}")
    if body is None:
        tool.write_text(tool.read_text().replace("#!/bin/sh", "#!/no/such/interpreter"))
    command = [*COMMAND, "tools", "run", name]
    done = subprocess.run(command, cwd=project, env=clean_env(home_of(project)), capture_output=True, timeout=60)
    err = done.stderr.decode()
    assert done.returncode == code and words in err and "Traceback" not in err and "bug in" not in err, err
    assert harness("show", cwd=project).returncode == 0
    if name == "floods":
        assert len(done.stdout) == 8 * 1024 * 1024 and events(newest(project), "tool.end")[0]["data"]["dropped"] > 9e7


def test_a_tool_that_forks_away_is_killed_with_what_it_left(project: Path) -> None:
    away = "(setsid sleep 300 >/dev/null 2>&1 & echo $! > forked.pid); (sleep 300 & echo $! > left.pid); echo off"
    add_tool(project, "forks", away)
    done = harness("tools", "run", "forks", cwd=project)
    assert (done.returncode, done.stdout) == (0, "off\n"), done.stderr
    for name in ("left.pid", "forked.pid"):
        pid = int((project / name).read_text())
        waits(lambda pid=pid: not is_alive(pid))


def test_a_bad_tool_among_good_ones_stops_nothing_else(project: Path) -> None:
    add_tool(project, "dies", "kill -9 $$")
    add_tool(project, "huge", "head -c 3000000 /dev/zero | tr '\\0' y")
    text = (project / "skills/work/SKILL.md").read_text()
    (project / "skills/work/SKILL.md").write_text(text.replace("allowed-tools: look", "allowed-tools: dies huge look"))
    model = script(project, calls(["dies"], ["huge"], ["look"]), finish("ok"))
    done = harness("run", "work", "x", "-m", model, cwd=project)
    assert (done.returncode, done.stdout) == (0, "ok\n")
    assert sorted(event["data"]["class"] for event in events(newest(project), "tool.end")) == ["FAILED", "OK", "OK"]


def test_what_is_no_skill_script_or_setting_is_one_clear_text(project: Path) -> None:
    (project / "binary.yaml").write_bytes(b"harness-script: 1\n\xff\xfe\0")
    (project / "wrong.yaml").write_text("harness-script: 1\nreplies:\n  - txet: x\n")
    (project / "skills/binary").mkdir()
    (project / "skills/binary/SKILL.md").write_bytes(b"---\nname: binary\n\xff\0\n---\n")
    add_pipeline(project, "pipe", "  a: {run: [look]}\n")
    for arguments, words in (
        (["run", "work", "x", "-m", "scripted:binary.yaml"], "binary.yaml"),
        (["run", "work", "x", "-m", "scripted:wrong.yaml"], "wrong.yaml:3"),
        (["run", "work", "x", "-m", "scripted:nowhere.yaml"], "nowhere.yaml"),
        (["run", "work", "x", "-m", "gpt:5"], "gpt"),
        (["run", "binary", "x", "-m", "none"], "skills/binary/SKILL.md:"),
        (["run", "work", "x", "-m", "none"], "none"),
        (["run", "work", "-f", "binary.yaml", "-m", "none"], "binary.yaml"),
        (["run", "work", "-m", "scripted:wrong.yaml", "-f", "nowhere"], "nowhere"),
        (["tools", "run", "lok"], "near: look"),
        (["tools", "run", "look", "--z"], "--z"),
        (["tools", "run", "--skill", "work", "lok"], "near: look"),
        (["pipeline", "bin/pipe", "--z"], "takes no arguments"),
        (["run", "oncall-triage", "x", "-i", "logs=/no/such/log", "-m", "none"], "/no/such/log"),
    ):
        done = harness(*arguments, cwd=project)
        assert done.returncode not in (0, 3) and words in done.stderr, (arguments, done.stderr)
        assert "Traceback" not in done.stderr and "bug in" not in done.stderr
    assert not list((home_of(project) / ".local").rglob("log/*")), "no report of a bug"
