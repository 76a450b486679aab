"""A person's amendment from another process: a result supplied by hand, or a slot declared stale. Runs nothing."""

from __future__ import annotations

from typing import Any

from harness.loop import cover
from harness.loop.result import result_digest
from harness.loop.run import Run


def amend(run: Run, message: dict[str, Any], name: str) -> None:
    """Append the `amend` event of an inbox message, on the disk before it is acknowledged; or say why it is void."""
    what, target = message.get("what"), str(message.get("target", ""))
    said = {"by": str(message.get("by", "user")), "why": str(message.get("why") or ""), "inbox": name}
    try:
        is_receipt = what == "receipt"
        value = _receipt(run, message["value"]) if is_receipt else _slots(message)
    except (KeyError, TypeError, ValueError, AttributeError):
        run.note("warning", f"the inbox message {name} amends nothing that can be amended and was dropped.")
        return
    n = run.state.next_op if is_receipt else None
    run.append("amend", {"what": what, "target": target, "value": value, **said}, n)
    run.log.sync()
    if is_receipt:
        run.note("changed", f"a person supplied the result of {target}: read op:{n}")
    else:
        run.note("changed", f"a person declared {target} stale: {said['why']}")


def _slots(message: dict[str, Any]) -> list[list[str]]:
    if message.get("what") != "stale":
        raise ValueError("another amendment")
    slots = message["value"]
    if not isinstance(slots, list) or not all(isinstance(slot, list) and slot for slot in slots):
        raise ValueError("no list of slots")
    return [[str(word) for word in slot] for slot in slots]


def _receipt(run: Run, given: dict[str, Any]) -> dict[str, Any]:
    """What the receipt says: of which call, the text, and the digest that freshness compares."""
    text, tool = cover.text(run, str(given["out"])), run.toolset.tools.get(str(given["tool"]))
    argv = given.get("argv")
    value: dict[str, Any] = {"tool": str(given["tool"])}
    if given.get("stage"):
        value["stage"] = str(given["stage"])
    words = cover.words(run, value["tool"], [str(word) for word in argv]) if isinstance(argv, list) else None
    value["argv"] = run.fit_argv(words) if words is not None else None
    value |= {"out": run.log.fit(text), "result": result_digest(0, text.encode("utf-8", "replace"), ())}
    return value | ({"ttl": tool.ttl} if tool is not None and tool.ttl is not None else {})
