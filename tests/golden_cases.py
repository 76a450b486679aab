"""How the golden runs were made: by commands, as a person gives them, in a project of small tools."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.runs.flags import Options
from harness.runs.session import start_skill
from tests.command import harness, home_of, newest, start, waits
from tests.fake_anthropic import Answer, FakeAnthropic, fails, finishes, text, thinks, use
from tests.fake_openai import FakeOpenAI, Play
from tests.fake_openai import call as says
from tests.loop_world import Project, call, reply
from tests.pictures import png
from tests.run_files import add_pipeline, add_skill, add_tool, calls, finish, make_project, script
from tests.skill_files import catalog_of

Case = Callable[[Path], dict[str, str] | None]
HAIKU = "anthropic:claude-haiku-5-5"
SECRET = "tr0ub4dor-and-3-horses"
ORDER = (
    "metadata:\n  requires: report\n  verify: check\n  tool-dependencies: |\n"
    "    search: look keep\n    report: search | look\n"
)


def run(project: Path, skill: str, *replies: Any, code: int = 0, more: tuple[str, ...] = (), **env: str) -> Path:
    """A run with these replies, or of the model that a first text names; its folder."""
    model = replies[0] if replies and isinstance(replies[0], str) else script(project, *replies)
    done = harness("run", skill, "find", "out", "why", "-m", model, *more, cwd=project, **env)
    assert done.returncode == code, (done.returncode, done.stderr)
    return newest(project)


def go_on(project: Path, run: Path, *words: str, code: int = 0, **env: str) -> None:
    """`harness resume`, and what it exits with."""
    done = harness("resume", run.name, *words, cwd=project, **env)
    assert done.returncode == code, (done.returncode, done.stderr)


def said(project: Path, *words: str) -> None:
    """A command of a person's that must do."""
    done = harness(*words, cwd=project)
    assert done.returncode == 0, done.stderr


def ordered(project: Path) -> None:
    """Refused until what it waits for is there; an answer too early; a blob; a verifier that rejects once."""
    make_project(project)
    add_tool(project, "search", 'seq -f "line %g of $2" 1 600')
    meta = "# @meta effect write\n# @meta produces report.txt"
    add_tool(project, "report", 'echo "$2" > report.txt; echo written', meta)
    add_tool(project, "check", 'grep -q cause || { echo "name a cause"; exit 1; }')
    add_skill(project, "ordered", "look keep search report", ORDER)
    run(project, "ordered", calls(["search"], ["look"], text="First I look."), finish("too early"), calls(["keep"]),
        calls(["search", "--x", "app"]), calls({"read": {"path": "op:6", "lines": "590-600"}}, ["report", "--x", "2"]),
        finish("it is so"), {"text": "the cause is known"})  # fmt: skip


def stale(project: Path) -> None:
    """A repeat with another result re-opens what was built on the first."""
    make_project(project)
    add_tool(project, "count", 'echo x >> counted; wc -l < counted')
    add_tool(project, "build", "echo built", "# @meta effect write")
    order = "metadata:\n  requires: build\n  tool-dependencies: |\n    build: count\n"
    add_skill(project, "built", "count build", order)
    run(project, "built", calls(["count"]), calls(["build"]), calls(["count"]), finish("done"), calls(["build"]),
        finish("done again"))  # fmt: skip


def workers(project: Path) -> None:
    """Two workers at once, one of which fails, and one that is told to go on."""
    make_project(project)
    add_skill(project, "helper", "look")
    add_skill(project, "loser", "look")
    add_skill(project, "boss", "look helper loser", "metadata:\n  requires: helper\n")
    own = [calls(["helper", "look", "there"], ["loser", "lose"]), finish("helped")]
    model = {"harness-script": 1, "replies": own, "skills": {
        "helper": {"replies": [calls(["look", "--x", "5"]), finish("five")]},
        "loser": {"replies": [{"stop": "refusal", "text": "never"}]}}}  # fmt: skip
    (project / "family.yaml").write_text(json.dumps(model))
    run(project, "boss", "scripted:family.yaml")


