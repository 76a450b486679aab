"""Event streams for the tests of the views, written as the journal holds them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

RUN = "20261130T114523-oncall-triage-k3v9q2mf"
CHILD = "20261130T114530-diagnose-batch-x7f2aaaa"
START = datetime(2026, 11, 30, 11, 45, 23, tzinfo=UTC)
HOSTILE = "a\x1b]52;c;aGk=\x07b\rc\u202ed\u200b[red]e"
SHOWN = r"a\x1b]52;c;aGk=\x07b\x0dc\u202ed\u200b[red]e"


class Journal:
    """Makes events with running numbers; `at` is seconds after the start."""

    def __init__(self, run: str = RUN, depth: int = 0) -> None:
        self.run, self.depth, self.seq, self.epoch = run, depth, 0, 1
        self.events: list[dict[str, Any]] = []

    def add(self, kind: str, at: float = 0.0, op: int | None = None, **data: Any) -> dict[str, Any]:
        self.seq += 1
        stamp = (START + timedelta(seconds=at)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event: dict[str, Any] = {"v": 1, "seq": self.seq, "epoch": self.epoch, "at": stamp, "kind": kind}
        if op is not None:
            event["op"] = op
        event["data"] = {key.rstrip("_"): value for key, value in data.items()}
        self.events.append(event)
        return event

    def start(self, skill: str = "oncall-triage", at: float = 0.0, **more: Any) -> dict[str, Any]:
        return self.add("run.start", at, run=self.run, skill=skill, goal="why", budget={"usd": 0.5, "turns": 20},
                        confine={"level": "landlock"}, model={"ref": "scripted:x"}, **more)  # fmt: skip

    def reply(self, turn: int, calls: list[dict[str, Any]], at: float = 0.0, cost: Any = 0.01, **more: Any) -> Any:
        return self.add("model.reply", at, turn=turn, content=more.pop("content", []), calls=calls, cost=cost,
                        usage={"input": 1000, "out": 100}, ms=1200, **more)  # fmt: skip

    def allow(self, op: int, at: float = 0.0, effect: str = "read", repeat: str = "pure", **more: Any) -> Any:
        return self.add("decide", at, op, verdict="allow", effect=effect, repeat=repeat, by="rule", **more)

    def begin(self, op: int, tool: str = "tool", at: float = 0.0, **more: Any) -> dict[str, Any]:
        return self.add("tool.start", at, op, role=more.pop("role", "call"), tool=tool, level="landlock", **more)

    def end(self, op: int, at: float = 0.0, out: Any = "x\n", exit_: int = 0, **more: Any) -> dict[str, Any]:
        outcome = more.pop("outcome", "done" if not exit_ else "failed")
        return self.add("tool.end", at, op, outcome=outcome, exit=exit_, ms=more.pop("ms", 400), out=out, **more)

    def finish(self, stop: str = "passed", exit_: int = 0, at: float = 14.0, **more: Any) -> dict[str, Any]:
        return self.add("run.end", at, stop=stop, exit=exit_, answer=more.pop("answer", "because"), **more)


def call(op: int, tool: str, *args: str) -> dict[str, Any]:
    return {"op": op, "id": f"c{op}", "verb": "run", "arguments": {"tool": tool, "args": list(args)}}


def ask(op: int, question: str) -> dict[str, Any]:
    return {"op": op, "id": f"c{op}", "verb": "ask", "arguments": {"question": question}}


def finish(op: int) -> dict[str, Any]:
    return {"op": op, "id": f"c{op}", "verb": "finish", "arguments": {"answer": "because"}}


def no_blobs(run: str, sha: str) -> bytes:
    raise FileNotFoundError(sha)


def triage() -> Journal:
    """Two turns: one read, then two parallel tools that end in reverse order, one after a retry; then it passes."""
    log = Journal()
    log.start()
    log.add("model.start", 0.0, turn=1)
    log.reply(1, [{"op": 1, "id": "c1", "verb": "read", "arguments": {"path": "skill:references/batch.md"}}], 1.2)
    log.allow(1, 1.2, argv="skill:references/batch.md")
    log.end(1, 1.2, "line\n" * 12, ms=3)
    log.add("model.start", 1.3, turn=2)
    log.reply(2, [call(2, "check-pods", "--ns", "shop"), call(3, "search-logs", "--service", "api")], 2.0, cost=None)
    log.allow(2, 2.0)
    log.allow(3, 2.0)
    log.begin(2, "check-pods", 2.0)
    log.begin(3, "search-logs", 2.0)
    log.end(3, 2.5, '{"summary":"3 pods, 1 not ready"}', ms=500)
    log.end(2, 3.0, "", 75, class_="RETRYABLE", retry={"after": 1}, ms=1000)
    log.begin(2, "check-pods", 4.0, try_=2)
    log.end(2, 5.0, "", 1, class_="FAILED", err="cannot reach\nthe cluster\n", ms=1000)
    log.reply(3, [finish(4)], 13.0)
    log.add("verify", 14.0, answer="because", ok=True, checks=[], missing=[], try_=1)
    log.finish()
    return log
