"""A cloned repository through the command: nothing of it acts, or counts, before a person has answered for it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import termios
from pathlib import Path

import pytest

from harness.events.line import at_text
from harness.runs.begin import LABELS
from harness.view.text import width
from tests.cage_world import needs_full, needs_landlock
from tests.command import COMMAND, AtTerminal, clean_env, events, first_line, newest, owning, waits
from tests.journal_lines import START
from tests.past_runs import past_run
from tests.run_files import add_pipeline, add_skill, add_tool, calls, finish, script

ESCAPES = "\x1b[2J\x1b]52;c;aGk=\x07\u202eevil"


class Clone:
    """A repository that was just cloned, and the person who cloned it: their home knows nothing of it."""

    def __init__(self, root: Path) -> None:
        self.path, self.home = root / "clone", root / "home"
        (self.path / ".git").mkdir(parents=True)
        self.home.mkdir()
        add_tool(self.path, "look", 'touch "$HARNESS_OUT/x"; echo seen')
        add_tool(self.path, "send", "echo sent", "# @meta effect external\n# @meta net queue.corp:443\n# @env TOKEN t")
        more = "hooks: {Stop: x}\nmetadata:\n  inputs: |\n    log <PATH> which\n"
        add_skill(self.path, "work", "look send Read", more)
        script(self.path, calls(["look"]), finish("done"))

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "harness"

    def run(self, *words: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """A command without a terminal."""
        return subprocess.run(
            [*COMMAND, *words], cwd=cwd or self.path, env=clean_env(self.home, **env), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, start_new_session=True,
        )  # fmt: skip

    def at_terminal(self, *words: str, columns: int = 100, lines: int = 60, **env: str) -> AtTerminal:
        """The same at a terminal of this size."""
        found = AtTerminal(*COMMAND, *words, cwd=self.path, HOME=str(self.home), **env)
        size = lines.to_bytes(2, "little") + columns.to_bytes(2, "little") + b"\0\0\0\0"
        fcntl.ioctl(found.fd, termios.TIOCSWINSZ, size)
        return found

    def says(self, key: str, *words: str, **size: int) -> tuple[int, str]:
        """The command's code and what was seen, when this key is the answer."""
        found = self.at_terminal(*words, **size)
        found.until("> ")
        found.keys(key)
        return found.end()

    def own(self, project: Path | None = None) -> None:
        """As if the person had said that it is their own work."""
        owning(self.home, project or self.path)

    def runs(self) -> list[Path]:
        return list((self.path / ".harness" / "runs").glob("2*"))

    def policy(self, text: str) -> None:
        path = self.home / ".config" / "harness" / "policy.yaml"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(f"version: 1\n{text}\n")


WORK = ("run", "work", "go", "-m", "scripted:script.yaml")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path)


def asks(clone: Clone, *words: str) -> subprocess.CompletedProcess[str]:
    done = clone.run(*words)
    assert done.returncode == 5 and "harness trust" in done.stderr, (done.returncode, done.stderr)
    assert not clone.runs(), "nothing was begun"
    return done


# Case 25 of skills-and-tools.md.
def test_case_25_a_fresh_clone_runs_once_a_person_trusts_it_and_asks_again_after_one_byte(clone: Clone) -> None:
    done = asks(clone, *WORK)
    assert str(clone.path) in done.stderr and "bin/look" in done.stderr
    code, seen = clone.says("y", "trust")
    assert code == 0 and "bin/look" in seen and "program" in seen
    assert clone.run(*WORK).returncode == 0
    with (clone.path / "bin" / "look").open("a") as file:
        file.write("#")
    again = clone.run(*WORK)
    assert again.returncode == 5 and "has changed since you trusted it" in again.stderr and "bin/look" in again.stderr
    assert len(clone.runs()) == 1


@pytest.mark.parametrize("words", [("--no-input",), ("CI",)])
def test_nobody_is_asked_who_said_not_to(clone: Clone, words: tuple[str, ...]) -> None:
    env = {"CI": "1"} if words == ("CI",) else {}
    flags = words if words != ("CI",) else ()
    code, seen = clone.at_terminal(*WORK, *flags, columns=300, **env).end()
    assert code == 5 and "nobody can be asked here" in seen and not clone.runs()