def pipeline(project: Path) -> None:
    """A stage that fails, one that is skipped, one that runs instead; then another argument, and again."""
    make_project(project)
    add_tool(project, "need", '[ "$2" = 2 ] && echo "had $2" || { echo "not $2" >&2; exit 1; }')
    stages = """\
  a: {run: [look, --x, '1']}
  b: {run: [need, --x, '1'], needs: [a]}
  c: {run: [keep], needs: [b]}
  d: {run: [look, --x, '4'], needs: [a], when: "${a} == 'nothing'"}
"""
    add_pipeline(project, "steps", stages)
    done = harness("pipeline", "bin/steps", cwd=project)
    assert done.returncode == 1, done.stderr
    go_on(project, newest(project), "--set", "b.x=2")


def forked(project: Path) -> None:
    """Another way on from the middle of a run."""
    make_project(project)
    first = run(project, "work", calls(["look"], ["keep"]), calls(["look", "--x", "2"]), finish("one way"))
    second = [e["seq"] for e in map(json.loads, (first / "events.jsonl").open()) if e["kind"] == "model.start"][1]
    said(project, "fork", f"{first.name}@{second - 1}")
    script(project, {"text": "x"}, finish("another way"), name="other.yaml")
    fork = next(path for path in first.parent.glob("2*") if path != first)
    go_on(project, fork, "-m", "scripted:other.yaml", "--accept-changes")


def amended(project: Path) -> None:
    """A slot declared stale, a receipt by hand, another budget."""
    make_project(project)
    first = run(project, "strict", calls(["look"]), calls({"ask": {"question": "shall I?", "options": ["yes", "no"]}}),
                calls(["look"]), finish("looked twice"), code=10)  # fmt: skip
    said(project, "amend", first.name, "--stale", "look", "--why", "it was cut")
    said(project, "answer", first.name, "yes")
    go_on(project, first, "-b", "turns=30")


def redacted(project: Path) -> None:
    """A name that was taken out of a run: a text, and a whole blob."""
    make_project(project)
    add_tool(project, "tell", 'seq -f "Anna J. and %g" 1 600')
    add_skill(project, "telling", "tell")
    first = run(project, "telling", calls(["tell", "--x", "Anna J."]), finish("it was Anna J."))
    said(project, "runs", "redact", first.name, "--text", "Anna J.", "--why", "asked to be forgotten")


def approved(project: Path) -> None:
    """An approval, a denial, an answer, a word of the person's; each in a process of its own."""
    make_project(project)
    first = run(project, "work", calls(["act", "--x", "a"], ["act", "--x", "b"], ["look"]),
                calls({"ask": {"question": "which cluster?"}}), finish("acted"), code=5)  # fmt: skip
    said(project, "approve", first.name, "1", "--digest", digest_of(first, 1))
    said(project, "deny", first.name, "2", "--why", "not today")
    go_on(project, first, code=10)
    said(project, "answer", first.name, "the one in the north")
    go_on(project, first)
    script(project, *[{"text": "x"}] * 3, finish("hurried"))
    go_on(project, first, "now", "in", "a", "hurry")


def digest_of(run: Path, op: int) -> str:
    """What the person is asked to approve."""
    asks = (e for e in map(json.loads, (run / "events.jsonl").open()) if e["kind"] == "decide" and e["op"] == op)
    return str(next(asks)["data"]["digest"])


def unknown(project: Path) -> None:
    """An effect that may have happened: settled by a person, once as done and once as unknown."""
    make_project(project)
    first = run(project, "work", calls(["late"]), calls(["late", "--x", "2"]), calls(["late", "--x", "3"]),
                finish("who knows"), code=11, more=("--allow", "late"))  # fmt: skip
    said(project, "settle", first.name, "1", "happened", "--why", "I saw it")
    go_on(project, first, code=11)
    said(project, "settle", first.name, "2", "unknown")
    go_on(project, first)


def retried(project: Path) -> None:
    """A tool that is down twice; a model that is; a park with no time, and the resume from it."""
    make_project(project)
    add_tool(project, "shaky", 'echo x >> tries; [ "$(wc -l < tries)" -ge 3 ] || { echo down >&2; exit 75; }; echo up')
    add_skill(project, "patient", "shaky")
    first = run(project, "patient", calls(["shaky"]), *[{"fail": {"reason": "overloaded", "retry_after": 0}}] * 2,
                {"fail": {"reason": "unavailable"}, "repeat": 5}, finish("up"), code=75)  # fmt: skip
    go_on(project, first)


