"""Six secrets given away in every form: what is left of them in a run, and what is said of it. Whole runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.events.line import parse
from harness.prompt.observation import clean as clean_text
from tests.cage_world import Caged, make
from tests.loop_world import Person, Ran, Said, call, finish, reply
from tests.planting import HOWS, SECRETS, every_form, left_below, left_in, policy_for, spill


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    made = make(tmp_path, monkeypatch)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    made.private("policy.yaml", policy_for("spill", "spill-more"))
    made.file("bin/spill", spill("read"), executable=True)
    made.file("bin/spill-more", spill("write"), executable=True)
    made.skill(tools="spill spill-more")
    return made


def leaks(ran: Ran) -> set[tuple[str, str, str]]:
    return {(e["data"]["name"], e["data"]["tool"], e["data"]["sink"]) for e in ran.of("secret.leak")}


def clean(ran: Ran) -> None:
    """Nothing is left in the run's folder, and every line of its journal is still one object."""
    assert left_below([ran.folder.parent]) == {}
    lines = (ran.folder / "events.jsonl").read_bytes().splitlines()
    assert [parse(line)["seq"] for line in lines] == list(range(1, len(lines) + 1))


@pytest.mark.parametrize("tool", ["spill", "spill-more"], ids=["direct", "shim"])
@pytest.mark.parametrize("how", HOWS)
def test_a49_what_a_tool_gives_away_reaches_no_record_and_is_reported(project: Caged, tool: str, how: str) -> None:
    ran = project.run([reply(call(tool, how)), finish()])
    clean(ran)
    sink = {"keep": "file", "complain": "stderr", "say why": "stderr", "raise": "stderr"}.get(how, "stdout")
    assert {(name, tool, sink) for name in SECRETS} <= leaks(ran)
    assert ran.stop.name == "passed"
    assert [end for end in ran.ends() if end[0] == tool] == [(tool, "FAILED" if sink == "stderr" else "OK")]


@pytest.mark.parametrize("effect", ["read", "write"])
def test_a49_a_coloured_secret_is_masked_before_its_colour_is_taken_out(project: Caged, effect: str) -> None:
    """As `grep --color` prints it: what the model is shown has no colour, and would hold the whole value."""
    show = """import os
value = os.environ["API_TOKEN"]
for one in ("\\x1b[31m", "\\u200b", "\\x00", "\\x1b]0;title\\x07"):
    print("token=" + value[:6] + one + value[6:], flush=True)
open(os.environ["HARNESS_OUT"] + "/kept", "w").write(value[:6] + "\\x1b[1m" + value[6:])"""
    project.private("policy.yaml", policy_for("spill", "spill-more", "show"))
    header = f"#!/usr/bin/env python3\n# @describe x\n# @meta effect {effect}\n# @env API_TOKEN!\n"
    project.file("bin/show", header + show, executable=True)
    project.skill(tools="show")
    ran = project.run([reply(call("show")), finish()])
    for path in ran.folder.rglob("*"):
        text = path.read_text("utf-8", "replace") if path.is_file() else ""
        for raw in (text, text.encode().decode("unicode_escape", "replace") if path.suffix == ".jsonl" else ""):
            assert SECRETS["API_TOKEN"] not in clean_text(raw), path
    assert {("API_TOKEN", "show", "stdout"), ("API_TOKEN", "show", "file")} <= leaks(ran)


def test_a49_the_model_sees_the_names_in_place_of_the_values(project: Caged) -> None:
    model = [reply(call("spill", "print")), finish("seen")]
    model[1]["expect"] = {"contains": [f"[secret:{name}]" for name in SECRETS]}
    assert project.run(model).stop.name == "passed"


def test_a49_a_run_killed_before_its_outputs_were_recorded_leaves_nothing_when_it_goes_on(project: Caged) -> None:
    ran = project.run([reply(call("spill-more", "keep"), call("spill-more", "print")), finish()])
    cut = (ran.folder / "events.jsonl").read_bytes()
    first_end = cut.index(b'"kind":"secret.leak"')
    start = cut.rindex(b"\n", 0, first_end) + 1
    (ran.folder / "events.jsonl").write_bytes(cut[:start])
    (ran.folder / "ops" / "2" / "1" / "out").write_text(every_form())
    (ran.folder / "ops" / "1" / "1" / "work" / "more").write_text(every_form())
    (ran.folder / "ops" / "1" / "1" / "work" / ".secret-API_TOKEN-00").write_text(SECRETS["API_TOKEN"])
    again = project.resume(ran.folder)
    clean(again)
    assert again.stop.name == "passed"
    assert {(name, "spill-more", "stdout") for name in SECRETS} <= leaks(again)
    assert not list(again.folder.rglob(".secret-*"))


def test_a49_a_goal_an_input_an_answer_and_a_reply_are_masked(project: Caged) -> None:
    text = every_form()
    replies = [
        reply({"read": {"path": text}}, text=f"I think {text}"),
        reply(call("spill", text), call(text, text), {"ask": text}),
        reply(call("spill-more", "print", "--x", text)),
        finish(text),
    ]
    project.person = Person(replies=[text])
    ran = project.run(replies, goal=f"go {text}")
    clean(ran)
    assert left_in(ran.answer.encode()) == [] and left_in(project.person.asked[0].encode()) == []
    assert {(name, "user", "goal") for name in SECRETS} <= leaks(ran)
    assert {(name, "model", "reply") for name in SECRETS} <= leaks(ran)
    assert {(name, "user", "words") for name in SECRETS} <= leaks(ran)