def test_the_first_run_shows_what_it_would_use_and_asks_once(clone: Clone) -> None:
    code, seen = clone.says("y", *WORK)
    assert code == 0, seen
    for text in (str(clone.path), "to run: skill work", "skills/work", "bin/look read", "bin/send external",
                 "network queue.corp:443", "secret TOKEN", "inputs: log PATH", "Read", "hooks of other clients",
                 "2 tools, 1 read, 1 external", "[n] no"):  # fmt: skip
        assert text in seen
    code, seen = clone.at_terminal(*WORK).end()
    assert code == 0 and "trust it" not in seen, "asked once"


@pytest.mark.parametrize("key", ["n", "\r", "\x04", "\x03"])
def test_no_is_what_enter_means(clone: Clone, key: str) -> None:
    code, seen = clone.says(key, *WORK)
    assert code == 5 and "nothing was run" in seen
    assert not clone.runs() and not (clone.state / "trust.json").exists()


def test_another_key_asks_again_and_what_was_typed_before_does_not_count(clone: Clone) -> None:
    found = clone.at_terminal(*WORK)
    os.write(found.fd, b"y")
    found.until("> ")
    found.keys("x")
    found.until("> ", 2)
    found.keys("n")
    assert found.end()[0] == 5 and not clone.runs()


def test_a_terminal_that_goes_away_is_no_answer(clone: Clone) -> None:
    found = clone.at_terminal(*WORK)
    found.until("> ")
    found.hang_up()
    assert found.process.wait(30) != 0 and not clone.runs()


def test_the_question_fits_into_45_columns(clone: Clone) -> None:
    add_tool(clone.path, "a-tool-whose-name-is-longer-than-many-a-line-here", "exit 0")
    _, seen = clone.says("n", "trust", columns=45)
    text = seen.split("> ")[0]
    assert max(width(line.rstrip("\r")) for line in text.split("\n")) <= 45
    assert "y trust it" in text and "[n] no" in text


def test_a_long_question_is_paged_so_that_nothing_leaves_the_screen_unseen(clone: Clone) -> None:
    for n in range(40):
        add_tool(clone.path, f"tool-{n}", "exit 0")
    found = clone.at_terminal("trust", lines=20)
    found.until("more lines")
    found.keys(" ", after=0.1)
    found.until("more lines", 2)
    found.keys("q", after=0.1)
    found.until("> ")
    found.keys("n")
    assert found.end()[0] == 5


def test_hostile_headers_and_names_are_shown_escaped(clone: Clone) -> None:
    (clone.path / "bin" / "send").write_text(
        f"#!/bin/sh\n# @describe {ESCAPES}\n# @meta effect external\n# @meta net {ESCAPES}\n# @env X{ESCAPES}\n"
    )
    folder = clone.path / "skills" / f"w{ESCAPES}"
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\ndescription: \"x\"\nallowed-tools: send 'Bash({ESCAPES[-5:]})'\n---\nDo.\n")
    _, seen = clone.says("n", "trust")
    done = clone.run("trust")
    for text in (seen, done.stderr):
        assert "\x1b" not in text and "\u202e" not in text and "\x07" not in text
    assert "\\x1b[2J" in seen and "\\u202e" in seen


def test_a_headers_words_cannot_pass_for_a_line_of_the_question(clone: Clone) -> None:
    add_skill(clone.path, "two", "look", 'license: "x\\n    [n] no\\n> y"\nmetadata:\n  inputs: |\n    a text\n')
    _, seen = clone.says("n", "trust")
    assert seen.count("[n] no") == 1


# Only this run.
@needs_full
def test_only_this_run_is_confined_and_remembers_nothing_for_the_next(clone: Clone) -> None:
    code, seen = clone.says("o", *WORK)
    assert code == 0, seen
    assert events(newest(clone.path), "tool.start")[0]["data"]["level"] == "full", "a plain read has landlock else"
    assert clone.run(*WORK).returncode == 5


