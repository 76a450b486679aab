"""Runs as people start them, confined, with real tools that note their effects; and whoever kills parts of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.events.io import IO
from tests import journal_invariants as must
from tests.command import ROOT, clean_env, newest, owning
from tests.journal_site import state_of
from tests.torture_site import PRINTED, SCOUT, speak

VICTIMS = ("harness", "group", "shim", "tool")
MOST = 30
"""Commands after which a run must have come to its end."""
DEAD = -9
PARKED = (5, 10, 11)
TOOL = "#!/bin/sh\n# @describe {name}\n{args}{meta}{body}\n"
NOTED = 'echo "{name} $1 $HARNESS_OP_ID" >> ledger'
ONCE = f'grep -qs "{{name}} $1 $HARNESS_OP_ID" ledger || {NOTED}'
BUSY = '[ -e "busy-$(basename "$HARNESS_OP_ID")" ] || { : > "busy-$(basename "$HARNESS_OP_ID")"; exit 75; }\n'
BODIES = {
    "look": ("effect read", "echo looked"),
    "big": ("effect read", "head -c 5000 /dev/zero | tr '\\0' 7"),
    "slow": ("effect read\n# @meta timeout 90", "sleep 0.1; echo slow"),
    "note": ("effect write\n# @meta repeat keyed", f"sleep 0.05; {ONCE}; sleep 0.05; echo noted"),
    "store": ("effect write\n# @meta repeat keyed", f"{ONCE}; sleep 0.05; echo stored"),
    "busy": ("effect write\n# @meta repeat keyed", f"{BUSY}{ONCE}; echo got it"),
    "book": (
        "effect external\n# @meta repeat queryable\n# @meta query asked {op}",
        f"sleep 0.05; {NOTED}; sleep 0.05; echo booked",
    ),
    "asked": ("effect read", 'grep -qs " $1$" ledger && echo booked'),
    "mail": ("effect external\n# @meta repeat opaque", f"sleep 0.05; {NOTED}; sleep 0.05; echo mailed"),
    "pay": ("effect money\n# @meta repeat opaque", f"sleep 0.05; {NOTED}; sleep 0.05; echo paid"),
    "check": ("effect read", 'test "$(cat "$HARNESS_ANSWER")" = "all is well"'),
}
SKILL = """---
name: work
description: Does everything once. Use for tests.
allowed-tools: look big slow note busy book mail pay scout
metadata:
  requires: pay
  verify: check
---
Do everything.
"""
SCRIPT = """harness-script: 1
replies:
  - calls: [{run: [look]}, {run: [note, a]}, {run: [big]}]
  - calls: [{run: [book, b]}, {run: [mail, c]}, {run: [slow]}]
  - calls: [{run: [busy, d]}]
  - calls: [{run: [pay, e]}]
  - calls: [{run: [scout, look, around]}]
  - calls: [{finish: all is well}]
skills:
  scout:
    replies:
      - calls: [{run: [note, g]}, {run: [look]}]
      - calls: [{finish: scouted}]
"""
VICTIM = """
import os, signal, sys, threading, time
from pathlib import Path
from harness.events.io import IO
from harness.executor import proc

left, victim, delay, until, blind = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4], sys.argv[5]
write = IO.write

def line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\\0")
    except OSError:
        return []

def ours():
    here = str(Path.cwd()).encode()
    return [pid for pid in proc.pids() if pid != os.getpid() and proc.op_id_of(pid) and
            any(here in word for word in line(pid))]

def kind(pid):
    words = line(pid)
    if words[:2] == [b"/bin/sh", b"-c"] and b"harness-shim" in words:
        return "shim"
    script = len(words) > 1 and words[0].endswith(b"sh") and b"/bin/" in words[1]
    return "tool" if script else ""

def noted():
    try:
        return until in Path("ledger").read_text()
    except OSError:
        return False

def strike():
    time.sleep(delay)
    while until and not noted():
        time.sleep(0.001)
    if victim in ("shim", "tool"):
        limit = time.monotonic() + 3
        while time.monotonic() < limit:
            found = [pid for pid in ours() if kind(pid) == victim]
            if found:
                return proc.send(found[0], signal.SIGKILL)
            time.sleep(0.001)
        return
    if victim == "group":
        for pid in ours():
            proc.send(pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGSTOP if victim == "stop" else signal.SIGKILL)

def mortal(self, fd, data):
    global left
    done = write(self, fd, data)
    if data.startswith(b'{"v":1,'):
        left -= 1
        if not left:
            at_once = not delay and not until and victim not in ("shim", "tool")
            strike() if at_once else threading.Thread(target=strike, daemon=True).start()
    return done

IO.write = mortal
if blind:
    from harness.events import attempts
    attempts._word = lambda op: ""
sys.argv = ["harness", *sys.argv[6:]]
from harness.cli.main import main
sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class Blow:
    """Kill `victim` so many seconds after the process wrote so many events (0: never), or once this was an effect."""

    events: int = 0
    victim: str = "harness"
    delay: float = 0.0
    until: str = ""


