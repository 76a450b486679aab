"""Plays a stream of events into the live view on the terminal it runs on: `view_player.py SCENE [SPEED]`."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.view.live import Live
from harness.view.mode import terminal_size
from harness.view.plain import Plain
from harness.view.text import ASCII, UNICODE
from tests.view_events import CHILD, HOSTILE, Journal, call, finish, no_blobs

STAGES = {"diagnose-batch": [("classify", []), ("fetch-lines", ["classify"]), ("summarise", ["fetch-lines"])]}
SPEECH = "The pod that is not ready was killed twice since the last deploy, and its log ends with an error. "


class Player:
    """Sends what a journal holds, as it is made, to a view. A file that appears lets a step go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        columns, lines = terminal_size()
        self.view: Live | Plain = Plain(sys.stderr, no_blobs, ASCII)
        if columns >= 40 and lines >= 8:
            self.view = Live(sys.stderr, no_blobs, UNICODE, stages=lambda name: STAGES.get(name, []))
        self.sent: dict[str, int] = {}

    def send(self, *logs: Journal) -> None:
        for log in logs:
            for event in log.events[self.sent.get(log.run, 0) :]:
                self.view.event(event, log.run, log.depth)
            self.sent[log.run] = len(log.events)

    def wait(self, name: str) -> None:
        (self.folder / f"at-{name}").touch()
        until = time.monotonic() + 20
        while not (self.folder / f"go-{name}").exists() and time.monotonic() < until:
            time.sleep(0.02)


def triage(player: Player) -> None:
    log, child = Journal(), Journal(CHILD, 1)
    print("earlier\n" * 30, end="", file=sys.stderr)
    log.start()
    log.add("model.start", 0, turn=1)
    log.reply(1, [{"op": 1, "id": "c1", "verb": "read", "arguments": {"path": "skill:references/batch.md"}}], 1.2)
    log.allow(1, 1.2)
    log.end(1, 1.2, "line\n" * 12, ms=3)
    log.add("model.start", 1.3, turn=2)
    player.send(log)
    for word in (SPEECH * 8).split(" "):
        player.view.delta(word + " ")
    player.wait("speaks")
    calls = [call(2, "check-pods", "--ns", "shop"), call(3, "edit-file", "deploy/shop.yaml", "--lines", "80-95")]
    log.reply(2, calls, 2)
    for op, tool in ((2, "check-pods"), (3, "edit-file")):
        log.allow(op, 2, "write" if op == 3 else "read")
        log.begin(op, tool, 2)
    player.send(log)
    player.wait("both")
    changed = [{"path": "deploy/shop.yaml", "before": "a\nb\nc\n", "after": "a\nB\nc\nd\ne\n"}]
    log.end(3, 2.5, "edited\n", changed=changed)
    player.send(log)
    player.wait("one")
    log.end(2, 3, "", 75, class_="RETRYABLE", retry={"after": 1})
    log.begin(2, "check-pods", 4, try_=2)
    player.send(log)
    player.wait("retry")
    log.end(2, 5, '{"summary":"3 pods, 1 not ready"}', ms=400)
    log.add("model.start", 5, turn=3)
    log.reply(3, [call(5, "diagnose-batch", "--batch", "42")], 6, cost=None)
    log.allow(5, 6)
    log.begin(5, "diagnose-batch", 6, child=CHILD)
    child.start("diagnose-batch", 6)
    child.add("decide", 6, 1, verdict="allow", effect="read", repeat="pure", by="rule", call={"stage": "classify"})
    child.begin(1, "classify", 6)
    child.end(1, 7, '{"summary":"oom"}', ms=1100)
    child.add("decide", 7, 2, verdict="allow", effect="read", repeat="pure", by="rule", call={"stage": "fetch-lines"})
    child.begin(2, "fetch-lines", 7)
    player.send(log, child)
    player.view.delta(SPEECH)
    player.wait("child")
    child.end(2, 9, "", 1, err="no such batch\n", class_="FAILED")
    child.finish("failed", 1, 9)
    log.end(5, 9, "", 1, class_="FAILED", stop="failed")
    log.add("model.start", 9, turn=4)
    player.send(child, log)
    player.view.delta("The answer, told as it comes.")
    player.wait("answer")
    log.reply(4, [finish(6) | {"implicit": True}], 13, content=[{"type": "text", "text": "The answer."}])
    log.add("verify", 14, answer="The answer.", ok=True, checks=[], missing=[], try_=1)
    log.finish()
    player.send(log)
    player.view.suspend()
    print("The answer.", flush=True)
    player.view.close()


def hostile(player: Player) -> None:
    log = Journal()
    log.start(HOSTILE)
    log.add("model.start", 0, turn=1)
    player.send(log)
    player.view.delta(HOSTILE)
    player.wait("speaks")
    log.reply(1, [call(1, "show", HOSTILE), call(2, HOSTILE)], 1, content=[{"type": "text", "text": HOSTILE}])
    log.allow(1, 1)
    log.begin(1, "show", 1)
    player.send(log)
    player.wait("both")
    log.end(1, 2, json.dumps({"summary": HOSTILE}))
    log.add("decide", 2, 2, verdict="deny", code="DENIED", reasons=[HOSTILE], effect="read", by="rule")
    log.finish("error", 3, error=HOSTILE)
    player.send(log)
    player.view.close()


def stopped(player: Player) -> None:
    """Two tools run; one ends, then the run does."""
    log = Journal()
    log.start()
    log.reply(1, [call(1, "look"), call(2, "change"), call(3, "watch")])
    for op, effect in ((1, "read"), (2, "write"), (3, "read")):
        log.allow(op, 1, effect, "opaque" if effect == "write" else "pure")
        log.begin(op, "tool", 1)
    log.end(1, 2)
    player.send(log)
    player.wait("both")
    log.finish("interrupted", 130, 3)
    player.send(log)
    player.view.close()


def flood(player: Player) -> None:
    """More turns than a terminal that nobody reads can take."""
    log = Journal()
    log.start()
    for turn in range(1, 301):
        log.add("model.start", turn, turn=turn)
        log.reply(turn, [call(turn, f"tool-{turn}", "x" * 40)], turn)
        log.end(turn, turn)
    player.send(log)
    (player.folder / "at-sent").touch()
    log.finish(at=400)
    player.send(log)
    player.view.close()


def held(player: Player) -> None:
    """A tool runs while the process is stopped and continued."""
    signal.signal(signal.SIGTSTP, player.view.on_stop)
    log = Journal()
    log.start()
    log.reply(1, [call(1, "slow")])
    log.begin(1, "slow")
    player.send(log)
    player.wait("held")
    log.end(1, 3)
    log.finish()
    player.send(log)
    player.view.close()


SCENES = {"triage": triage, "hostile": hostile, "stopped": stopped, "flood": flood, "held": held}

if __name__ == "__main__":
    SCENES[sys.argv[1]](Player(Path(sys.argv[2])))
