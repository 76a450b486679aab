"""A grader that asks a model about an answer: the last resort. It counts only where it agrees with labelled samples."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.documents import Node
from harness.evals.case import Reader, read_root
from harness.evals.statistics import agreement, kappa, leaning

LEAST_KAPPA = 0.6
Judge = Callable[[str, Sequence[str]], str]
"""An answer and the choices in the order they are offered → the choice that was made, or an empty text."""


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer and the choice that a person made for it."""

    answer: str
    label: str


@dataclass(frozen=True, slots=True)
class Rubric:
    """A question about an answer; `accept` is the choice that passes, `digest` that of its file."""

    ask: str
    choices: tuple[str, ...]
    accept: str
    samples: tuple[Sample, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """How a judge did on the samples of a rubric; None where that cannot be told.

    `swapped` is the share of samples it judged otherwise when the choices stood the other way round, `length` the
    correlation of being accepted with being long.
    """

    samples: int
    agreement: float | None
    kappa: float | None
    swapped: float | None
    length: float | None

    @property
    def gates(self) -> bool:
        """Whether its word may count."""
        return self.kappa is not None and self.kappa >= LEAST_KAPPA


def read_rubric(path: Path) -> Rubric:
    """Read one rubric with its samples. Raises HarnessError (exit 2) naming file, line and a fix."""
    return _Rubrics(str(path)).rubric(read_root(path, "rubric"), hashlib.sha256(path.read_bytes()).hexdigest())


class _Rubrics(Reader):
    def rubric(self, root: Node, digest: str) -> Rubric:
        found = self.values(root, "a rubric", {
            "ask": self.text, "choices": self.texts, "accept": self.text, "samples": self._samples,
        })  # fmt: skip
        choices = found.get("choices", ("yes", "no"))
        if not found.get("ask"):
            raise self.refuse("the rubric asks nothing", "add ask: one question about the answer", root.line)
        if len(set(choices)) < 2 or found.get("accept", choices[0]) not in choices:
            raise self.refuse("accept must be one of two choices or more", "name it under choices:", root.line)
        samples = tuple(found.get("samples", ()))
        for sample in samples:
            if sample.label not in choices:
                raise self.refuse(f"label {sample.label!r} is no choice", f"use {', '.join(choices)}", root.line)
        return Rubric(found["ask"], choices, found.get("accept", choices[0]), samples, digest)

    def _samples(self, node: Node, what: str) -> list[Sample]:
        return [self._sample(item) for item in self.sequence(node, what)]

    def _sample(self, node: Node) -> Sample:
        found = self.values(node, "a sample", {"answer": self.text, "label": self.text})
        if set(found) != {"answer", "label"}:
            raise self.refuse("a sample has answer: and label:", "write both", node.line)
        return Sample(**found)


def calibrate(rubric: Rubric, judge: Judge) -> Calibration:
    """Let a judge label the samples twice, the second time with the choices the other way round."""
    first = [judge(sample.answer, rubric.choices) for sample in rubric.samples]
    second = [judge(sample.answer, rubric.choices[::-1]) for sample in rubric.samples]
    if not first:
        return Calibration(0, None, None, None, None)
    pairs = [(sample.label, said) for sample, said in zip(rubric.samples, first, strict=True)]
    swapped = sum(one != two for one, two in zip(first, second, strict=True)) / len(first)
    lengths = [float(len(sample.answer)) for sample in rubric.samples]
    accepted = [said == rubric.accept for said in first]
    return Calibration(len(first), agreement(pairs), kappa(pairs), swapped, leaning(lengths, accepted))
