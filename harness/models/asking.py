"""The smallest prompt: what a model is sent to see whether it speaks at all."""

from __future__ import annotations

from pathlib import Path

from harness.models import Prompt, Said
from harness.models.brief import Brief, Choice
from harness.skills import Root, Skill

_WORDS = "Reply with the one word: ok"
_CHATML = f"<|im_start|>user\n{_WORDS}<|im_end|>\n<|im_start|>assistant\n"

SMALLEST = Prompt(
    ("Be brief.", ""), (Said((_WORDS,)),), (), verbs=False, max_tokens=16,
    brief=Brief(_CHATML, (Choice("ok", (), lambda given: ()),), None, 1),
)  # fmt: skip


def nobody() -> Skill:
    """A skill for what is opened outside any skill: it has no pipeline and no files."""
    return Skill("nobody", Path(), Path(), Root(Path(), None, "project"))
