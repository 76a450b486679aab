"""The canonical bytes of a prompt: what the digests in a log are taken over. Not what any provider is sent.

Within a context the body of a request, without its last two bytes, is a prefix of the body of the next one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from harness.models import Prompt, Replied, Result, Results, Said, Turn
from harness.models.verbs import TOOLS


def provider_body(prompt: Prompt) -> bytes:
    """Compact JSON of system, verbs and turns, in this order."""
    return _json({**_head(prompt), "turns": [encode_turn(turn) for turn in prompt.turns]})


class Growing:
    """The body of the requests of one context: each turn is encoded once, however many requests hold it."""

    def __init__(self, system: tuple[str, str], verbs: bool = True) -> None:
        self._hash, self._bytes, self._turns = sha256(), 0, 0
        self._feed(_json({**_head_of(system, verbs), "turns": []})[:-2])

    def measured(self, turns: Sequence[Turn], last: Turn | None) -> tuple[int, str]:
        """Length and SHA-256 of a body with these turns, which begin with those of the call before, and a last one."""
        for turn in turns[self._turns :]:
            self._feed(self._piece(turn))
            self._turns += 1
        rest = (self._piece(last) if last is not None else b"") + b"]}"
        whole = self._hash.copy()
        whole.update(rest)
        return self._bytes + len(rest), whole.hexdigest()

    def _piece(self, turn: Turn) -> bytes:
        return (b"," if self._turns else b"") + _json(encode_turn(turn))

    def _feed(self, piece: bytes) -> None:
        self._hash.update(piece)
        self._bytes += len(piece)


def prefix_digest(prompt: Prompt) -> str:
    """SHA-256 of what stays equal for every request of a skill: system and verbs."""
    return sha256(_json(_head(prompt))).hexdigest()


def body_digest(prompt: Prompt) -> str:
    """SHA-256 of the whole body."""
    return sha256(provider_body(prompt)).hexdigest()


def _head(prompt: Prompt) -> dict[str, Any]:
    return _head_of(prompt.system, prompt.verbs)


def _head_of(system: tuple[str, str], verbs: bool) -> dict[str, Any]:
    return {"system": list(system), "verbs": list(TOOLS) if verbs else []}


def encode_turn(turn: Turn) -> dict[str, Any]:
    """One turn as plain data: `said`, `results` (and what was said after them), or the provider's own `content`."""
    if isinstance(turn, Replied):
        return {"role": "assistant", "content": turn.content}
    if isinstance(turn, Said):
        return {"role": "user", "said": list(turn.texts)}
    results = [_result(result) for result in turn.results]
    said = {"said": list(turn.said)} if turn.said else {}
    return {"role": "user", "results": results, **said}


def _result(result: Result) -> dict[str, Any]:
    pictures = [{"kind": p.kind, "sha256": p.sha, "bytes": p.size, "label": p.label} for p in result.pictures]
    plain = {"id": result.call_id, "blocks": list(result.blocks), "failed": result.failed}
    return plain | ({"pictures": pictures} if pictures else {})


def turn_bytes(turn: Turn) -> int:
    """How many of a body's bytes are this turn's."""
    return len(_json(encode_turn(turn)))


def turn_pictures(turn: Turn) -> int:
    """How many images a turn holds."""
    return sum(len(result.pictures) for result in turn.results) if isinstance(turn, Results) else 0


def _json(value: object) -> bytes:
    # surrogatepass: a provider's JSON may hold half a pair, and a digest must not fail on it
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