def test_a49_a_file_that_is_read_is_masked_and_stays_as_it_is(project: Caged) -> None:
    path = project.file("notes.txt", every_form())
    ran = project.run([reply({"read": "notes.txt"}), finish()])
    clean(ran)
    assert path.read_text() == every_form()
    assert {(name, "read", "read") for name in SECRETS} <= leaks(ran)


def test_a49_a_skill_that_holds_a_secret_tells_the_model_its_name(project: Caged) -> None:
    project.skill(tools="spill", body=f"Use {SECRETS['API_TOKEN']}.")
    ran = project.run([{**finish("x"), "expect": {"contains": ["Use [secret:API_TOKEN]."]}}])
    assert ran.stop.name == "passed"


def test_a50_a_placeholder_stays_literal_and_a_value_never_comes_into_an_argv(project: Caged) -> None:
    project.tool("show", 'printf "%s\\n" "$@"', "@arg words*  any")
    project.skill(tools="show")
    said = ["${secrets.API_TOKEN}", "$API_TOKEN", "[secret:API_TOKEN]", f"x{SECRETS['API_TOKEN']}y"]
    project.file("template.txt", "${secrets.API_TOKEN}")
    ran = project.run([reply(call("show", *said), {"read": "template.txt"}), finish()], allow=["show"])
    [decided] = [e["data"]["argv"] for e in ran.of("decide") if e["data"]["effect"] != "read" or e["op"] == 1][:1]
    assert decided == [*said[:3], "x[secret:API_TOKEN]y"]
    clean(ran)


def test_a50_the_store_of_secrets_is_not_read(project: Caged) -> None:
    path = project.private("secrets/API_TOKEN", SECRETS["API_TOKEN"])
    ran = project.run([reply({"read": str(path)}, {"read": os.path.relpath(path, project.path)}), finish()])
    assert ran.codes() == ["DENIED", "DENIED"]


def test_a51_tool_path_and_destination_are_never_masked(project: Caged, monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of a secret is also a tool's name, a folder's and a receiver's."""
    monkeypatch.setenv("API_TOKEN", "postgres")
    project.tool("postgres-send", 'echo "$@"', "@option --to! <EMAIL> x\n@option --file <PATH> x\n"
                 "@option --body x\n@meta effect external\n@meta dest --to")  # fmt: skip
    project.file("postgres/a.txt", "x")
    project.skill(tools="postgres-send")
    project.person = Person([Said("allow")])
    words = ["--to", "ann@postgres.org", "--file", "postgres/a.txt", "--body", "about postgres"]
    ran = project.run([reply(call("postgres-send", *words), {"read": "postgres/a.txt"}), finish()])
    [asked] = project.person.shown
    assert asked["tool"] == "postgres-send" and asked["path"].endswith("bin/postgres-send")
    assert asked["argv"] == [*words[:5], "about [secret:API_TOKEN]"]
    assert ran.ends() == [("read", "OK"), ("postgres-send", "OK")]


def test_a_worker_and_a_pipeline_are_masked_like_the_run_above_them(project: Caged) -> None:
    text = SECRETS["API_TOKEN"]
    project.skill("helper", tools="spill")
    project.stages("chain", "first: {run: [spill, print]}\nsecond: {run: [spill, '${first}']}", "@meta effect read")
    project.skill(tools="helper chain")
    helper = [reply(call("spill", "print")), finish(f"it is {text}")]
    ran = project.run([reply(call("helper", f"find {text}"), call("chain")), finish(text)], helper=helper)
    assert left_below([ran.folder.parent]) == {}
    children = [ran.child(0), ran.child(1)]
    assert all(b'"kind":"secret.leak"' in (child / "events.jsonl").read_bytes() for child in children)


def test_a_secret_that_was_changed_on_the_way_is_masked_by_its_new_value(project: Caged) -> None:
    project.tool("rotate", f"printf fresh-value-of-it > {project.private('secrets/API_TOKEN', 'stale-value')}; echo ok",
                 "@meta effect write")  # fmt: skip
    text = policy_for("spill", "use").replace("API_TOKEN: {tools: [spill, use], from: env}",
                                              "API_TOKEN: {tools: [use], from: file}")  # fmt: skip
    project.private("policy.yaml", text)
    project.tool("use", 'echo "$API_TOKEN"', "@meta effect read\n@env API_TOKEN!  x")
    project.skill(tools="rotate use")
    ran = project.run([reply(call("rotate")), reply(call("use")), finish()])
    assert "fresh-value-of-it" not in (ran.folder / "events.jsonl").read_text()
    assert ("API_TOKEN", "use", "stdout") in leaks(ran)


def test_a52_what_a_run_keeps_is_private_and_so_is_what_was_masked(project: Caged) -> None:
    ran = project.run([reply(call("spill-more", "keep"), call("spill-more", "print")), finish()])
    found = {path: path.stat().st_mode & 0o777 for path in ran.folder.rglob("*") if not path.is_symlink()}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o600}
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert found[ran.folder / "ops" / "2" / "1" / "out"] == 0o600