@needs_landlock
@pytest.mark.parametrize("text", ["sandbox: {require: none}", "sandbox: {unconfined: {look: it needs the device}}"])
def test_A22_what_the_user_lowered_lowers_nothing_for_it(clone: Clone, text: str) -> None:
    clone.policy(text)
    code, seen = clone.says("o", *WORK)
    assert code == 0, seen
    assert events(newest(clone.path), "tool.start")[0]["data"]["level"] in ("landlock", "full")


def test_only_this_run_goes_on_without_a_question_while_nothing_changed(clone: Clone) -> None:
    script(clone.path, {"calls": [{"ask": {"question": "well?"}}]}, finish("done"))
    asked = clone.at_terminal(*WORK)
    asked.until("> ")
    asked.keys("o")
    asked.until("well?")
    asked.keys("\x04")
    assert asked.end()[0] == 10
    found = newest(clone.path)
    said = clone.run("answer", found.name, "1", "yes", "--resume")
    assert said.returncode == 0, said.stderr
    assert clone.run("resume", found.name, "more").returncode != 5
    with (clone.path / "bin" / "look").open("a") as file:
        file.write("#")
    assert clone.run("resume", found.name, "more", "--accept-changes").returncode == 5


def test_a_directory_that_brings_nothing_is_asked_nothing(clone: Clone, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = clone.run("tools", "run", "make-incident", "--out", "incident", cwd=tmp_path / "empty")
    assert done.returncode == 0, done.stderr
    assert not (clone.state / "trust.json").exists()
    asks(clone, "tools", "run", "look")


# Whatever starts something of the project asks; whatever only looks does not.
STARTS = [
    ("run", "work", "go", "--agent"), ("run", "./skills/work", "-m", "none"), ("tools", "run", "look"),
    ("tools", "run", "--skill", "work", "look"), ("pipeline", "bin/chain"), ("tools", "run", "chain"),
    ("prompt", "why", "-m", "scripted:script.yaml"),
]  # fmt: skip


@pytest.mark.parametrize("words", STARTS, ids=" ".join)
def test_whatever_starts_something_asks(clone: Clone, words: tuple[str, ...]) -> None:
    add_pipeline(clone.path, "chain", "  a: {run: [look]}\n")
    if words[0] == "prompt":
        assert clone.run(*words).returncode == 0, "nothing of the project is used"
        shutil.rmtree(clone.path / ".harness" / "runs")
        (clone.path / ".harness" / "config.yaml").write_text("models: {cheap: none}\n")
    asks(clone, *words)


LOOKS = [
    ("skills",), ("skills", "show", "work"), ("skills", "check", "--static"), ("tools",), ("tools", "show", "look"),
    ("tools", "check"), ("tools", "run", "look", "--help"), ("pipeline", "--graph", "bin/chain"), ("runs",),
    ("pipeline", "bin/chain", "--help"), ("trust", "--list"),
]  # fmt: skip


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_looking_needs_no_trust_and_starts_nothing(clone: Clone, words: tuple[str, ...]) -> None:
    add_pipeline(clone.path, "chain", "  a: {run: [look]}\n")
    (clone.path / ".harness").mkdir()
    for name in ("config.yaml", "policy.yaml"):
        (clone.path / ".harness" / name).write_text("no: {such: key}\n")
    add_tool(clone.path, "look", "touch ../RAN; touch RAN")
    done = clone.run(*words)
    assert done.returncode == 0, done.stderr
    assert not list(clone.path.parent.rglob("RAN"))


GOES_ON = [
    ("resume", "RUN"), ("step", "RUN"), ("step", "RUN", "look"), ("finish", "RUN", "x"), ("read", "RUN", "op:1"),
    ("answer", "RUN", "yes", "--resume"),
]  # fmt: skip


@pytest.mark.parametrize("words", GOES_ON, ids=" ".join)
def test_going_on_with_a_run_asks_too(clone: Clone, words: tuple[str, ...]) -> None:
    clone.own()
    script(clone.path, {"calls": [{"ask": {"question": "well?"}}]}, finish("done"))
    assert clone.run(*WORK).returncode == 10
    run = newest(clone.path)
    before = (run / "events.jsonl").read_bytes()
    clone.run("trust", "--revoke")
    done = clone.run(*(run.name if word == "RUN" else word for word in words))
    assert done.returncode == 5 and "harness trust" in done.stderr, done.stderr
    assert (run / "events.jsonl").read_bytes() == before


def test_A22_what_a_run_that_came_along_holds_as_approved_is_not_done(clone: Clone, tmp_path: Path) -> None:
    """The repository ships a run in which somebody has approved a call of a shipped tool, and nothing else to trust."""
    call = ("tools", "run", "replay-request", "--request-id", "req-1", "--source", "incident")
    source = Clone(tmp_path / "theirs")
    shutil.rmtree(source.path / "bin")
    assert source.run(*call).returncode == 5
    run = newest(source.path)
    digest = events(run, "decide")[0]["data"]["digest"]
    approve = ("approve", run.name, "1", "--digest", digest)
    assert source.run(*approve).returncode == 0
    came = shutil.copytree(source.path, clone.path, dirs_exist_ok=True) / ".harness" / "runs" / run.name
    before = {path: path.read_bytes() for path in came.rglob("*") if path.is_file()}
    for words in (("resume", run.name), ("fork", run.name), ("resume", "last"), (*approve, "--resume")):
        done = clone.run(*words)
        assert (words[0] == "fork") is (done.returncode == 0) and (words[0] == "fork") is ("forked" in done.stderr)
        assert words[0] == "fork" or (done.returncode == 5 and "not begun here" in done.stderr), done.stderr
    assert {path: path.read_bytes() for path in before} == before
    code, seen = clone.says("n", "resume", run.name)
    assert code == 5 and "run: it was not begun here" in seen
    assert "tool.start" not in {event["kind"] for event in events(came)}


@pytest.mark.parametrize("link", [False, True])
def test_A22_a_parked_run_that_came_along_goes_on_only_after_an_answer(clone: Clone, link: bool) -> None:
    """Its journal is written by whoever wrote the repository; the folder of runs may be a link out of the project."""
    clone.says("y", "run", *WORK[1:])
    at = clone.path.parent / "beside" if link else clone.path / ".harness" / "runs"
    until = {"stop": "waiting", "exit": 75, "ops": [], "until": at_text(START - 60), "hint": "h"}
    skill = str(clone.path / "skills" / "work" / "SKILL.md")
    model = {"ref": "none", "source": "-m", "mark": "abcdef", "labels": LABELS}
    run = past_run(at, 1, until, "park", skill="work", path=skill, model=model, cwd=str(clone.path))
    if link:
        shutil.rmtree(clone.path / ".harness" / "runs")
        (clone.path / ".harness" / "runs").symlink_to(at)
    length = len(events(run))
    for words in (("resume", run.name), ("resume", run.name, "--now"), ("step", run.name, "look"), ("runs", "wake")):
        done = clone.run(*words)
        assert done.returncode == 5 and len(events(run)) == length, (words, done.stderr)
    code, seen = clone.says("y", "resume", run.name, "-m", "scripted:script.yaml", "--accept-changes")
    assert code == 0 and "run: it was not begun here" in seen and events(run)[-1]["data"]["stop"] == "passed", seen


def test_a_run_that_a_person_brought_here_goes_on_with_their_word_alone(clone: Clone, tmp_path: Path) -> None:
    clone.says("y", "run", *WORK[1:])
    [run] = clone.runs()
    shutil.rmtree(clone.state / "logs")
    assert clone.run("resume", run.name, "go").returncode == 5
    assert clone.run("resume", run.name, "go", "--moved").returncode == 5, "not with the word of whoever has a shell"
    found = clone.at_terminal("resume", run.name, "go", "--moved")
    assert "not begun here" not in found.end()[1]


def test_ones_own_run_goes_on_after_a_kill_wherever_it_was_begun(clone: Clone, tmp_path: Path) -> None:
    """A folder of which nothing is recorded, and a run that had no time to say anything but that it began."""
    folder = tmp_path / "empty"
    folder.mkdir()
    clone.run("tools", "run", "make-incident", "--out", "incident", cwd=folder)
    goal = ("run", "oncall-triage", "why", "-i", "source=incident", "-m", "none")
    started = subprocess.Popen(
        [*COMMAND, *goal], cwd=folder, env=clean_env(clone.home), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    run = waits(lambda: next((p for p in folder.glob(".harness/runs/*oncall*") if first_line(p)), None))
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    done = clone.run("resume", run.name, cwd=folder)
    assert done.returncode == 0, done.stderr


def test_a_run_whose_time_has_come_waits_for_a_person_first(clone: Clone) -> None:
    clone.own()
    model = script(clone.path, {"fail": {"reason": "unavailable"}, "repeat": 5}, finish("done"), name="late.yaml")
    assert clone.run("run", "work", "go", "-m", model).returncode == 75
    [run] = clone.runs()
    clone.run("trust", "--revoke")
    done = clone.run("resume", run.name, "--now")
    assert done.returncode == 5 and "is not trusted" in done.stderr and events(run)[-1]["kind"] == "park"


# Settings and policy of the project.
def test_settings_are_none_before_somebody_believes_them(clone: Clone) -> None:
    (clone.path / ".harness").mkdir()
    (clone.path / ".harness" / "config.yaml").write_text("output: json\nskills: {paths: [team]}\n")
    add_skill(clone.path / "team", "deep", "look")
    done = clone.run("skills")
    assert done.stdout.startswith("NAME") and "deep" in done.stdout, "where skills are is no setting that acts"
    assert "config.yaml is not read" in done.stderr and "harness trust" in done.stderr
    _, seen = clone.says("y", "run", "deep", "-m", "scripted:script.yaml")
    assert "settings: .harness/config.yaml sets output, skills.paths" in seen and '"stop": "passed"' in seen
    assert clone.run("skills").stdout.startswith("{")


GRANTS = [
    ("config.yaml", "endpoints: {}\n"), ("config.yaml", "{"),
    ("policy.yaml", "version: 1\nnetwork: {hosts: {look: any}}\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), GRANTS)
def test_A22_what_grants_is_not_even_read_before_the_answer_and_refused_after_it(
    clone: Clone, name: str, text: str
) -> None:
    (clone.path / ".harness").mkdir()
    (clone.path / ".harness" / name).write_text(text)
    asks(clone, *WORK)
    code, seen = clone.says("y", *WORK)
    assert code == 2 and name in seen and not clone.runs()


def test_settings_that_say_nothing_ask_nothing(clone: Clone, tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    (folder / ".harness").mkdir(parents=True)
    (folder / ".harness" / "config.yaml").write_text("# output: json\n")
    assert clone.run("tools", "run", "make-incident", "--out", "incident", cwd=folder).returncode == 0
    (folder / ".harness" / "config.yaml").write_text("parallel: 2\n")
    assert clone.run("tools", "run", "make-incident", "--out", "incident", cwd=folder).returncode == 5


@pytest.mark.parametrize("name", ["config.yaml", "policy.yaml"])
def test_a_policy_or_settings_that_changed_ask_again(clone: Clone, name: str) -> None:
    (clone.path / ".harness").mkdir()
    text = {"config.yaml": "parallel: 2\n", "policy.yaml": "version: 1\n"}[name]
    (clone.path / ".harness" / name).write_text(text)
    assert clone.says("y", *WORK)[0] == 0
    (clone.path / ".harness" / name).write_text(f"{text}# more\n")
    done = clone.run(*WORK)
    assert done.returncode == 5 and name in done.stderr and "bin/look" not in done.stderr


# What has changed since.
def test_a_change_asks_once_and_shows_what_differs(clone: Clone) -> None:
    clone.says("y", "trust")
    add_tool(clone.path, "look", "echo other")
    (clone.path / "skills" / "work" / "notes.md").write_text("a new one\n")
    (clone.path / "skills" / "work" / "notes.md").chmod(0o755)
    code, seen = clone.says("y", *WORK, columns=200)
    assert code == 0
    for text in ("has changed since you trusted it", "changed: bin/look", "+echo other", "-touch", "+a new one"):
        assert text in seen
    assert clone.run(*WORK).returncode == 0


@pytest.mark.parametrize("change", ["mode", "gone", "link", "asset", "evals"])
def test_every_kind_of_change_of_a_skill_is_one(clone: Clone, change: str) -> None:
    folder = clone.path / "skills" / "work"
    for name in ("notes.md", "assets/data.json", "evals/accept/a.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x\n")
    assert clone.says("y", *WORK)[0] == 0
    if change == "mode":
        (folder / "notes.md").chmod(0o755)
    elif change == "gone":
        (folder / "notes.md").unlink()
    elif change == "link":
        (folder / "notes.md").unlink()
        (folder / "notes.md").symlink_to("assets/data.json")
    else:
        (folder / ("assets/data.json" if change == "asset" else "evals/accept/a.md")).write_text("y\n")
    done = clone.run(*WORK)
    assert done.returncode == 5 and "has changed" in done.stderr


def test_what_is_used_indirectly_is_pinned_too(clone: Clone) -> None:
    add_tool(clone.path, "deep", "echo deep")
    add_tool(clone.path, "judge", "exit 0")
    add_pipeline(clone.path, "chain", "  a: {run: [deep]}\n")
    add_tool(clone.path / "skills" / "helper", "own", "echo own", to="scripts")
    add_skill(clone.path, "helper", "own")
    add_skill(clone.path, "work", "chain helper", "metadata:\n  verify: judge\n")
    assert clone.says("y", *WORK)[0] in (0, 1)
    for path in ("bin/deep", "bin/judge", "bin/chain", "skills/helper/scripts/own", "skills/helper/SKILL.md"):
        before = (clone.path / path).read_bytes()
        with (clone.path / path).open("a") as file:
            file.write("#\n")
        done = clone.run(*WORK)
        assert done.returncode == 5 and path in done.stderr, path
        (clone.path / path).write_bytes(before)
    add_tool(clone.path, "other", "echo other")
    assert clone.run(*WORK).returncode != 5, "what it does not use is no matter"


def test_a_tool_that_comes_to_stand_before_a_shipped_one_asks(clone: Clone) -> None:
    run = ("tools", "run", "list-services")
    assert clone.run(*run).returncode != 5
    add_tool(clone.path, "list-services", "echo mine")
    shutil.rmtree(clone.path / ".harness", ignore_errors=True)
    asks(clone, *run)


def test_what_was_changed_while_it_was_asked_about_is_not_trusted(clone: Clone) -> None:
    found = clone.at_terminal(*WORK)
    found.until("> ")
    add_tool(clone.path, "look", "echo other")
    found.keys("y")
    code, seen = found.end()
    assert code == 5 and "changed while you were asked" in seen and not clone.runs()
    assert clone.run(*WORK).returncode == 5


# Whose a folder is.
def test_another_copy_is_another_folder(clone: Clone) -> None:
    assert clone.says("y", *WORK)[0] == 0
    other = clone.path.with_name("copy")
    shutil.copytree(clone.path, other, symlinks=True)
    assert clone.run(*WORK, cwd=other).returncode == 5
    shutil.move(clone.path, clone.path.with_name("away"))
    shutil.move(other, clone.path)
    assert clone.run(*WORK).returncode == 5, "another folder at the same place"


def test_a_skill_named_by_its_path_belongs_to_the_folder_it_lies_in(clone: Clone, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    (mine / ".git").mkdir(parents=True)
    clone.own(mine)
    done = clone.run("run", str(clone.path / "skills" / "work"), "-m", f"scripted:{clone.path}/script.yaml", cwd=mine)
    assert done.returncode == 5 and f"{clone.path} is not trusted" in done.stderr
    clone.own()
    done = clone.run("run", str(clone.path / "skills" / "work"), "-m", f"scripted:{clone.path}/script.yaml", cwd=mine)
    assert done.returncode == 0, done.stderr


def test_a_persons_own_skills_need_none_but_what_they_take_from_the_project_does(clone: Clone) -> None:
    place = clone.home / ".claude"
    add_skill(place, "mine", "own")
    add_tool(place / "skills" / "mine", "own", "echo own", to="scripts")
    script(clone.path, calls(["own"]), finish("done"), name="own.yaml")
    assert clone.run("run", "mine", "-m", "scripted:own.yaml").returncode == 0
    add_tool(clone.path, "own", "echo theirs")
    done = clone.run("run", "mine", "-m", "scripted:own.yaml")
    assert done.returncode == 5 and "bin/own" in done.stderr


# The command itself.
def test_ones_own_work_never_asks(clone: Clone) -> None:
    code, seen = clone.says("y", "trust", "--own")
    assert code == 0 and "own: nothing is pinned" in seen
    assert clone.run(*WORK).returncode == 0
    add_tool(clone.path, "look", "echo other")
    add_skill(clone.path, "work", "look", "metadata:\n  budget: turns=3\n")
    assert clone.run(*WORK).returncode == 0
    assert "own" in clone.run("trust").stdout, "and is told without a question"
    assert clone.run("trust", "--own").returncode == 0, "said already"


@pytest.mark.parametrize("words", ["", "--own", "--own --json", "--own --no-input", f"--digest {'0' * 64}"])
def test_whoever_has_no_terminal_trusts_nothing_and_is_handed_no_way_around(
    clone: Clone, words: str
) -> None:
    """An agent with a shell cannot say it for the person, and no error tells it the digest to say it with."""
    done = clone.run("trust", *words.split())
    told = done.stdout + done.stderr
    assert done.returncode == 5 and "a person" in told and "at a terminal" in told and "--own" not in told, told
    assert not re.search("[0-9a-f]{64}", told) and not (clone.state / "trust.json").exists()
    assert "--own" not in asks(clone, *WORK).stderr


@pytest.mark.parametrize("key", ["n", "\r", "\x03", "\x04", "o\r"])
def test_ones_own_work_is_said_with_y_alone(clone: Clone, key: str) -> None:
    found = clone.at_terminal("trust", "--own")
    found.until("> ")
    for count, one in enumerate(key, 1):
        found.until("> ", count)
        found.keys(one)
    code, seen = found.end()
    assert code == 5 and "you said no" in seen and not (clone.state / "trust.json").exists()


def test_where_nobody_can_be_asked_the_digest_of_what_a_person_saw_is_the_word(clone: Clone, tmp_path: Path) -> None:
    _, seen = clone.says("y", "trust")
    [digest] = re.findall("[0-9a-f]{64}", seen)
    ci = Clone(tmp_path / "ci")
    for wrong in ("0" * 64, digest[:12], ""):
        assert ci.run("trust", "--digest", wrong, CI="true").returncode == 5
    assert ci.run("trust", "--digest", digest, CI="true").returncode == 0
    assert ci.run(*WORK, CI="true").returncode == 0
    add_tool(ci.path, "look", "echo other")
    assert ci.run(*WORK).returncode == 5
    assert ci.run("trust", "--digest", digest).returncode == 5, "it names one state of the files"
    mine = Clone(tmp_path / "mine")
    mine.own()
    assert digest in mine.run("trust").stderr, "of one's own work, too"


BROKEN = [
    (".harness/policy.yaml", "version: 1\nrules:\n  - {tool: look, verdict: allow}\n", ":3"),
    (".harness/policy.yaml", "version: 1\nbudgets: {calls: 1}\n", ":2"),
    (".harness/policy.yaml", "version: 1\nrules:\n- tool: look\n  verdict: deny\n  match: [{args: [--x]}]\n", ":5"),
    (".harness/config.yaml", "parallel: 2\nendpoints: {}\n", ":2"),
    ("skills/work/policy.yaml", "version: 1\nsecrets: {TOKEN: {tools: [send], from: env}}\n", ":2"),
]


@pytest.mark.parametrize("words", [("trust",), WORK], ids=["trust", "run"])
@pytest.mark.parametrize(("name", "text", "line"), BROKEN)
def test_what_cannot_be_used_is_not_kept_as_trusted(
    clone: Clone, name: str, text: str, line: str, words: tuple[str, ...]
) -> None:
    (clone.path / name).parent.mkdir(exist_ok=True)
    (clone.path / name).write_text(text)
    code, seen = clone.says("y", *words, columns=300)
    assert code == 2 and f"{name}{line}" in seen and "fix:" in seen, seen
    assert not (clone.state / "trust.json").exists() and not clone.runs()
    (clone.path / name).unlink()
    assert clone.says("y", *words)[0] == 0


def test_no_at_the_command_trusts_nothing_and_only_this_run_is_no_answer_there(clone: Clone) -> None:
    found = clone.at_terminal("trust")
    found.until("> ")
    found.keys("o")
    found.until("> ", 2)
    found.keys("n")
    code, seen = found.end()
    assert code == 5 and "only this run" not in seen and not (clone.state / "trust.json").exists()


def test_what_is_trusted_is_listed_and_taken_back(clone: Clone, tmp_path: Path) -> None:
    assert "harness trust" in clone.run("trust", "--list").stderr
    clone.says("y", "trust")
    (tmp_path / "mine").mkdir()
    clone.own(tmp_path / "mine")
    listed = clone.run("trust", "--list").stdout
    assert f"{clone.path}  3 files" in listed and "own" in listed
    told = json.loads(clone.run("trust", "--list", "--json").stdout)["projects"]
    assert [one["state"] for one in told] == ["3 files", "own"] and "bin/look" in told[0]["files"]
    assert clone.run("trust", "--revoke").returncode == 0
    assert clone.run(*WORK).returncode == 5
    shutil.rmtree(tmp_path / "mine")
    assert "gone or replaced" in clone.run("trust", "--list").stdout
    assert clone.run("trust", str(tmp_path / "mine"), "--revoke").returncode == 0
    assert clone.run("trust", "--list").stdout == ""


@pytest.mark.parametrize("words", [("--own", "--list"), ("nowhere",), ("--own", "nowhere")])
def test_what_cannot_be_meant_is_refused(clone: Clone, words: tuple[str, ...]) -> None:
    done = clone.run("trust", *words)
    assert done.returncode == 2 and "fix:" in done.stderr


def test_a_damaged_record_stops_what_would_act_and_nothing_that_looks(clone: Clone) -> None:
    clone.own()
    (clone.state / "trust.json").write_text("{")
    done = clone.run(*WORK)
    assert done.returncode == 2 and "what is trusted cannot be read" in done.stderr and not clone.runs()
    assert clone.run("skills").returncode == 0
    assert clone.run("trust", "--own").returncode == 2


def test_a_record_in_the_repository_counts_for_nothing(clone: Clone) -> None:
    clone.own()
    for place in (".local/state/harness", ".harness", ".harness/state"):
        (clone.path / place).mkdir(parents=True, exist_ok=True)
        shutil.copy(clone.state / "trust.json", clone.path / place / "trust.json")
    clone.run("trust", "--revoke")
    asks(clone, *WORK)


def test_checks_run_nothing_of_it_until_it_is_trusted(clone: Clone) -> None:
    add_tool(clone.path, "judge", "exit 1")
    add_skill(clone.path, "work", "look", "metadata:\n  verify: judge\n")
    for words, note in ((("tools", "check", "--exec"), "help-not-run"), (("skills", "check"), "verifier-not-run")):
        assert note in clone.run(*words).stdout
    clone.says("y", "trust")
    for words, note in ((("tools", "check", "--exec"), "help-not-run"), (("skills", "check"), "verifier-not-run")):
        assert note not in clone.run(*words).stdout
    add_tool(clone.path, "judge", "exit 2")
    assert "verifier-not-run" in clone.run("skills", "check").stdout
    assert "judge --help was not run" in clone.run("tools", "check", "--exec").stdout


def test_words_of_a_project_reach_a_model_only_while_they_are_as_they_were(clone: Clone) -> None:
    (clone.path / "AGENTS.md").write_text("Use British English.\n")
    assert clone.says("o", *WORK)[0] == 0
    assert "project" not in events(newest(clone.path))[0]["data"]
    _, seen = clone.says("y", *WORK)
    assert "words: AGENTS.md" in seen and "project" in events(newest(clone.path))[0]["data"]
    (clone.path / "AGENTS.md").write_text("Obey.\n")
    assert clone.run(*WORK).returncode == 5
