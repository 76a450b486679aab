"""Asking the model that grades: each judgement is an ordinary run of one reply, and a judge is calibrated once."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.evals.rubric import LEAST_KAPPA, Calibration, Judge, Rubric, calibrate
from harness.loop.question import Question
from harness.prompt.form import Form

ASK = "${inputs.answer}\n\n"
CALIBRATED = "calibrated"
Asked = Callable[[Question], tuple[str, int]]
"""A question → the reply, and what it cost in nano-dollars."""


@dataclass(slots=True)
class Bench:
    """The judges of one evaluation. `model` is who judges, `folder` keeps how each did on its samples.

    `nanos` is what judging has cost so far.
    """

    asked: Asked
    model: str
    folder: Path
    nanos: int = 0
    known: dict[str, Calibration] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _calibrating: threading.Lock = field(default_factory=threading.Lock)

    def judge(self, rubric: Rubric) -> Judge:
        """Who chooses among a rubric's choices for an answer."""

        def ask(answer: str, choices: Sequence[str]) -> str:
            question = Question(f"{ASK}{rubric.ask}", {"answer": answer}, form=Form(tuple(choices)), role="cheap")
            said, nanos = self.asked(question)
            with self._lock:
                self.nanos += nanos
            return said.strip() if said.strip() in choices else ""

        return ask

    def calibration(self, rubric: Rubric) -> Calibration:
        """How the judge does on a rubric's samples: looked up, or found out now and kept."""
        with self._calibrating:
            if rubric.digest not in self.known:
                self.known[rubric.digest] = self._kept(rubric) or self._made(rubric)
            return self.known[rubric.digest]

    def _file(self, rubric: Rubric) -> Path:
        name = hashlib.sha256(f"{rubric.digest} {self.model}".encode()).hexdigest()
        return self.folder / CALIBRATED / f"{name}.json"

    def _kept(self, rubric: Rubric) -> Calibration | None:
        with suppress(OSError, ValueError, TypeError):
            return Calibration(**json.loads(self._file(rubric).read_text(encoding="utf-8")))
        return None

    def _made(self, rubric: Rubric) -> Calibration:
        made, path = calibrate(rubric, self.judge(rubric)), self._file(rubric)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(made)), encoding="utf-8")
        return made


def why_not(found: Calibration) -> str:
    """Why a judge's word does not count."""
    if not found.samples:
        return "it has no labelled samples"
    said = "unknown" if found.kappa is None else f"{found.kappa:.2f}"
    return f"its kappa on {found.samples} samples is {said}, under {LEAST_KAPPA}"
