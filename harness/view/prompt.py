"""One model call as text: what was sent, block by block, and whether it is still the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.models import Prompt, Replied, Results, Turn
from harness.view.text import escape


def prompt_text(prompt: Prompt) -> str:
    """The whole prompt, its blocks under headings, escaped for a terminal; what a model read that only chooses."""
    if prompt.brief is not None:
        return f"=== brief\n{escape(prompt.brief.text.rstrip())}\n"
    blocks = [("system: rules", prompt.system[0]), ("system: skill", prompt.system[1])]
    blocks += [block for turn in prompt.turns for block in _turn(turn)]
    return "\n".join(f"=== {title}\n{escape(text.rstrip())}" for title, text in blocks) + "\n"


def _turn(turn: Turn) -> Iterator[tuple[str, str]]:
    if isinstance(turn, Replied):
        yield "model", "\n".join(_block(block) for block in turn.content)
    elif isinstance(turn, Results):
        for result in turn.results:
            yield f"result of {result.call_id}{' (failed)' if result.failed else ''}", "\n".join(result.blocks)
        if turn.said:
            yield "user", "\n".join(turn.said)
    else:
        yield "user", "\n".join(turn.texts)


def _block(block: Any) -> str:
    """A provider's block: its text, or what it is as JSON."""
    if isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    return block if isinstance(block, str) else json.dumps(block, ensure_ascii=False)


def what_differs(prompt: Prompt, fields: Mapping[str, Any]) -> str:
    """Which parts are not as they were sent, in a few words; empty when the digest is that of what was sent."""
    sent = str(fields.get("body", ""))
    then = {name: sha for name, sha, _ in fields.get("parts") or ()}
    now = {part.id: part.sha for part in prompt.parts}
    if prompt.body.startswith(sent) and (prompt.brief is None or then == now):
        return ""
    changed = [f"{name} is now {_of_kind(name, now)}" for name, sha in then.items() if now.get(name) != sha]
    return f"not what was sent ({sent}): {'; '.join(changed) or 'a later turn'}"


def _of_kind(name: str, parts: Mapping[str, str]) -> str:
    kind = name.partition("@")[0]
    found = next(((now, sha) for now, sha in parts.items() if now.partition("@")[0] == kind), ("absent", ""))
    return found[0] if found[0] != name else found[1]
