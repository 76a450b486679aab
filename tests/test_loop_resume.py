"""A run that was cut off anywhere goes on from its journal: what has ended is not done again, what may have happened is
not repeated blindly, and nothing is asked of the model twice."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.events.log import follow
from harness.runs import session as sessions
from harness.runs.flags import Options
from tests.command import ROOT, clean_env, home_of
from tests.loop_world import Project, Ran, after_end_of, call, finish, reply
from tests.skill_files import catalog_of


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def cut(ran: Ran, events: int, whole: bytes = b"") -> None:
    """Leave the journal (or `whole`, as it was) as a kill after this many events would."""
    path = ran.folder / "events.jsonl"
    path.write_bytes(b"".join((whole or path.read_bytes()).splitlines(keepends=True)[:events]))
    shutil.rmtree(ran.folder / "inbox")
    (ran.folder / "inbox").mkdir()


def test_a_kill_after_each_event_of_a_run_that_reads(project: Project) -> None:
    """Every position: the same answer, no request twice, no ended operation again."""
    for name in ("a", "b", "c"):
        project.tool(name, f"echo {name}")
    project.tool("check", "exit 0")
    project.tool("report", "head -c 9000 /dev/zero | tr '\\0' x", "@meta effect read\n@meta timeout 30")
    project.stages("line", "one: {run: [a]}\ntwo: {run: [b], needs: [one]}")
    project.skill("helper", tools="c")
    project.skill(tools="a b c report line helper", deps="report: a b", requires="report", verify="check")
    replies = [reply(call("a"), call("b"), call("c"), {"read": "skills/demo/SKILL.md"}), reply(call("line")),
               reply(call("helper", "go")), reply(call("report")), finish("so")]  # fmt: skip
    ran = project.run(replies, helper=[reply(call("c")), finish("helped")])
    assert ran.stop.name == "passed"
    whole, raw = ran.events, (ran.folder / "events.jsonl").read_bytes()
    for count in range(1, len(whole)):
        cut(ran, count, raw)
        ended = {e["op"] for e in whole[:count] if e["kind"] == "tool.end"}
        more = project.resume(ran.folder)
        assert (more.stop.name, more.answer) == ("passed", "so"), count
        starts = Counter(e["op"] for e in more.of("tool.start") if e["seq"] > count)
        assert not ended & set(starts), count
        asked = [e["data"]["turn"] for e in more.of("model.reply")]
        assert asked == [1, 2, 3, 4, 5], count


def test_a_kill_after_each_event_of_a_pipeline(project: Project) -> None:
    for name in ("a", "b", "c"):
        project.tool(name, f"echo {name}")
    two, three = "{run: [b], when: \"${one} == 'x'\"}", "{run: [c], needs: [one, 'two?']}"
    path = project.stages("line", f"one: {{run: [a]}}\ntwo: {two}\nthree: {three}")
    ran = project.pipeline(path)
    whole, raw = ran.events, (ran.folder / "events.jsonl").read_bytes()
    assert (ran.stop.name, ran.answer, ran.codes()) == ("passed", "c\n", ["allow", "SKIPPED", "allow"])
    for count in range(1, len(whole)):
        cut(ran, count, raw)
        more = project.resume(ran.folder)
        assert (more.stop.name, more.answer) == ("passed", "c\n"), count
        done = sum(e["kind"] == "tool.end" for e in whole[:count])
        assert len(more.spawned) == 2 - done, count


def test_only_what_was_read_again_runs_again_of_a_batch(project: Project) -> None:
    """A slow, B fails, C fast; killed after C: C is kept, A and B are settled, results come in call order."""
    project.tool("a", f"{after_end_of(3)}; echo A")
    project.tool("b", f"{after_end_of(3)}; echo B; exit 1")
    project.tool("c", "echo C")
    project.skill(tools="a b c")
    ran = project.run([reply(call("a"), call("b"), call("c")), finish()])
    assert ran.ends()[0] == ("c", "OK")
    first = next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.end")
    cut(ran, first + 1)
    replies = [reply(call("a"), call("b"), call("c")), {**finish(), "expect": {"contains": ["A", "B", "C"]}}]
    project.script(replies)
    more = project.resume(ran.folder)
    assert (more.stop.name, sorted(more.spawned)) == ("passed", ["a", "b"])
    outcomes = [e["data"]["outcome"] for e in more.of("tool.end")]
    assert (outcomes[:3], sorted(outcomes[3:])) == (["done", "cut", "cut"], ["done", "failed"])
    assert [e["data"].get("try", 1) for e in more.of("tool.start")] == [1, 1, 1, 2, 2]


def test_a_write_stage_of_a_child_that_was_cut_parks_the_top_run(project: Project) -> None:
    project.tool("a", "echo a >> done", "@meta effect write")
    project.tool("r", "echo r")
    project.stages("line", "one: {run: [r]}\ntwo: {run: [a], needs: [one]}")
    project.skill(tools="line")
    ran = project.run([reply(call("line")), finish()])
    child = Ran(ran.stop, ran.child(), [])
    starts = [i for i, e in enumerate(child.events) if e["kind"] == "tool.start"]
    cut(child, starts[1] + 1)
    (child.folder / "ops" / "2" / "1" / "rc").write_text("....")
    cut(ran, 1 + next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.start"))
    more = project.resume(ran.folder)
    assert (more.stop.name, more.stop.code, more.spawned) == ("unknown-outcome", 11, [])
    assert f"{child.folder}/ops/2/1" in more.end["hint"]


def test_a_read_stage_of_a_child_that_was_cut_runs_once_more(project: Project) -> None:
    project.tool("r", "echo r")
    project.tool("s", "echo s")
    project.stages("line", "one: {run: [r]}\ntwo: {run: [s], needs: [one]}")
    project.skill(tools="line")
    ran = project.run([reply(call("line")), finish("fin")])
    child = Ran(ran.stop, ran.child(), [])
    starts = [i for i, e in enumerate(child.events) if e["kind"] == "tool.start"]
    cut(child, starts[1] + 1)
    cut(ran, 1 + next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.start"))
    more = project.resume(ran.folder)
    assert (more.stop.name, more.answer, more.spawned) == ("passed", "fin", ["s"])
    assert len(list(ran.folder.parent.iterdir())) == 2


def test_a_kill_before_the_child_began(project: Project) -> None:
    """Its folder is missing, or holds no whole first line: it is begun under the same name."""
    project.tool("r", "echo r")
    project.stages("line", "one: {run: [r]}")
    project.skill(tools="line")
    ran = project.run([reply(call("line")), finish("fin")])
    start = 1 + next(i for i, e in enumerate(ran.events) if e["kind"] == "tool.start")
    name = ran.child()
    for torn in (False, True):
        cut(ran, start)
        shutil.rmtree(name)
        if torn:
            (name / "ops").mkdir(parents=True)
            (name / "events.jsonl").write_bytes(b'{"v":1,"seq":1')
        more = project.resume(ran.folder)
        assert (more.stop.name, more.spawned, more.child()) == ("passed", ["r"], name)


def start_command(project: Project, *words: str) -> subprocess.Popen[bytes]:
    home = home_of(project.path)
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *words], cwd=project.path, env=clean_env(home, PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def wait_for(path: Path, lines: int = 1) -> None:
    until = time.monotonic() + 30
    while not path.exists() or len(path.read_text().splitlines()) < lines:
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.02)


def kill_once(project: Project, name: str) -> None:
    """What a second Ctrl-C does, as soon as a file is there."""

    def work() -> None:
        wait_for(project.path / name)
        project.cancel.level = 2

    threading.Thread(target=work).start()


def only_run(project: Project) -> Path:
    [folder] = [p for p in (project.path / ".harness" / "runs").iterdir() if "-demo-" in p.name]
    return folder


def test_killed_in_a_tool_that_reads(project: Project) -> None:
    """SIGKILL of the harness: nothing of the old attempt lives on beside the new one, and there is one receipt."""
    project.tool("slow", 'echo $$ >> pids; if [ -e go ]; then echo done; else exec sleep 600; fi')
    project.skill(tools="slow")
    model = project.script([reply(call("slow")), finish("so")])
    child = start_command(project, "run", "demo", "go", "-m", model)
    wait_for(project.path / "pids")
    child.kill()
    child.wait()
    (project.path / "go").touch()
    more = project.resume(only_run(project))
    assert (more.stop.name, more.spawned) == ("passed", ["slow"])
    assert [e["data"]["outcome"] for e in more.of("tool.end")] == ["cut", "done"]
    old = Path("/proc", (project.path / "pids").read_text().split()[0], "stat")
    assert not old.exists() or old.read_text().rsplit(")", 1)[1].split()[0] == "Z"
    child.communicate()


@pytest.mark.parametrize(("signals", "outcome"), [((signal.SIGINT,), "done"), ((signal.SIGINT,) * 2, "cut"),
                                                  ((signal.SIGTERM,), "cut")])  # fmt: skip
def test_interrupted(project: Project, signals: tuple[signal.Signals, ...], outcome: str) -> None:
    """Once: what runs comes to its end. Twice, or SIGTERM: it is killed. Exit 130, and resumed it goes on."""
    loop = "i=0; while [ $i -lt 10 ] && ! [ -e go ]; do sleep 0.1; i=$((i+1)); done"
    project.tool("slow", f"echo x >> began; {loop}; echo d")
    project.skill(tools="slow")
    model = project.script([reply(call("slow"), call("slow", "--help")), finish("so")])
    child = start_command(project, "run", "demo", "go", "-m", model)
    wait_for(project.path / "began")
    for number in signals:
        child.send_signal(number)
        time.sleep(0.05)
    out, err = child.communicate(timeout=30)
    assert (child.returncode, out) == (130, b""), err
    folder = only_run(project)
    events = follow(folder)
    assert [e["data"]["outcome"] for e in events if e["kind"] == "tool.end" and e["op"] == 1] == [outcome]
    last = events[-1]
    assert (last["kind"], last["data"]["stop"], last["data"]["exit"]) == ("run.end", "interrupted", 130)
    (project.path / "go").touch()
    more = project.resume(folder)
    assert (more.stop.name, more.answer, len(more.spawned)) == ("passed", "so", 1 if outcome == "cut" else 0)


def test_interrupted_in_a_tool_that_writes(project: Project) -> None:
    project.tool("slow", "echo x >> began; sleep 20", "@meta effect write")
    project.skill(tools="slow")
    kill_once(project, "began")
    ran = project.run([reply(call("slow")), finish("so")])
    assert (ran.stop.code, ran.ends()) == (130, [("slow", "FAILED")])
    project.cancel.level = 0
    more = project.resume(ran.folder)
    assert (more.stop.name, more.spawned) == ("unknown-outcome", [])


def test_interrupted_before_anything_was_started(project: Project) -> None:
    project.tool("a", "echo a", "@meta effect write")
    project.skill(tools="a")
    project.cancel.level = 1
    ran = project.run([reply(call("a")), finish("so")])
    assert (ran.stop.code, ran.spawned, [e["kind"] for e in ran.events]) == (130, [], ["run.start", "run.end"])
    project.cancel.level = 0
    assert project.resume(ran.folder).stop.name == "passed"


def test_interrupted_while_the_answer_is_judged(project: Project) -> None:
    """The verifier was cut: that is no rejection, and the answer is judged anew."""
    project.tool("a", "echo a")
    project.tool("check", "echo x >> began; [ -e go ] || sleep 20")
    project.skill(tools="a", verify="check")
    kill_once(project, "began")
    ran = project.run([finish("so")])
    assert (ran.stop.code, ran.of("verify")) == (130, [])
    project.cancel.level = 0
    (project.path / "go").touch()
    more = project.resume(ran.folder)
    assert (more.stop.name, [e["data"]["try"] for e in more.of("verify")]) == ("passed", [1])


def test_interrupted_in_a_worker(project: Project) -> None:
    project.tool("slow", "echo x >> began; [ -e go ] || sleep 20; echo slow")
    project.skill("helper", tools="slow")
    project.skill(tools="helper")
    kill_once(project, "began")
    ran = project.run([reply(call("helper", "go")), finish("so")], helper=[reply(call("slow")), finish("helped")])
    child = Ran(ran.stop, ran.child(), [])
    assert (ran.stop.code, child.end["stop"]) == (130, "interrupted")
    project.cancel.level = 0
    (project.path / "go").touch()
    more = project.resume(ran.folder)
    assert (more.stop.name, more.answer, more.spawned) == ("passed", "so", ["slow"])


def test_a_request_that_was_lost_is_sent_again(project: Project) -> None:
    project.tool("a", "echo a")
    project.skill(tools="a")
    ran = project.run([reply(call("a")), finish("so")])
    cut(ran, 2)
    assert ran.events[-1]["kind"] == "model.start"
    more = project.resume(ran.folder)
    assert (more.stop.name, [e["data"]["turn"] for e in more.of("model.start")]) == ("passed", [1, 1, 2])


def test_a_changed_skill_is_refused_until_it_is_accepted(project: Project) -> None:
    from harness.errors import HarnessError

    project.tool("a", "echo a")
    project.tool("b", "echo b")
    project.skill(tools="a b", deps="b: a")
    ran = project.run([reply(call("a")), reply(call("b")), finish("so"), finish("so")], budget="turns=1")
    project.tool("a", "echo another")
    before = (ran.folder / "events.jsonl").read_bytes()
    with pytest.raises(HarnessError, match="tool a: ") as caught:
        project.resume(ran.folder, budget="turns=9")
    assert caught.value.exit_code == 2 and (ran.folder / "events.jsonl").read_bytes() == before
    more = project.resume(ran.folder, budget="turns=9", accept=True)
    assert more.codes() == ["allow", "NOT_RELEASED"] and more.reasons()[-1] == "a was declared stale"
    assert [c["what"] for c in more.of("resume")[0]["data"]["changes"]] == ["tool a"]


def test_the_command_that_is_named_keeps_what_was_said(project: Project) -> None:
    """Without the model it would go on under the old one."""
    from harness.errors import HarnessError

    project.skill()
    ran = project.run([{"fail": {"reason": "overloaded", "retry_after": 3600}}])
    assert ran.stop.name == "waiting"
    other = project.file("other.yaml", json.dumps({"harness-script": "1", "replies": [finish("no"), finish("so")]}))
    said: dict[str, Any] = {"model": (f"scripted:{other}", "-m"), "budget": "turns=9", "deny": ("nothing",)}
    command = f"harness resume {ran.folder.name} -m scripted:{other} -b turns=9 --deny nothing "
    with pytest.raises(HarnessError) as early:
        project.resume(ran.folder, accept=True, **said)
    assert early.value.fix == f"sooner: {command}--accept-changes --now"
    with pytest.raises(HarnessError) as changed:
        project.resume(ran.folder, now=True, **{**said, "deny": ()})
    assert changed.value.fix.endswith(f"{command.replace('--deny nothing ', '')}--accept-changes --now")
    assert project.resume(ran.folder, accept=True, now=True, **{**said, "deny": ()}).stop.name == "passed"


def test_another_model_is_named_whole(project: Project) -> None:
    """What a person decides upon is not cut where two models still look alike."""
    from harness.errors import HarnessError

    project.skill()
    ran = project.run([reply({"ask": "which?"}), finish()])
    old, new = f"scripted:{project.path}/script.yaml", f"scripted:{project.path}/script.yaml\n  skill: a → b"
    with pytest.raises(HarnessError) as caught:
        project.resume(ran.folder, model=(new, "-m"))
    shown = new.replace("\n", "\\n")
    assert f"model: {old} → {shown}" in caught.value.message and caught.value.message.count("\n") == 1


def test_nothing_is_left_running_when_the_journal_breaks(project: Project) -> None:
    """The disk is full: no more starts, what runs comes to its end, and the run can be resumed as it lies there."""
    from harness.errors import JournalError

    project.tool("slow", 'sleep 0.5; echo over > over')
    project.tool("quick", "echo quick")
    project.skill(tools="slow quick")
    real = project.io.write
    wrote = threading.Event()

    def write(fd: int, data: bytes) -> int:
        if b'"kind":"tool.end"' in data and not (project.path / "room").exists():
            wrote.set()
            raise OSError(28, "No space left on device")
        return real(fd, data)

    project.io.write = write  # type: ignore[method-assign]
    with pytest.raises(JournalError) as caught:
        project.run([reply(call("slow"), call("quick")), finish("so")])
    assert caught.value.exit_code == 3 and wrote.is_set()
    assert (project.path / "over").exists()
    (project.path / "room").touch()
    project.cancel.level = 0
    more = project.resume(only_run(project))
    assert (more.stop.name, more.answer) == ("passed", "so")


def test_another_commit_is_said_and_recorded_and_the_run_goes_on(project: Project) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@x.io", "-c", "commit.gpgsign=false")
        return subprocess.check_output(["git", *who, *words], cwd=project.path, text=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    project.skill()
    ran = project.run([reply({"ask": "which?"}), finish()])
    git("commit", "-q", "--allow-empty", "-m", "two")
    project.say(ran.folder, "answer", text="this")
    session = sessions.resume(project.world(), catalog_of(project.path), ran.folder, None, Options(None, ""))
    try:
        head = git("rev-parse", "HEAD").strip()
        assert [warning for warning in session.warnings if f"now at {head[:12]}" in warning]
        assert (session.run.state.git or {})["head"] == head
        assert session.go().name == "passed"
    finally:
        session.close()
