"""Events of a made-up run, journaled in memory: what the tests of the prompt fold."""

from __future__ import annotations

from typing import Any

from harness.events.fold import apply
from harness.events.state import State
from harness.models import Offer
from harness.prompt import Frame, Release, Transcript

MARK = "k3v9q2"
NEEDS = {
    "lookup-runbook": (), "check-pods": (), "check-lag": (), "search-logs": ("lookup-runbook", "check-pods"),
    "replay-request": ("search-logs",), "write-report": ("search-logs",),
}  # fmt: skip
ABOUT = {
    "lookup-runbook": ("lookup-runbook --service NAME", "The runbook pages of a service"),
    "check-pods": ("check-pods --namespace NAME [--json]", "Pods of a namespace that are not running"),
    "check-lag": ("check-lag --topic NAME [--json]", "How far the consumers of a topic are behind"),
    "search-logs": ("search-logs --service NAME [--since DURATION]", "Log lines of one service, grouped by template"),
    "replay-request": ("replay-request --request-id ID --env NAME", "Send one failed request again"),
    "write-report": ("write-report FILE", "Write the report with its evidence"),
}


def release(state: State) -> Release:
    """A tool is callable once every need has succeeded; a need whose newest result is bad is stale."""
    good = {receipt.tool for receipt in state.slots.values() if receipt.ok}
    ready = tuple(name for name, needs in NEEDS.items() if good.issuperset(needs))
    waiting = {name: " ".join(needs) for name, needs in NEEDS.items() if name not in ready}
    lost = {name: " ".join(n for n in NEEDS[name] if n in state.succeeded and n not in good) for name in waiting}
    return Release(ready, waiting, {name: why for name, why in lost.items() if why})


def fresh(state: State) -> frozenset[int]:
    """The newest result of each slot, where it is good."""
    return frozenset(receipt.op for receipt in state.slots.values() if receipt.ok)


def frame(body: str = "", **changed: Any) -> Frame:
    given: dict[str, Any] = {
        "skill": "oncall-triage", "body": body, "files": (), "requires": ("write-report",), "checks": ("check-report",),
        "catalogue": {name: Offer(name, *about) for name, about in ABOUT.items()}, "limits": "20 turns, 40 calls",
        "mark": MARK, "can_ask": True,
    }  # fmt: skip
    return Frame(**{**given, **changed})


class Tape:
    """A run in memory: appends events, keeps the transcript and the state in step. Blobs are texts by digest."""

    def __init__(self, shape: Frame | None = None, blobs: dict[str, str] | None = None, **start: Any) -> None:
        self.blobs, self.events, self.state = blobs if blobs is not None else {}, [], State()
        blob = lambda ref: self.blobs[ref["blob"]]  # noqa: E731
        self.transcript = Transcript(shape or frame(), release, blob, fresh, bytes.fromhex)
        begin = {"run": "r", "skill": "oncall-triage", "goal": "what is going wrong", "inputs": {}}
        self.add("run.start", {**begin, **start})

    def add(self, kind: str, data: dict[str, Any], op: int | None = None) -> None:
        seq = len(self.events) + 1
        at = f"2026-11-30T11:{seq // 60 % 60:02}:{seq % 60:02}.000Z"
        self.take({"v": 1, "seq": seq, "epoch": 1, "at": at, "kind": kind, "data": data, **({"op": op} if op else {})})

    def take(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        self.transcript.apply(event, self.state)
        apply(self.state, event)

    def start(self, **data: Any) -> None:
        self.add("model.start", {"turn": self.state.turn + 1, **data})

    def reply(self, *calls: tuple[str, dict[str, Any]], text: str = "", **more: Any) -> list[int]:
        """One whole turn of the model; the numbers of its operations."""
        self.start()
        first, turn = self.state.next_op, self.state.turn + 1
        named = [
            {"op": first + i, "id": f"c{first + i}", "verb": verb, "arguments": arguments, **more}
            for i, (verb, arguments) in enumerate(calls)
        ]
        content = [{"type": "text", "text": text}] if text else []
        self.add("model.reply", {"turn": turn, "content": content, "dialect": "anthropic", "calls": named, "cost": 0})
        return [call["op"] for call in named]

    def run(self, tool: str, *args: str) -> int:
        return self.reply(("run", {"tool": tool, "args": list(args)}))[0]

    def end(self, op: int, out: object = "fine\n", exit: int = 0, **more: Any) -> None:
        """The call is allowed, starts and ends."""
        call = self.state.ops[op]
        self.add("decide", {"verdict": "allow", "argv": call.arguments.get("args", []), "effect": "read"}, op)
        if call.verb != "read":
            self.add("tool.start", {"tool": call.tool}, op)
        data = {"outcome": "done" if exit == 0 else "failed", "exit": exit, "ms": 1900, "out": out}
        self.add("tool.end", {**data, "class": "OK" if exit == 0 else "FAILED", "result": f"{op:016}", **more}, op)

    def deny(self, op: int, code: str, *reasons: str) -> None:
        self.add("decide", {"verdict": "deny", "argv": [], "code": code, "reasons": list(reasons)}, op)

    def prompt(self) -> Any:
        return self.transcript.prompt(self.state)

    def newest(self) -> Any:
        return self.prompt().turns[-1]