@dataclass
class Yard:
    """A project, its run, and what came of it."""

    root: Path
    codes: list[int] = field(default_factory=list)
    known: dict[str, bytes] = field(default_factory=dict)
    blind: bool = False

    def command(self, blow: Blow, *words: str) -> subprocess.Popen[str]:
        """One command in a process that is killed as said."""
        blind = "blind" if self.blind else ""
        how = [str(blow.events or 10**9), blow.victim, str(blow.delay), blow.until, blind]
        env = clean_env(owning(self.root.parent / "home", self.root), PYTHONPATH=str(ROOT))
        return subprocess.Popen(
            [sys.executable, "-c", VICTIM, *how, *words], cwd=self.root, env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def live(self, *blows: Blow) -> int:
        """Begin the run and go on with it, a blow falling on each process as long as there are some; its last exit."""
        left = list(blows)
        while len(self.codes) < MOST:
            folder = self.folder()
            words = ("resume", folder.name) if folder else ("run", "work", "x", "-m", "scripted:script.yaml", *FLAGS)
            process = self.command(left.pop(0) if left else Blow(), *words)
            _, err = process.communicate(timeout=120)
            assert "Traceback" not in err, err
            self.codes.append(process.returncode)
            self.look()
            if process.returncode not in (DEAD, *PARKED):
                return process.returncode
            folder = self.folder()
            if folder is not None and (ended := state_of(folder).end):
                return int(ended["exit"])  # the blow fell after the last line
            if process.returncode in PARKED and folder is not None:
                speak(folder, IO(), self.tells, self.root.parent / "home/.local/state/harness/logs")
        raise AssertionError(f"the run goes on for ever: {self.codes}")

    def folder(self) -> Path | None:
        runs = self.root / ".harness" / "runs"
        begun = [run for run in runs.glob("*") if (run / "events.jsonl").is_file()] if runs.is_dir() else []
        return newest(self.root) if any(must.whole_events((r / "events.jsonl").read_bytes()) for r in begun) else None

    def look(self) -> None:
        """Nothing that was in a journal at the last look is lost or changed now."""
        for path in (self.root / ".harness" / "runs").glob("*/events.jsonl"):
            raw = path.read_bytes()
            must.events_stay(must.whole_events(self.known.get(path.parent.name, b"")), raw)
            self.known[path.parent.name] = raw

    def tells(self, op_id: str, tool: str) -> dict[str, str]:
        """What somebody says who looks into the ledger."""
        ledger = self.root / "ledger"
        happened = ledger.exists() and any(line.endswith(f" {op_id}") for line in ledger.read_text().splitlines())
        return {"word": "happened", "output": PRINTED[tool]} if happened else {"word": "did-not-happen"}

    def effects(self) -> Counter[str]:
        """How often each call of a tool had its effect."""
        ledger = self.root / "ledger"
        lines = ledger.read_text().splitlines() if ledger.exists() else []
        return Counter(line.rpartition(" ")[0] for line in lines)

    def end(self) -> dict[str, Any]:
        """The data of the run's last event."""
        folder = self.folder()
        assert folder is not None
        state = state_of(folder)
        last = state.end or state.park
        assert last is not None
        return last

    def check(self, code: int) -> None:
        """What must hold however it was killed."""
        folder = self.folder()
        assert folder is not None
        must.one_writer_at_a_time((folder / "events.jsonl").read_bytes())
        must.blobs_are_there((folder / "events.jsonl").read_bytes(), folder)
        end = self.end()
        assert end["exit"] == code and end["stop"], (end, self.codes)
        twice = {call: count for call, count in self.effects().items() if count > 1}
        assert not twice, (twice, self.codes)
        assert (code, set(self.effects())) == (0, EFFECTS), (end, self.effects(), self.codes)


TAKE_NOTHING = ("look", "big", "slow", "check")
FLAGS = ("--allow", "book", "--allow", "mail")
EFFECTS = {"note a", "book b", "mail c", "busy d", "pay e", "note g"}


def yard(place: Path, blind: bool = False) -> Yard:
    """A fresh project in `place`, with a home beside it."""
    root = place / "project"
    (root / ".harness").mkdir(parents=True)
    (place / "home").mkdir()
    for name, (meta, body) in BODIES.items():
        path = root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        args = "" if name in TAKE_NOTHING else "# @arg what=x <WHAT>  of what\n"
        path.write_text(TOOL.format(name=name, args=args, meta=f"# @meta {meta}\n", body=body.replace("{name}", name)))
        path.chmod(0o755)
    for name, text in (("work", SKILL), ("scout", SCOUT)):
        (root / "skills" / name).mkdir(parents=True)
        (root / "skills" / name / "SKILL.md").write_text(text)
    (root / "script.yaml").write_text(SCRIPT)
    return Yard(root, blind=blind)
