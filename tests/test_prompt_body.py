"""The canonical body of a request: measured piece by piece, it is what it is as a whole."""

from __future__ import annotations

from harness.models.body import body_digest, provider_body
from tests.prompt_events import Tape


def test_each_request_is_measured_as_a_whole() -> None:
    tape = Tape(goal="why? ü")
    for turn in range(1, 5):
        for _ in range(2):  # composed twice, it is the same
            prompt = tape.prompt()
            assert (prompt.bytes, prompt.body) == (len(provider_body(prompt)), body_digest(prompt))
        tape.start()
        call = {"op": turn, "id": f"c{turn}", "verb": "run", "arguments": {"tool": "check-pods", "args": []}}
        tape.add("model.reply", {"turn": turn, "content": [{"type": "text", "text": "ä"}], "dialect": "anthropic",
                                 "calls": [call]})  # fmt: skip
        tape.end(turn)
