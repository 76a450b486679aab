"""A real small model, end to end, and the real SDK and HTTP client against that model's own endpoints.

`make test-local` installs what runs weights, fetches the weights, and names their file in LOCAL_WEIGHTS.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.events.state import LABEL
from tests.command import ROOT, events, harness, home_of, newest
from tests.local_seeds import GOAL, outside
from tests.local_world import incident
from tests.run_files import make_project

WEIGHTS = os.environ.get("LOCAL_WEIGHTS", "")
KEY = "sk-local-12345678"
pytestmark = pytest.mark.skipif(not WEIGHTS, reason="LOCAL_WEIGHTS names no file: make test-local")
SAID = ("yes", "no")
"""The server's whole language, so that each of its replies comes to an end."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the model answers over HTTP."""
    env = {**os.environ, "OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0"}
    command = [sys.executable, str(ROOT / "tests/local_server.py"), WEIGHTS, KEY, *SAID]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdin is not None
        yield server.stdout.readline().strip()
        server.stdin.close()


def test_runs_by_the_real_model_stay_inside_the_offer_and_say_what_they_are_worth(tmp_path: Path) -> None:
    project = incident(tmp_path / "p")
    runs = [project.run(f"local:{WEIGHTS}", "triage", GOAL) for _ in range(3)]
    assert {ran.stop.name for ran in runs} <= {"passed", "no-progress"}
    assert [outside(ran) for ran in runs] == [0, 0, 0]
    passed = [ran for ran in runs if ran.stop.name == "passed"]
    assert passed
    for ran in passed:
        assert ran.spawned[-1] == "report" and {"look", "pods", "describe", "query", "level"} <= set(ran.spawned)
        assert (ran.folder / "answer.md").read_text().startswith(f"{LABEL}\n\nthe cause is known")
        assert all(event["data"]["usage"]["out"] > 0 for event in ran.of("model.reply"))


def test_the_real_model_is_asked_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    done = harness("models", "check", f"local:{WEIGHTS}", cwd=tmp_path / "p")
    assert done.returncode == 0 and LABEL in done.stderr, done.stderr


def test_the_real_sdk_speaks_with_the_models_own_endpoint(tmp_path: Path, address: str) -> None:
    project = make_project(tmp_path / "p")
    env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": address}
    done = harness("run", "work", "is the pod well?", "-m", "anthropic:smollm2", "-b", "usd=none", cwd=project, **env)
    assert (done.returncode, done.stdout.strip() in SAID) == (0, True), done.stderr
    [reply] = [event["data"] for event in events(newest(project), "model.reply")]
    assert (reply["dialect"], reply["stop_raw"]) == ("anthropic", "end_turn")
    assert reply["content"] == [{"type": "text", "text": done.stdout.strip()}]
    assert reply["usage"]["input"] > 100 and reply["usage"]["out"] > 0 and "estimated" not in reply["usage"]
    refused = harness("run", "work", "x", "-m", "anthropic:smollm2", "-b", "usd=none", cwd=project,
                      **{**env, "ANTHROPIC_API_KEY": f"{KEY}-not"})  # fmt: skip
    assert refused.returncode == 4 and "ANTHROPIC_API_KEY" in refused.stderr


def test_chat_completions_of_the_model_with_a_key_for_its_endpoint(tmp_path: Path, address: str) -> None:
    project = make_project(tmp_path / "p")
    settings = home_of(project) / ".config/harness/config.yaml"
    settings.write_text(f"endpoints: {{'{address}/v1': {{key: MODEL_KEY}}}}\n")
    model = ("-m", f"openai:m@{address}/v1")
    done = harness("run", "work", "is the pod well?", *model, cwd=project, MODEL_KEY=KEY)
    assert (done.returncode, done.stdout.strip() in SAID) == (0, True), done.stderr
    [reply] = [event["data"] for event in events(newest(project), "model.reply")]
    assert (reply["dialect"], reply["stop_raw"], reply["cost"]) == ("openai", "stop", 0)
    assert reply["usage"]["input"] > 100 and "estimated" not in reply["usage"]
    assert harness("run", "work", "x", *model, cwd=project, MODEL_KEY=f"{KEY}-not").returncode == 4
