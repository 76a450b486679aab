"""Another agent is the model: the whole of a run by single commands, from what they print."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.executor import survivors
from harness.models.agent import FLAG, NAME
from harness.runs import agent
from harness.runs.flags import Options
from harness.runs.session import start_skill
from tests.command import AtTerminal, clean_env, events, harness, home_of, newest, start, waits
from tests.loop_world import Project, call, finish, reply
from tests.run_files import add_skill, add_tool, calls, make_project, script
from tests.skill_files import catalog_of

ORDER = "metadata:\n  requires: keep\n  tool-dependencies: |\n    keep: look\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = make_project(tmp_path / "p")
    add_skill(folder, "ordered", "look keep act slow drag", ORDER)
    return folder


def opened(project: Path, *more: str) -> str:
    """Begin a run as its model; its id, as the first line prints it."""
    done = harness("run", "ordered", "find", "it", "--agent", *more, cwd=project)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n", 1)[0].removeprefix("run ")


def said(*words: str, cwd: Path) -> tuple[int, str]:
    done = harness(*words, cwd=cwd)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


def test_case_23_out_of_order_too_early_then_in_order(project: Path) -> None:
    done = harness("run", "ordered", "find", "it", "--agent", cwd=project)
    run = done.stdout.split("\n", 1)[0].removeprefix("run ")
    for part in ("Do it.", "<task>\nfind it\n", "callable: look", "waiting: keep (look)", f"harness step {run} TOOL"):
        assert part in done.stdout, part
    code, out = said("step", run, "keep", cwd=project)
    assert (code, out) == (2, "NOT_RELEASED needs look\n") and not events(newest(project), "tool.start")
    code, out = said("finish", run, "it is so", cwd=project)
    assert code == 1 and "missing: keep" in out and out.endswith("open: finish again\n")
    code, out = said("step", run, "look", "--x", "7", cwd=project)
    assert code == 0 and "looked at 7" in out and "now callable: + keep" in out
    assert said("step", run, "keep", cwd=project)[0] == 0
    assert said("finish", run, "it", "is", "so", cwd=project) == (0, "it is so\npassed\n")
    assert events(newest(project))[-1]["data"]["stop"] == "passed"


def test_each_command_parks_for_the_next_step_and_sends_no_request(project: Path) -> None:
    run = opened(project)
    said("step", run, "look", cwd=project)
    log = events(newest(project))
    assert [e["data"]["hint"] for e in log if e["kind"] == "park"] == ["the agent's next step"] * 2
    assert not [e for e in log if e["kind"] == "model.start"]
    found = next(e["data"] for e in log if e["kind"] == "model.reply")
    assert (found["provider"], found["usage"], found["cost"]) == ("agent", None, 0)
    start = log[0]["data"]
    assert (start["model"]["ref"], start["by"]) == ("agent", "input")
    assert [e["data"]["by"] for e in log if e["kind"] == "resume"] == ["agent"]


def test_the_tokens_of_an_agent_are_its_own_and_shown_as_not_metered(project: Path) -> None:
    run = opened(project)
    for tool in ("look", "keep"):
        said("step", run, tool, cwd=project)
    assert said("finish", run, "so", cwd=project)[0] == 0
    shown = harness("show", run, cwd=project).stdout
    assert "3 turns · not metered" in shown and "$0.00" not in shown
    cost = harness("show", run, "--cost", cwd=project).stdout
    assert " itself not metered, in all 3 turns, 0 requests, 2 calls," in cost.splitlines()[-1]
    assert cost.endswith(", not metered\n")


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("look", "--y", "1"), 2, "INVALID_INPUT"), (("lok",), 7, "near: look"), (("late",), 7, "no tool of this"),
        (("look", "--help"), 0, "--x"),
    ],
)  # fmt: skip
def test_what_a_step_answers(project: Path, words: tuple[str, ...], code: int, part: str) -> None:
    done = said("step", opened(project), *words, cwd=project)
    assert done[0] == code and part in done[1], done


@pytest.mark.parametrize(("exit", "code"), [(1, 1), (2, 65), (66, 66), (73, 73), (77, 77), (9, 1)])
def test_the_exit_of_a_tool_is_that_of_its_class(project: Path, exit: int, code: int) -> None:
    add_tool(project, "look", f"echo why >&2; exit {exit}")
    done = said("step", opened(project), "look", cwd=project)
    assert done[0] == code and "why" in done[1]


def test_reading(project: Path) -> None:
    (project / "lines.txt").write_text("a\nb\nc\n")
    run = opened(project)
    said("step", run, "look", cwd=project)
    assert "looked at 1" in said("read", run, "op:1", cwd=project)[1]
    assert "Do it." in said("read", run, "skill:SKILL.md", cwd=project)[1]
    assert said("step", run, "--", "look", "--x", "4", cwd=project)[1].count("looked at 4") == 1
    assert said("read", run, "nowhere", cwd=project)[0] == 2
    assert said("read", run, "../secret", cwd=project)[0] == 7
    assert "\nb\n" in said("read", run, "lines.txt", "--lines", "2", cwd=project)[1]


def busy(project: Path, tool: str, seconds: str, meta: str) -> tuple[str, subprocess.Popen[str]]:
    """An agent's step whose tool has begun and works for so long."""
    add_tool(project, tool, f"echo $$ > {tool}.pid; echo x >> ledger; sleep {seconds}; echo worked", meta)
    run = opened(project)
    one = start("step", run, tool, cwd=project)
    waits((project / f"{tool}.pid").read_text)
    return run, one


