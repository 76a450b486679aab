"""The smallest prompt: what a model is sent to see whether it speaks at all."""

from __future__ import annotations

from harness.models import Prompt, Said
from harness.models.brief import Brief, Choice

_WORDS = "Reply with the one word: ok"
_CHATML = f"<|im_start|>user\n{_WORDS}<|im_end|>\n<|im_start|>assistant\n"

SMALLEST = Prompt(
    ("Be brief.", ""), (Said((_WORDS,)),), (), verbs=False, max_tokens=16,
    brief=Brief(_CHATML, (Choice("ok", (), lambda given: ()),), None, 1),
)  # fmt: skip
