"""`harness policy explain` and `check`, as a person uses them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.cli.policy import EXAMPLE
from tests.command import events, harness, home_of, newest
from tests.run_files import add_skill, add_tool, calls, finish, make_project, script

SEND = "# @option --to! <EMAIL>  who\n# @meta effect external\n# @meta dest --to"
PAY = "# @option --sum! <AMOUNT>  how much\n# @meta effect money\n# @meta amount --sum EUR"
POLICY = """version: 1
sandbox: {require: none}
rules:
  - tool: send
    verdict: allow
    where: {--to: {host: x.io}}
    why: our own people
    match: [{args: [--to, ann@x.io]}]
    no_match: [{args: [--to, eve@y.io]}]
  - {tool: send, verdict: ask, where: {--to: {eq: boss@x.io}}, why: ask before you write to her}
budget: {calls: 9, money: "50.00 EUR"}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = make_project(tmp_path / "p")
    add_tool(folder, "send", "echo sent > sent", SEND)
    add_tool(folder, "pay-bill", "echo paid > sent", PAY)
    say(folder, POLICY)
    return folder


def say(project: Path, text: str) -> None:
    (home_of(project) / ".config" / "harness" / "policy.yaml").write_text(text)


def explain(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    done = harness("policy", "explain", *words, cwd=project)
    assert not (project / "sent").exists() and not (project / ".harness" / "runs").exists()
    return done


@pytest.mark.parametrize(
    ("words", "code", "first"),
    [
        (["look"], 0, "allow: look --x 1"),
        (["send", "--to", "ann@x.io"], 0, "allow: send --x 1 --to ann@x.io"),
        (["send", "--to", "eve@y.io"], 5, "ask: send --x 1 --to eve@y.io"),
        (["--goal", "to eve@y.io", "send", "--to", "eve@y.io"], 0, "allow: send --x 1 --to eve@y.io"),
        (["send", "--to", "boss@x.io"], 5, "ask: send --x 1 --to boss@x.io"),
        (["pay-bill", "--sum", "3"], 5, "ask: pay-bill --x 1 --sum 3"),
        (["pay-bill", "--sum", "60"], 7, "deny OVER_BUDGET: pay-bill --x 1 --sum 60"),
        (["pay-bill", "--sum", "-3"], 7, "deny INVALID_INPUT: pay-bill --sum -3"),
        (["bare", "/etc/passwd"], 7, "deny DENIED: bare /etc/passwd"),
        (["--skill", "strict", "send", "--to", "ann@x.io"], 7, "deny DENIED: send --x 1 --to ann@x.io"),
    ],
)
def test_a_verdict_is_an_exit_code_and_nothing_runs(project: Path, words: list[str], code: int, first: str) -> None:
    done = explain(project, *words)
    assert (done.returncode, done.stdout.splitlines()[0]) == (code, first), done.stderr


def test_every_rule_about_the_call_is_named_with_what_fails(project: Path) -> None:
    text = explain(project, "send", "--to", "eve@y.io").stdout
    place = "~/.config/harness/policy.yaml"
    assert f"rule: {place}:4 allow – our own people: --to: host x.io does not hold" in text
    assert f"rule: {place}:10 ask – ask before you write to her: --to: eq boss@x.io does not hold" in text
    assert "  effect external: --to eve@y.io is not in your words" in text
    assert "destination: --to eve@y.io (not in your words)" in text
    assert "argument: --to = 'eve@y.io' (text)" in text and "confinement: none" in text
    assert f"budget: calls 0 of 9 used ({place}:11)" in text


def test_the_example_that_ships_loads_and_does_what_its_comments_say(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    own = home_of(folder) / ".config" / "harness" / "policy.yaml"
    own.unlink()
    told = harness("policy", "check", cwd=folder)
    assert told.returncode == 0 and f"cp {EXAMPLE} {own}" in told.stderr
    shutil.copy(EXAMPLE, own)
    done = harness("policy", "check", "--strict", cwd=folder)
    assert done.returncode == 0 and "checked 2 rules: no errors" in done.stderr and "cp" not in done.stderr
    replay = ("policy", "explain", "replay-request", "--request-id", "req-1")
    assert harness(*replay, "--source", "incident", cwd=folder).returncode == 0
    assert harness(*replay, "--source", "other", cwd=folder).returncode == 5
    report = ("policy", "explain", "write-report", "--evidence", "found.json", "--out")
    assert harness(*report, "infra/report.md", cwd=folder).returncode == 7
    assert harness(*report, "report.md", cwd=folder).returncode == 0
    own.write_text(re.sub("^# ([a-z]+: {)", r"\1", EXAMPLE.read_text(), flags=re.MULTILINE))
    assert harness("policy", "check", cwd=folder).returncode == 0, "what is commented out can be used as it is"


def test_explain_names_no_run_where_there_is_none_and_says_that_nothing_is_given(project: Path) -> None:
    say(project, "version: 1\nsandbox: {require: none}\n")
    add_skill(project, "poor", "pay-bill", "metadata:\n  budget: money=1.00EUR\n")
    done = explain(project, "--skill", "poor", "pay-bill", "--sum", "3")
    assert "fix: begin the run with more: -b money=" in done.stdout and "RUN" not in done.stdout
    assert "argument: args = nothing (text, list)" in explain(project, "bare").stdout
    assert "fix: harness tools lists them" in explain(project, "bar").stderr


def test_a_secret_without_a_value_is_said_before_anything_starts(project: Path) -> None:
    """Where the policy gives it the call is refused, and explain says the same; else the tool runs without it."""
    add_tool(project, "sign", "touch sent", "# @meta effect read\n# @env SIGN_TOKEN  a token")
    say(project, "version: 1\nsandbox: {require: none}\nsecrets: {SIGN_TOKEN: {tools: [sign], from: env}}\n")
    why = "sign needs SIGN_TOKEN, which has no value; set SIGN_TOKEN where harness is started; or take sign out of"
    done = explain(project, "sign")
    assert done.returncode == 7 and done.stdout.startswith("deny NEEDS_AUTH: sign") and why in done.stdout
    ran = harness("tools", "run", "sign", cwd=project)
    assert ran.returncode == 77 and f"warning: {why}" in ran.stderr and not (project / "sent").exists(), ran
    assert json.loads(harness("policy", "explain", "--json", "sign", cwd=project).stdout)["lacking"] == ["SIGN_TOKEN"]
    say(project, "version: 1\nsandbox: {require: none}\n")
    done = harness("policy", "explain", "sign", cwd=project)
    assert done.returncode == 0 and "no value: SIGN_TOKEN, which the header declares: it is not set" in done.stdout
    ran = harness("tools", "run", "sign", cwd=project)
    assert ran.returncode == 0 and "sign runs without SIGN_TOKEN, which has no value" in ran.stderr


def test_paths_amounts_and_json(project: Path) -> None:
    text = explain(project, "bare", "../x", "in.txt").stdout
    assert f"path: args ../x -> {project.parent}/x (read, outside)" in text
    said = json.loads(explain(project, "--json", "pay-bill", "--sum", "3.50").stdout)
    assert (said["verdict"], said["amounts"], said["effect"], said["effect_from"]) == (
        "ask", {"EUR": "3.50"}, "money", "header"
    )  # fmt: skip
    assert said["arguments"]["--sum"] == {"kind": "number", "texts": ["3.50"], "many": False}


def test_a_run_gives_its_words_its_spending_and_what_it_waits_for(project: Path) -> None:
    add_tool(project, "look2", "echo x")
    add_skill(project, "ordered", "look2 send", "metadata:\n  tool-dependencies: |\n    send: look2\n")
    harness("run", "ordered", "write to eve@y.io", "-m", script(project, calls(["look2"]), finish("x")), cwd=project)
    for words, code in ((["send", "--to", "eve@y.io"], 0), (["send", "--to", "eve@z.io"], 5)):
        done = harness("policy", "explain", "--run", "last", *words, cwd=project)
        assert done.returncode == code and "budget: calls 1 of 9 used" in done.stdout
    harness("run", "ordered", "x", "-m", script(project, finish("x")), cwd=project)
    done = harness("policy", "explain", "--run", "last", "send", "--to", "ann@x.io", cwd=project)
    assert done.returncode == 7 and "deny NOT_RELEASED" in done.stdout


def test_a_value_that_must_be_known_is_looked_for_where_words_are_given(project: Path) -> None:
    add_tool(project, "replay", "echo x", "# @option --id! <ID>  which\n# @meta effect read\n# @meta known --id")
    done = explain(project, "replay", "--id", "r-18")
    assert done.returncode == 0 and "grounding: id must be known" in done.stdout
    done = explain(project, "--goal", "replay r-17", "replay", "--id", "r-18")
    assert done.returncode == 7 and done.stdout.startswith("deny UNGROUNDED")
    assert explain(project, "--goal", "replay r-18", "replay", "--id", "r-18").returncode == 0
    add_skill(project, "again", "replay look")
    harness("run", "again", "replay r-19", "-m", script(project, finish("x")), cwd=project)
    for value, code in (("r-19", 0), ("r-18", 7)):
        done = harness("policy", "explain", "--run", "last", "replay", "--id", value, cwd=project)
        assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nope"], "there is no tool nope"), (["--skill", "strict", "nope"], "nope is no tool of strict"),
     (["--skill", "nope", "look"], "nope"), (["--goal", "x", "--run", "last", "look"], "--run says"),
     ([], "TOOL")],
)  # fmt: skip
def test_what_cannot_be_explained_is_a_usage_error(project: Path, words: list[str], said: str) -> None:
    done = explain(project, *words)
    assert done.returncode == 2 and said in done.stderr