def stops(project: Path) -> None:
    """Every other way in which a run ends."""
    make_project(project)
    run(project, "work", {"stop": "refusal", "text": "no"}, code=1)
    run(project, "work", {"fail": {"reason": "auth"}}, code=4)
    run(project, "work", calls(["look"]), finish("x"), code=6, more=("-b", "turns=1"))
    run(project, "forced", calls(["act"]), finish("x"), code=7, more=("--deny", "act"))
    run(project, "work", calls(["look"], repeat="forever"), code=8)
    run(project, "strict", finish("x", repeat="forever"), code=9)
    run(project, "work", calls(["slow", "--x", "1"]), finish("x"), code=124, more=("-b", "seconds=0.5"))
    script(project, calls(["slow", "--x", "30"]), finish("x"))
    (project / "slow.pid").unlink()
    process = start("run", "work", "x", "-m", "scripted:script.yaml", cwd=project)
    waits((project / "slow.pid").read_text)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 130


def judged(project: Path) -> None:
    """Three checks fail, then one, then the model asks: fewer failing checks were once taken for no progress."""
    make_project(project)
    for name in ("cause", "place", "time"):
        add_tool(project, f"has-{name}", f'grep -q {name} || {{ echo "name the {name}"; exit 1; }}')
    add_skill(project, "judged", "look", "metadata:\n  verify: |\n    has-cause\n    has-place\n    has-time\n")
    run(project, "judged", finish("so"), finish("cause and place"), calls({"ask": "when was it?"}), code=10)


def killed(project: Path) -> None:
    """Killed in a read: the tail is torn, the attempt is cut, and the run goes on."""
    make_project(project)
    script(project, calls(["look"]), calls(["slow", "--x", "30"]), finish("slept"))
    process = start("run", "work", "x", "-m", "scripted:script.yaml", cwd=project)
    waits((project / "slow.pid").read_text)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    (project / "bin/slow").write_text((project / "bin/slow").read_text().replace('sleep "${2:-1}"', "true"))
    with (newest(project) / "events.jsonl").open("ab") as journal:
        journal.write(b'{"v":1,"seq":')
    go_on(project, newest(project), "--accept-changes")


def contexts(project: Path) -> None:
    """A history that grows over its limit, and another model at the end."""
    make_project(project)
    (home_of(project) / ".config/harness/config.yaml").write_text("models:\n  context: 5000\n")
    add_tool(project, "show", 'seq -f "line %g of $2" 1 250')
    add_skill(project, "long", "show")
    first = run(project, "long", *[calls(["show", "--x", f"w{n}"], text=f"look {n}") for n in range(6)],
                calls({"ask": {"question": "go on?"}}), code=10)  # fmt: skip
    said(project, "answer", first.name, "yes, do")
    script(project, *[{"text": "x"}] * 7, finish("done"), name="other.yaml")
    go_on(project, first, "-m", "scripted:other.yaml", "--accept-changes")


def agent(project: Path) -> None:
    """Another agent was the model."""
    make_project(project)
    add_skill(project, "ordered", "look keep", "metadata:\n  requires: keep\n  tool-dependencies: |\n    keep: look\n")
    opened = harness("run", "ordered", "find", "it", "--agent", cwd=project).stdout
    name = opened.split("\n", 1)[0].removeprefix("run ")
    for words, code in ((("step", name, "keep"), 2), (("step", name, "look"), 0), (("read", name, "op:2"), 0),
                        (("finish", name, "early"), 1), (("step", name, "keep"), 0), (("finish", name, "so"), 0)):
        assert harness(*words, cwd=project).returncode == code, words  # fmt: skip


def question(project: Path) -> None:
    """One question, by itself and as a stage of a pipeline, with a reply that had to be repaired."""
    make_project(project)
    model = script(project, {"text": "oom, I think"}, {"text": "oom"})
    done = harness("prompt", "which failure is this: ${inputs.log}", "-i", "log=killed", "--choice", "oom,disk",
                   "-m", model, cwd=project)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "oom\n"), done.stderr
    add_pipeline(project, "asking", "  a: {run: [look]}\n  b: {run: [harness, prompt, what is it], needs: [a]}\n")
    said = {"prompt": {"replies": [{"text": "a look"}]}}
    stage = {"harness-script": 1, "replies": [{"text": "unused"}], "skills": said}
    (project / "two.yaml").write_text(json.dumps(stage))
    done = harness("pipeline", "-m", "scripted:two.yaml", "bin/asking", cwd=project)
    assert done.returncode == 0, done.stderr


