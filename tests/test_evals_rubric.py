"""A model may judge answers only where it agrees with people's labels better than chance would."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from harness.errors import HarnessError
from harness.evals.rubric import Calibration, Rubric, Sample, calibrate, read_rubric
from tests.command import harness
from tests.evals_site import DISK, add_case, evals, evaluated, found, make_site

LABELS = (("a disk", "yes"), ("no idea", "no"), ("the disk is full", "yes"), ("maybe", "no"))


def rubric(*labels: tuple[str, str]) -> Rubric:
    samples = tuple(Sample(answer, label) for answer, label in labels)
    return Rubric("Does it name a cause?", ("yes", "no"), "yes", samples, "d" * 64)


def test_a_judge_that_agrees_may_count() -> None:
    made = calibrate(rubric(*LABELS), lambda answer, choices: "yes" if "disk" in answer else "no")
    assert made.gates and (made.agreement, made.kappa, made.swapped) == (1.0, 1.0, 0.0) and made.samples == 4


def test_a_judge_that_takes_the_first_choice_is_found_out_by_the_swap() -> None:
    def first(answer: str, choices: Sequence[str]) -> str:
        return choices[0]

    made = calibrate(rubric(*LABELS), first)
    assert not made.gates and made.kappa == 0.0 and made.swapped == 1.0


def test_a_judge_of_length_is_found_out() -> None:
    labels = (("x", "no"), ("xx", "yes"), ("xxxx" * 9, "yes"), ("xxxxx" * 9, "no"))
    made = calibrate(rubric(*labels), lambda answer, choices: "yes" if len(answer) > 9 else "no")
    assert made.length is not None and made.length > 0.9 and not made.gates


def test_without_samples_nothing_counts() -> None:
    assert not calibrate(rubric(), lambda answer, choices: "yes").gates
    one_sided = calibrate(rubric(("a", "yes"), ("b", "yes")), lambda answer, choices: "yes")
    assert one_sided == Calibration(2, 1.0, None, 0.0, None) and not one_sided.gates


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("choices: [a, b]\n", "asks nothing"),
        ("ask: x\nchoices: [a]\n", "one of two choices"),
        ("ask: x\naccept: maybe\n", "one of two choices"),
        ("ask: x\nsamples: [{answer: y, label: maybe}]\n", "label 'maybe' is no choice"),
        ("ask: x\nsamples: [{answer: y}]\n", "a sample has answer: and label:"),
    ],
)
def test_a_bad_rubric_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(HarnessError) as caught:
        read_rubric(tmp_path / "r.yaml")
    assert words in caught.value.message and caught.value.exit_code == 2


JUDGE = '''import json, sys
asked = json.load(sys.stdin)
said = "yes" if "disk" in json.dumps(asked["turns"]).split("</task>")[-1] else "no"
print(json.dumps({"text": %s, "stop": "end"}))
'''


def judged(project: Path, how: str) -> Path:
    """A project whose cheap model is a program that judges, and a case whose rubric asks it."""
    (project / "judge.py").write_text(JUDGE % how)
    settings = project.parent / "p-home" / ".config" / "harness" / "config.yaml"
    harness("skills", cwd=project)  # makes the home
    settings.write_text(f"models: {{cheap: 'exec:python3 {project}/judge.py'}}\n")
    samples = [{"answer": answer, "label": label} for answer, label in LABELS]
    (evals(project) / "rubrics").mkdir()
    body = {"ask": "Does it name a cause?", "choices": ["yes", "no"], "samples": samples}
    (evals(project) / "rubrics" / "cause.yaml").write_text(yaml.safe_dump(body))
    add_case(project, "disk", **{**DISK, "rubric": "cause.yaml"})
    return project


def test_a_calibrated_judge_gates_and_is_asked_about_its_samples_once(tmp_path: Path) -> None:
    project = judged(make_site(tmp_path / "p"), "said")
    said = found(evaluated(project, "--trials", "1", "-b", "usd=none", "--json"))
    assert said["code"] == 0, said["trials"]
    folder = project / ".harness" / "evals"
    [kept] = (folder / "calibrated").glob("*.json")
    assert json.loads(kept.read_text())["kappa"] == 1.0
    runs = [path.name for path in (folder / said["eval"] / "runs").glob("*-prompt-*")]
    again = found(evaluated(project, "--trials", "1", "-b", "usd=none", "--json"))
    assert len(runs) == 9 and len(list((folder / again["eval"] / "runs").glob("*-prompt-*"))) == 1


def test_a_judge_that_agrees_with_nobody_is_told_and_counts_for_nothing(tmp_path: Path) -> None:
    project = judged(make_site(tmp_path / "p"), "'no'")
    said = found(evaluated(project, "--trials", "1", "-b", "usd=none", "--json"))
    [check] = [check for check in said["trials"][0]["checks"] if check["name"] == "rubric cause.yaml"]
    assert said["code"] == 0 and (check["ok"], check["gates"]) == (False, False)
    assert "counts for nothing: its kappa on 4 samples is 0.00, under 0.6" in check["why"]


def test_a_demonstration_model_judges_nothing(tmp_path: Path) -> None:
    project = judged(make_site(tmp_path / "p"), "said")
    settings = project.parent / "p-home" / ".config" / "harness" / "config.yaml"
    settings.write_text("models: {cheap: 'local:/nowhere.gguf'}\n")
    done = evaluated(project, "--trials", "1")
    assert done.returncode == 2 and "demonstration model" in done.stderr and not done.stdout