def test_what_follows_the_tool_is_the_tools(project: Path) -> None:
    assert explain(project, "send", "--goal", "x").stdout.startswith("deny INVALID_INPUT")
    assert "unknown option --help" in explain(project, "send", "--help").stdout


def check(project: Path, *words: str) -> tuple[int, str, str]:
    done = harness("policy", "check", *words, cwd=project)
    return done.returncode, done.stdout, done.stderr


def test_check_runs_all_examples_and_names_odd_rules(project: Path) -> None:
    assert check(project)[:2] == (0, "") and check(project, "--strict")[:2] == (0, "")
    say(project, POLICY.replace("    no_match: [{args: [--to, eve@y.io]}]\n", ""))
    code, out, _ = check(project)
    assert code == 0 and "policy.yaml:4: warning rule an allow rule without no_match" in out
    assert check(project, "--strict")[0] == 1
    rules = "rules:\n  - {tool: gone, verdict: ask}\n  - {tool: send, verdict: deny, where: {--tto: {eq: x}}}\n"
    say(project, f"version: 1\n{rules}")
    _, out, err = check(project)
    assert "no tool here is called gone" in out and "send declares no --tto, so the test matches every call" in out
    assert "checked 2 rules" in err
    say(project, "version: 1\napprovals: {channels: {slack: {users: [U1], channels: [C1]}}}\n")
    assert "warning channel no chat is connected, so nobody is heard in slack" in check(project)[1]


