"""One project whose tools, model and person give away six secrets, through every command that shows or keeps a run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.command import COMMAND, AtTerminal, clean_env, events, harness, home_of, newest
from tests.fake_anthropic import KEY, Answer, FakeAnthropic, finishes, runs, text, use
from tests.planting import SECRETS, every_form, policy_for, spill
from tests.run_files import add_skill, add_tool, calls, finish, script

MODEL = "anthropic:claude-haiku-5-5"
BUG = """
import sys, harness.loop.turn as turn
def broken(run):
    value = {value!r}
    raise KeyError(value + {text!r})
turn.ask_model = broken
from harness.cli.main import main
sys.exit(main())
"""


def sinks_of(folder: Path) -> dict[str, bytes]:
    """Give everything away in a new project; all that was shown, sent and kept, by where."""
    project = project_in(folder)
    found = dict(_driven(project))
    run = newest(project)
    found |= dict(_shown(project, run))
    found |= dict(_at_terminals(project))
    found |= dict(_spoken(project))
    found |= dict(_broken(project))
    return found | _kept(project)


def project_in(folder: Path) -> Path:
    project = folder / "p"
    (project / "bin").mkdir(parents=True)
    (project / ".harness").mkdir()
    (home_of(project) / ".config" / "harness" / "policy.yaml").write_text(policy_for("spill", "spill-more", "send"))
    for name, effect in (("spill", "read"), ("spill-more", "write")):
        (project / "bin" / name).write_text(spill(effect))
        (project / "bin" / name).chmod(0o755)
    add_tool(project, "send", "echo sent; exit 0", "# @meta effect external\n# @option --body x")
    add_skill(project, "work", "spill spill-more send", "metadata:\n  inputs: |\n    log\n")
    (project / "notes.txt").write_text(every_form())
    return project


def _driven(project: Path) -> Iterator[tuple[str, bytes]]:
    """A run with a provider's model, to its end."""
    values = " ".join(SECRETS.values())
    answers = [
        Answer([text(f"I know {values}"), runs(1, "spill", "print"), runs(2, "spill-more", "keep")]),
        Answer([runs(3, "spill", "raise"), runs(4, "spill-more", "large"), use(5, "read", path="notes.txt")]),
        Answer([runs(6, "spill-more", "say why"), runs(7, "spill", values)]),
        finishes(8, f"It is {values}"),
    ]
    with FakeAnthropic(*answers) as fake:
        fake.masks = {value: f"[secret:{name}]" for name, value in SECRETS.items()}
        words = ["run", "work", f"find {every_form()}", "-i", f"log={values}", "-m", MODEL, "--record", "rec.yaml"]
        done = harness(*words, "-v", cwd=project, **SECRETS, **fake.env)
        assert (done.returncode, fake.refused) == (0, []), done.stderr[-2000:]
        yield "run: stdout", done.stdout.encode()
        yield "run: stderr", done.stderr.encode()
        yield "model: request bodies", b"\n".join(fake.raw)
    for form in ("json", "stream-json"):
        said = script(project, calls(["spill", "print"]), finish(every_form()), name=f"{form}.yaml")
        done = harness("run", "work", every_form(), "-m", said, "--output", form, cwd=project, **SECRETS)
        assert done.returncode == 0, done.stderr[-2000:]
        (project / f"{form}.yaml").unlink()
        yield f"run --output {form}", (done.stdout + done.stderr).encode()


def _shown(project: Path, run: Path) -> Iterator[tuple[str, bytes]]:
    """What the commands that look say of it, with the secrets known and without."""
    numbers = [str(n) for n in range(1, len(events(run)) + 1)]
    words = [[], ["--json"], ["--output", "stream-json"], ["--graph"], ["--cost"], ["--as-script"], ["-F"]]
    words += [["--prompt", "1"], *(["--event", n] for n in numbers)]
    for env in (SECRETS, {}):
        shown = [harness("show", run.name, *more, cwd=project, **env) for more in words]
        said = [one.stdout + one.stderr for one in shown]
        yield f"show, {'secrets known' if env else 'unknown'}: {len(said)} forms", "".join(said).encode()
    listed = [harness("runs", *more, cwd=project) for more in ([], ["--json"])]
    yield "runs list", "".join(one.stdout for one in listed).encode()