def test_case_23_a_kill_in_a_step_is_settled_by_the_next_command(project: Path) -> None:
    run, one = busy(project, "slow", "2", "# @meta effect write\n# @meta timeout 60")
    one.kill()
    one.communicate()
    code, out = said("step", run, cwd=project)
    assert code == 0 and "worked" in out and "callable: look" in out
    assert (project / "ledger").read_text() == "x\n"


def test_an_opaque_step_killed_as_a_whole_needs_a_person_at_a_terminal(project: Path) -> None:
    run, one = busy(project, "drag", "30", "# @meta effect write")
    one.kill()
    one.communicate()
    for pid in survivors(f"{newest(project).name}/1"):
        os.kill(pid, signal.SIGKILL)
    waits(lambda: not survivors(f"{newest(project).name}/1"))
    code, out = said("step", run, "look", cwd=project)
    assert code == 11 and f"a person: harness settle {run} 1" in out and "say it again" in out
    assert harness("settle", run, "1", "happened", cwd=project).returncode == 5


def test_case_23_two_steps_at_once_run_one_after_the_other(project: Path) -> None:
    add_tool(project, "look", "sleep 1; echo looked")
    run, done = opened(project), list[tuple[int, str]]()
    threads = [threading.Thread(target=lambda: done.append(said("step", run, "look", cwd=project))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [code for code, _ in done] == [0, 0]
    assert len(events(newest(project), "tool.end")) == 2


def test_case_23_a_call_that_asks_takes_a_persons_yes_at_a_terminal_only(project: Path) -> None:
    run = opened(project)
    code, out = said("step", run, "act", "--x", "9", cwd=project)
    assert code == 5 and f"a person: harness approve {run} 1" in out and "digest" not in out
    digest = next(e["data"]["digest"] for e in events(newest(project), "decide"))
    assert digest[:8] not in harness("show", run, cwd=project).stdout
    refused = harness("approve", run, "--digest", digest, cwd=project)
    assert refused.returncode == 5 and "at a terminal only" in refused.stderr
    terminal = AtTerminal(sys.executable, "-m", "harness", "approve", run, cwd=project)
    terminal.until("[n]")
    terminal.keys("y")
    assert terminal.end()[0] == 0
    code, out = said("step", run, cwd=project)
    assert code == 0 and "acted on 9" in out
    assert (project / "ledger").read_text() == "9\n"


def test_what_an_agent_may_not_say(project: Path) -> None:
    assert harness("run", "ordered", "x", "--agent", "--allow", "act", cwd=project).returncode == 5
    assert harness("run", "ordered", "x", "--agent", "-m", "none", cwd=project).returncode == 2
    done = harness("run", "ordered", "x", "-m", "agent", cwd=project)
    assert done.returncode == 2 and "--agent" in done.stderr
    assert not list((project / ".harness").glob("runs/2*"))
    run = opened(project)
    assert said("step", run, "act", "--x", "9", cwd=project)[0] == 5
    for more in ([], ["--agent"]):
        refused = harness("resume", run, "--allow", "act", *more, cwd=project)
        assert refused.returncode == 5 and "at a terminal only" in refused.stderr
    assert not (project / "ledger").exists()


def test_limits_and_strikes_hold_for_an_agent(project: Path) -> None:
    run = opened(project, "-b", "turns=2")
    last = [said("step", run, "look", "--x", str(n), cwd=project) for n in range(2)]
    assert [code for code, _ in last] == [0, 6]
    assert last[1][1].endswith(f"go on: harness resume {run} --agent -b turns=N\n")
    done = harness("step", run, "look", cwd=project)
    assert done.returncode == 2 and "has ended: budget" in done.stderr and "resume" in done.stderr
    told = json.loads(harness("--json", "step", run, "look", cwd=project).stdout)
    assert (told["resumable"], told["run"][-8:], told["code"]) == (True, run, 2)
    again = opened(project)
    codes = [said("step", again, "look", cwd=project)[0] for _ in range(7)]
    assert codes == [0] * 6 + [8]


def test_a_run_is_handed_over(project: Path) -> None:
    model = script(project, calls(["act"]))
    assert harness("run", "ordered", "x", "-m", model, cwd=project).returncode == 5
    run = newest(project).name[-8:]
    refused = harness("step", run, "look", cwd=project)
    assert refused.returncode == 2 and f"resume {run} --agent" in refused.stderr
    handed = harness("resume", run, "--agent", cwd=project)
    assert handed.returncode == 5 and f"a person: harness approve {run} 1" in handed.stdout
    assert harness("deny", run, cwd=project).returncode == 0
    done = harness("step", run, "look", cwd=project)
    assert done.returncode == 0 and "looked at 1" in done.stdout, done.stderr


def test_a_run_is_taken_back_by_naming_a_model(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.tool("look", "echo looked")
    project.skill(tools="look")
    session = start_skill(project.world(), catalog_of(project.path), "demo", "go", {}, Options((NAME, FLAG)))
    session.go()
    session.run.log.close()
    model = project.script([finish("mine")])
    ran = project.resume(session.run.folder, model=(model, "-m"))
    assert ran.stop.name == "passed"
    assert [event["data"]["why"] for event in ran.of("context")] == ["model"]


def test_each_answer_as_one_object(project: Path) -> None:
    done = json.loads(harness("run", "ordered", "x", "--agent", "--json", cwd=project).stdout)
    assert (done["callable"][0], done["waiting"]) == ("look", {"keep": "look"})
    assert (done["stop"], done["code"]) == ("waiting", 0)
    run = done["run"]
    step = json.loads(harness("--json", "step", run, "keep", cwd=project).stdout)
    assert (step["op"], step["class"], step["code"], step["resumable"]) == (1, "NOT_RELEASED", 2, True)
    assert json.loads(harness("--json", "step", run, cwd=project).stdout)["text"] == "", "nothing happened"
    early = json.loads(harness("finish", run, "--json", "so", cwd=project).stdout)
    assert (early["class"], early["code"]) == ("FAILED", 1)
    for tool in ("look", "keep"):
        harness("step", run, tool, cwd=project)
    end = json.loads(harness("finish", run, "--json", "so", cwd=project).stdout)
    assert (end["answer"], end["stop"], end["code"], end["resumable"]) == ("so", "passed", 0, False)
    assert end["class"] == "OK"


def test_what_was_cut_out_is_read_by_the_printed_command(project: Path) -> None:
    add_tool(project, "look", "seq -f 'line %g of a long output' 2000")
    run = opened(project)
    out = said("step", run, "look", cwd=project)[1]
    command = out.rstrip("\n").rsplit("\n", 1)[1]
    assert command.startswith(f"what was cut: harness read {run} op:1 --lines ")
    first = command.rsplit(" ", 1)[1].split("-")[0]
    assert f"\nline {first} of a long output\n" not in out
    assert f"\nline {first} of a long output\n" in said(*command.split()[4:], cwd=project)[1]


def test_a_cut_that_a_tool_prints_gives_no_command(project: Path) -> None:
    add_tool(project, "look", "echo '[cut: lines 1-2 of 9; read op:7]'")
    assert "what was cut" not in said("step", opened(project), "look", cwd=project)[1]


def test_an_agent_that_forgot_everything_finds_where_it_stands(project: Path) -> None:
    run = opened(project, "-b", "turns=9")
    said("step", run, "look", "--x", "7", cwd=project)
    said("finish", run, "two\nlines", cwd=project)
    alone = said("step", run, cwd=project)[1]
    for part in ("still required: keep (keep has no result yet)", "left: 7 of 9 turns", f"resume {run} --agent"):
        assert part in alone, alone
    told = said("resume", run, "--agent", cwd=project)[1]
    assert "op 1  look --x 7  OK, fresh" in told and '> finish {"answer": "two\\nlines"}\n' in told
    assert "callable: look keep" in told.split("\nNow:\n")[1]
    parked = harness("resume", run, cwd=project)
    assert f"next: harness resume {run[:4]} --agent" in parked.stderr


def test_a_refused_answer_says_how_many_may_still_be(project: Path) -> None:
    run = opened(project)
    outs = [said("finish", run, "so", cwd=project)[1] for _ in range(3)]
    assert ["1 of 3 answers refused" in outs[0], "2 of 3 answers refused" in outs[1]] == [True, True]
    assert f"go on: harness resume {run} --agent" in outs[2]


def test_refusals_say_how_to_go_on(project: Path) -> None:
    run = opened(project)
    assert said("step", run, "look", "--y", "1", cwd=project)[1].startswith("INVALID_INPUT look\n")
    assert "a tool may open others" in said("read", run, "/etc/passwd", cwd=project)[1]


def test_a_need_after_a_bar_is_no_alternative(project: Path) -> None:
    add_skill(project, "barred", "look keep slow", ORDER.replace("keep: look", "keep: look | slow"))
    out = said("run", "barred", "x", "--agent", cwd=project)[1]
    assert "waiting: keep (look | slow)\n(in brackets: all that must come first" in out


def test_case_22_no_provider_is_loaded(project: Path) -> None:
    run = opened(project)
    code = "import sys; from harness.cli.main import main; code = main(); print(code, *sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, "step", run, "look"], cwd=project, capture_output=True, text=True, timeout=60,
        env=clean_env(home_of(project)),
    )  # fmt: skip
    words = done.stderr.split()
    assert words[0] == "0" and not {"anthropic", "httpx2", "rich"} & set(words), done.stderr


def test_case_24_the_same_calls_by_a_script_and_by_an_agent(tmp_path: Path) -> None:
    def made(name: str) -> Project:
        (tmp_path / name).mkdir()
        project = Project(tmp_path / name)
        project.tool("look", "echo looked")
        project.tool("keep", "echo kept; exit 1", "@meta effect write")
        project.skill(tools="look keep", deps="keep: look")
        return project

    scripted = made("a").run([reply(call("keep")), reply(call("look")), reply(call("keep")), finish("so")])
    project = made("b")
    session = start_skill(project.world(), catalog_of(project.path), "demo", "go", {}, Options((NAME, FLAG)))
    session.go()
    session.run.log.close()
    said_: list[tuple[str, dict[str, Any]]] = [
        ("run", {"tool": name, "args": []}) for name in ("keep", "look", "keep")
    ]  # fmt: skip
    for one in (*said_, ("finish", {"answer": "so"})):
        driven = agent.step(project.world(), catalog_of(project.path), session.run.folder, one)
        stop = driven.go()
        driven.run.log.close()
    mine, other = driven.run.state, agent.current_state(scripted.folder)
    assert (stop.name, scripted.stop.name, (mine.end or {}).get("answer")) == ("passed", "passed", "so")
    assert [(op.verb, op.verdict, op.code, op.argv) for op in other.ops.values()] == [
        (op.verb, op.verdict, op.code, op.argv) for op in mine.ops.values()
    ]
    assert {slot: r.result for slot, r in other.slots.items()} == {slot: r.result for slot, r in mine.slots.items()}


def test_a_worker_of_an_agents_run_has_the_model_it_would_have_by_itself(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p")
    add_skill(folder, "helper", "look")
    add_skill(folder, "boss", "look helper", "metadata:\n  requires: helper\n")
    own = {"helper": {"replies": [calls(["look"]), {"calls": [{"finish": "helped"}]}]}}
    whole = {"harness-script": 1, "replies": [calls(["look"])], "skills": own}
    (folder / "script.yaml").write_text(yaml.safe_dump(whole))
    model = "scripted:script.yaml"
    begun = harness("run", "boss", "x", "--agent", cwd=folder, HARNESS_MODEL=model)
    run = begun.stdout.split("\n", 1)[0].removeprefix("run ")
    assert "callable: helper" in begun.stdout
    done = harness("step", run, "helper", "please", cwd=folder, HARNESS_MODEL=model)
    assert done.returncode == 0 and "helped" in done.stdout, done.stdout + done.stderr
    assert said("finish", run, "so", cwd=folder) == (0, "so\npassed\n")


def test_a_worker_without_a_model_is_shown_as_locked_with_the_reason(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "p")
    add_skill(folder, "helper", "look")
    add_skill(folder, "boss", "look helper")
    begun = harness("run", "boss", "x", "--agent", cwd=folder)
    run = begun.stdout.split("\n", 1)[0].removeprefix("run ")
    assert "waiting: helper (a model for it: a person names one in HARNESS_MODEL" in begun.stdout
    code, out = said("step", run, "helper", "please", cwd=folder)
    assert code == 2 and out.startswith("NOT_RELEASED needs a model for it") and len(runs_of(folder)) == 1
    assert json.loads(harness("--json", "step", run, "look", cwd=folder).stdout)["callable"] == ["look"]


def runs_of(folder: Path) -> list[Path]:
    return list((folder / ".harness" / "runs").glob("2*"))


def test_what_was_given_as_an_input_is_read_wherever_it_lies(project: Path, tmp_path: Path) -> None:
    add_skill(project, "logged", "look", "metadata:\n  inputs: |\n    log <PATH> the log\n")
    away = tmp_path / "away"
    (away / "logs").mkdir(parents=True)
    (away / "logs" / "x.log").write_text("one\ntwo\n")
    (away / "logs" / ".env").write_text("KEY=1\n")
    (away / "other").write_text("no\n")
    for log, path in (("logs/x.log", "logs/x.log"), ("logs", "logs/x.log")):
        done = harness("run", "logged", "x", "-i", f"log={away / log}", "--agent", cwd=project)
        run = done.stdout.split("\n", 1)[0].removeprefix("run ")
        code, out = said("read", run, str(away / path), "--lines", "2", cwd=project)
        assert code == 0 and "\ntwo\n" in out, out
        assert said("read", run, os.path.relpath(away / path, project), cwd=project)[0] == 0
    for path in ("other", "logs/.env", "logs/../other"):
        code, out = said("read", run, str(away / path), cwd=project)
        assert code == 7 and out.startswith("DENIED"), (path, out)


@pytest.mark.parametrize("where", ["logs", "../away"])
def test_an_input_that_is_not_there_is_refused_before_the_run(project: Path, where: str) -> None:
    add_skill(project, "logged", "look", "metadata:\n  inputs: |\n    log <FILE> the log\n    all* <DIR> folders\n")
    folder = project / where
    folder.mkdir(parents=True)
    (folder / "batch.log").write_text("x\n")
    for given, part in (
        (f"log={where}/bacth.log", "there is no such file; near: batch.log"), (f"log={where}", "is no file"),
        (f'all=["{where}/nowhere"]', "there is no such folder"), ("log=" + "n" * 300, "there is no such file"),
        ("log=~/x", "(~ is not expanded here)"),
    ):  # fmt: skip
        done = harness("run", "logged", "x", "-i", given, "-m", "scripted:none.yaml", cwd=project)
        assert done.returncode == 2 and part in done.stderr and "fix: " in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and not runs_of(project)


def test_a_tool_that_is_callable_for_some_values_only_is_announced_with_these(project: Path) -> None:
    add_skill(project, "keyed", "look again", "metadata:\n  tool-dependencies: |\n    again: look(--x)\n")
    add_tool(project, "look", 'echo "looked at $*"')
    text = (project / "bin" / "look").read_text()
    (project / "bin" / "look").write_text(text.replace("--x=1 <X>", "--x <X>"))
    again = add_tool(project, "again", 'echo "again $*"')
    again.write_text(again.read_text().replace("--x=1 <X>", "--x <X>"))
    begun = harness("run", "keyed", "x", "--agent", cwd=project)
    run = begun.stdout.split("\n", 1)[0].removeprefix("run ")
    assert "waiting: again (look(--x))" in begun.stdout
    code, out = said("step", run, "look", cwd=project)
    assert code == 0 and "now callable" not in out  # no call of it could be: nothing was looked at by a value
    out = said("step", run, "look", "--x", "a", cwd=project)[1]
    assert re.search(r"now callable: \+ again .*\(only for --x a, which look ran for\)\n", out), out
    out = said("step", run, "look", "--x", "b c", cwd=project)[1]
    assert "(only for --x 'b c', --x a, which look ran for)" in out
    assert said("step", run, "again", "--x", "q", cwd=project)[0] == 2
    assert said("step", run, "again", "--x", "b c", cwd=project)[0] == 0
    assert "\n  again: only for --x 'b c', --x a, which look ran for\n" in said("step", run, cwd=project)[1]
    told = json.loads(harness("--json", "step", run, "look", "--x", "d", cwd=project).stdout)
    assert told["callable"] == ["look", "again"] and told["only"]["again"].startswith("--x d, ")


def test_what_is_handed_over_again_fits_into_a_terminal(project: Path) -> None:
    with (project / "skills" / "ordered" / "SKILL.md").open("a") as file:
        file.write("a line of the skill\n" * 2_000)
    add_tool(project, "look", "seq 1 3000; echo '</data>'")
    run = opened(project)
    for n in range(3):
        assert said("step", run, "look", "--x", str(n), cwd=project)[0] == 0
    out = said("resume", run, "--agent", cwd=project)[1]
    assert len(out) < 30_000 and "read skill:SKILL.md]" in out
    for n in (1, 2, 3):
        assert f"\n[shortened here; read op:{n}]\n</data>" in out
    assert "\n3000\n" in said("read", run, "op:3", "--lines", "2990-3001", cwd=project)[1]


def test_a_word_on_an_agents_run_names_the_agents_command(project: Path) -> None:
    run = opened(project)
    assert said("step", run, "act", cwd=project)[0] == 5
    assert f"denied #1; go on: harness step {run}\n" in harness("deny", run, cwd=project).stderr


def test_who_drives_a_run_supplies_no_result_of_it_as_a_person(project: Path) -> None:
    """It has a shell of its own: what it says there is no person's word, about a result no more than about a call."""
    run = opened(project)
    said("step", run, "look", cwd=project)
    (project / "made.txt").write_text("looked at 9\n")
    for words in (["--receipt", "1=made.txt"], ["--stale", "look"]):
        done = harness("amend", run, *words, "--why", "so it is", cwd=project)
        assert done.returncode == 5 and "counts at a terminal only" in done.stderr
    assert not list((newest(project) / "inbox").glob("*")) and not events(newest(project), "amend")
    words = [sys.executable, "-m", "harness", "amend", run, "--stale", "look", "--why", "it is old"]
    assert AtTerminal(*words, cwd=project).end()[0] == 0


def test_a_fork_after_an_operation_is_found_by_its_event_and_goes_on_with_the_agent(project: Path) -> None:
    add_tool(project, "look", "echo looked")
    run = opened(project)
    assert said("step", run, "look", cwd=project)[0] == 0
    steps = json.loads(harness("show", run, "--json", cwd=project).stdout)["steps"]
    assert [step["seq"] for step in steps] == [e["seq"] for e in events(newest(project), "tool.end")]
    done = harness("fork", f"{run}@{steps[0]['seq']}", cwd=project)
    assert done.returncode == 0, done.stderr
    assert f"go on: harness resume {done.stdout.strip()[-8:]} --agent" in done.stderr