def given(project: Path) -> None:
    """A trusted project's own words, a file that the person pointed to, an input."""
    make_project(project)
    (project / "AGENTS.md").write_text("Use British English.\n" * 300)
    (project / "bin/notes.md").write_text("what is known\n")
    made = Project(project)
    made.facts = {"trusted": True, "page_verdict": lambda path: "stale"}
    model = made.script([reply(call("look")), reply({"finish": "so"})])
    here = Path.cwd()
    os.chdir(project)
    try:
        options = Options((model, "-m"), context=("bin/notes.md",))
        made._drive(start_skill(made.world(), catalog_of(project), "work", "find out", {"log": "a"}, options))
    finally:
        os.chdir(here)


def anthropic(project: Path) -> None:
    """Blocks of a provider, verbatim: thinking, an image, a block that nobody knows; prices, a cut and a retry."""
    make_project(project)
    (project / "picture.png").write_bytes(png())
    usage = {"input_tokens": 40, "cache_creation_input_tokens": 700, "cache_read_input_tokens": 99, "output_tokens": 30}
    looks = [thinks("what is it"), use(1, "read", path="picture.png"), use(2, "run", tool="look", args=[])]
    odd = [{"type": "odd_block", "field": [1, {"x": None}]}, text("I see."), use(3, "run", tool="look", args=["--y"])]
    with FakeAnthropic(
        Answer(looks, usage=usage), fails(529, "overloaded_error", retry_after="0"), Answer(odd),
        Answer([text("half a")], "max_tokens"), finishes(4, "a purple square"),
    ) as fake:
        run(project, "work", HAIKU, **fake.env)
        assert not fake.refused, fake.refused


def openai(project: Path) -> dict[str, str]:
    """The other format, with a call whose arguments are no JSON, and one that came as text."""
    make_project(project)
    spoken = Play('{"name": "run", "arguments": {"tool": "look", "args": ["--x", "2"]}}')
    plays = [Play("", [says("run", tool="look", args=[])]), Play("", [("run", "{broken")]), spoken, Play("it is so")]
    with FakeOpenAI(plays).serving() as fake:
        run(project, "work", f"openai:m@{fake.base}")
        return {fake.base: "http://127.0.0.1:1/v1"}


def program(project: Path) -> None:
    """A program as the model, which gives its own content back."""
    make_project(project)
    answers = project / "bin/model.py"
    answers.write_text(
        "#!/usr/bin/env python3\nimport json, sys\nturns = json.load(sys.stdin)['turns']\n"
        "call = {'verb': 'finish', 'arguments': {'answer': 'so'}} if len(turns) > 1 else "
        "{'verb': 'run', 'arguments': {'tool': 'look', 'args': []}}\n"
        "print(json.dumps({'text': 'hm', 'calls': [call], 'stop': 'calls', 'content': {'mine': len(turns)}}))\n"
    )
    answers.chmod(0o755)
    run(project, "work", "exec:bin/model.py", more=("-b", "usd=none"))


def leaked(project: Path) -> None:
    """A tool that gives a secret away."""
    make_project(project)
    add_tool(project, "spill", 'echo "it is $TOKEN"', "# @meta effect read\n# @env TOKEN  a secret")
    add_skill(project, "spilling", "spill")
    policy = home_of(project) / ".config/harness/policy.yaml"
    policy.write_text(policy.read_text() + "secrets:\n  TOKEN: {tools: [spill], from: env}\n")
    first = run(project, "spilling", calls(["spill"]), finish("spilt"), TOKEN=SECRET)
    assert not subprocess.run(["grep", "-r", SECRET, first], capture_output=True, check=False).stdout


CASES: dict[str, Case] = {
    "ordered": ordered, "stale": stale, "workers": workers, "pipeline": pipeline, "forked": forked, "amended": amended,
    "redacted": redacted, "approved": approved, "unknown": unknown, "retried": retried, "stops": stops,
    "judged": judged, "killed": killed, "contexts": contexts, "agent": agent, "question": question, "given": given,
    "anthropic": anthropic, "openai": openai, "program": program, "leaked": leaked,
}  # fmt: skip
