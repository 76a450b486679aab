"""No model: the pipeline once, then its output; a pipeline that failed ends the run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.models import Failure, Model, Reply
from harness.models.none import NoModel
from tests.prompt_events import Tape


def proposal(model: Model, tape: Tape) -> tuple[str, dict[str, object]]:
    answer = model(tape.prompt(), on=lambda _: None)
    assert isinstance(answer, Reply)
    [call] = answer.calls
    assert call.error is None
    return call.verb, dict(call.arguments)


def test_the_pipeline_then_its_output() -> None:
    tape, model = Tape(), NoModel("triage", ("--logs", "a.log"))
    verb, arguments = proposal(model, tape)
    assert (verb, arguments) == ("run", {"tool": "triage", "args": ["--logs", "a.log"]})
    tape.end(tape.reply((verb, arguments))[0], "# Report\nthe cause\n")
    assert proposal(NoModel("triage", ()), tape) == ("finish", {"answer": "# Report\nthe cause\n"})


def test_an_output_in_a_blob_is_given_whole() -> None:
    text = "line\n" * 50_000
    tape = Tape(blobs={"b": text})
    tape.end(tape.run("triage"), {"blob": "b", "bytes": len(text)})
    assert proposal(NoModel("triage", ()), tape) == ("finish", {"answer": text})


def test_a_refused_answer_is_proposed_again() -> None:
    tape = Tape()
    tape.end(tape.run("triage"), "out\n")
    tape.reply(("finish", {"answer": "out\n"}))
    tape.add("verify", {"answer": "out\n", "ok": False, "checks": [], "missing": [{"name": "write-report"}]})
    assert proposal(NoModel("triage", ()), tape) == ("finish", {"answer": "out\n"})


def test_a_failed_pipeline_ends_the_run_and_is_named() -> None:
    tape = Tape()
    tape.end(tape.run("triage"), "", exit=1, err="working\nstage search-logs failed: exit 66\n")
    answer = NoModel("triage", ())(tape.prompt(), on=lambda _: None)
    assert isinstance(answer, Failure)
    assert (answer.reason, answer.exit_code, answer.retry) == ("pipeline", 1, False)
    assert answer.message == "triage ended FAILED: stage search-logs failed: exit 66"


def test_a_refused_pipeline_says_why() -> None:
    tape = Tape()
    tape.deny(tape.run("triage"), "DENIED", "a rule forbids it")
    answer = NoModel("triage", ())(tape.prompt(), on=lambda _: None)
    assert isinstance(answer, Failure)
    assert answer.message == "triage ended DENIED: a rule forbids it"


def test_models_and_prompts_import_no_provider(tmp_path: Path) -> None:
    """Case 22, for scripted and none: neither `anthropic` nor any network module."""
    program = (
        "import sys, harness.models.scripted, harness.models.none, harness.models.resolve, harness.prompt\n"
        "banned = {'anthropic', 'httpx', 'httpx2', 'socket', 'subprocess', 'git', 'rich', 'typer'}\n"
        "print(sorted(banned & set(sys.modules)))"
    )
    root = Path(__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