def test_check_ends_with_2_where_a_file_does_not_load(project: Path) -> None:
    say(project, POLICY.replace("[--to, ann@x.io]", "[--to, ann@z.io]"))
    code, _, err = check(project)
    assert code == 2 and "does not match a call of send" in err and "policy.yaml:8" in err
    say(project, POLICY.replace("verdict: ask", "verdict: aks"))
    code, _, err = check(project)
    assert code == 2 and "near: ask" in err and "policy.yaml:10" in err


def test_check_reads_the_files_of_project_and_skills(project: Path) -> None:
    (project / ".harness" / "policy.yaml").write_text("version: 1\nrules: [{tool: gone, verdict: ask}]\n")
    (project / "skills" / "work" / "policy.yaml").write_text("version: 1\nrules: [{tool: gone2, verdict: ask}]\n")
    _, out, _ = check(project)
    assert ".harness/policy.yaml:2: warning rule no tool here is called gone;" in out
    assert "skills/work/policy.yaml:2: warning rule no tool here is called gone2;" in out
    (project / "skills" / "work" / "policy.yaml").write_text("version: 1\nnetwork: {}\n")
    assert check(project)[0] == 2


def test_a_state_folder_that_others_can_look_into_is_refused_with_the_command_that_mends_it(project: Path) -> None:
    state = home_of(project) / ".local" / "state" / "harness"
    done = harness("run", "work", "x", "-m", script(project, finish("x")), cwd=project)
    assert done.returncode == 0 and state.stat().st_mode & 0o777 == 0o700
    state.chmod(0o755)
    done = harness("run", "work", "x", "-m", script(project, finish("x")), cwd=project)
    assert done.returncode == 2 and f"run: chmod 700 {state}" in done.stderr


@pytest.mark.parametrize("lists", ["{read: [out], write: [out]}", "{read: [], write: []}"])
def test_lists_that_do_not_meet_leave_nothing(project: Path, lists: str) -> None:
    """A file that only narrows must not bring the whole workspace back, where a person had left a part of it."""
    add_tool(project, "show", "cat \"$4\"", "# @option --file! <FILE>  what\n# @meta effect read")
    for name in ("docs/a", "out/a", "src/a"):
        (project / name).parent.mkdir()
        (project / name).write_text("x")
    say(project, "version: 1\npaths: {read: [docs], write: [docs]}\n")
    codes = [explain(project, "show", "--file", name).returncode for name in ("docs/a", "out/a", "src/a")]
    assert codes == [0, 7, 7]
    (project / ".harness/policy.yaml").write_text(f"version: 1\npaths: {lists}\n")
    assert [explain(project, "show", "--file", name).returncode for name in ("docs/a", "out/a", "src/a")] == [7, 7, 7]
    harness("run", "work", "x", "-m", script(project, calls({"read": "src/a"}), finish("no")), cwd=project)
    decided = [event["data"]["verdict"] for event in events(newest(project)) if event["kind"] == "decide"]
    assert decided == ["deny"]