def _at_terminals(project: Path) -> Iterator[tuple[str, bytes]]:
    """The live view, and an approval in it."""
    with FakeAnthropic(
        Answer([text(f"thinking of {' and '.join(SECRETS.values())} for a while"), runs(1, "spill", "drip")]),
        Answer([text("now send it"), runs(2, "send", "--body", " ".join(SECRETS.values()))]),
        finishes(3, every_form()),
    ) as fake:
        fake.masks = {value: f"[secret:{name}]" for name, value in SECRETS.items()}
        env = {**SECRETS, **fake.env, "TERM": "xterm-256color"}
        at = AtTerminal(*COMMAND, "run", "work", "x", "-m", MODEL, cwd=project, **env)
        at.until("[n]")
        at.keys("y")
        code, _ = at.end()
        assert code == 0, at.seen.decode()[-3000:]
        assert b"[secret:API_TOKEN]" in at.seen
        yield "terminal: live view, approval", at.seen


def _spoken(project: Path) -> Iterator[tuple[str, bytes]]:
    """What a person says from another process, while it lies in the inbox."""
    said = script(project, calls({"ask": "which?"}), finish("ok"), name="ask.yaml")
    assert harness("run", "work", "x", "-m", said, cwd=project, **SECRETS).returncode == 10
    run = newest(project)
    done = harness("answer", run.name, every_form(), cwd=project, **SECRETS)
    yield "answer: printed", (done.stdout + done.stderr).encode()
    yield "inbox", b"".join(path.read_bytes() for path in (run / "inbox").iterdir())
    done = harness("resume", run.name, f"more {every_form()}", "-v", cwd=project, **SECRETS)
    yield "resume: printed", (done.stdout + done.stderr).encode()
    done = harness("run", every_form(), cwd=project, **SECRETS)
    assert done.returncode == 2
    yield "error message", (done.stdout + done.stderr).encode()


def _broken(project: Path) -> Iterator[tuple[str, bytes]]:
    """A bug in the middle of a run, with a secret in a local and in the exception: its report and its traceback."""
    said = script(project, finish("ok"), name="bug.yaml")
    code = BUG.format(value=SECRETS["API_TOKEN"], text=every_form())
    (project.parent / "bug.py").write_text(code)
    command = [sys.executable, str(project.parent / "bug.py"), "-vv", "run", "work", "x", "-m", said, "--json"]
    env = clean_env(home_of(project), **SECRETS)
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 3 and "Traceback" in done.stderr, done.stderr
    # the line of code that raised is not the harness's own: the test itself wrote the values into it
    yield "bug: stdout, stderr, traceback", (done.stdout + done.stderr).encode()
    reports = list((home_of(project) / ".local" / "state" / "harness" / "log").iterdir())
    yield "bug: report", b"".join(path.read_bytes() for path in reports)


def _kept(project: Path) -> dict[str, bytes]:
    """Every file that was written, by its kind; the state folder too. The workspace's own file is not ours."""
    found: dict[str, bytes] = {}
    for place, kept in ((project / ".harness", True), (home_of(project) / ".local", False)):
        for path in sorted(place.rglob("*")):
            parts = path.relative_to(place).parts
            name = f"kept: {parts[2] if len(parts) > 2 else 'index, names'}" if kept else "kept: state folder"
            body = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            link = str(path.readlink()).encode() if path.is_symlink() else b""
            found[name] = found.get(name, b"") + str(path.relative_to(place)).encode() + link + body
    found["recorded script"] = (project / "rec.yaml").read_bytes()
    assert KEY.encode() not in b"".join(found.values())
    assert json.loads((newest(project) / "events.jsonl").read_bytes().splitlines()[0])["kind"] == "run.start"
    return found
