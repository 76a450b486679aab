"""`make live`, against servers that say what was wanted, and against such that say something else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.models.prices import shipped
from tests import live
from tests.fake_anthropic import COUNTED, Answer, FakeAnthropic, serving, text, thinks
from tests.fake_openai import FakeOpenAI

NO_OLLAMA = {"OLLAMA_HOST": "127.0.0.1:1"}
GOOD = [
    *[Answer([text("ok")], "end_turn", COUNTED)] * 3,
    Answer([thinks(), text("399")], "end_turn"), Answer([text("391")], "end_turn"), Answer([text("1")], "max_tokens"),
]  # fmt: skip


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("HOME", str(tmp_path))
    yield from serving(monkeypatch)


def told(fake: FakeAnthropic, **other: Any) -> str:
    """Let the server describe its models as the shipped table has them, but for what is `other`; its page of prices."""
    rows = ["| Model | Base input tokens | 5m cache writes | 1h cache writes | Cache hits | Output tokens |"]
    for name, facts in shipped().entries.items():
        about = {"window": facts.window, "max_out": facts.max_out, "adaptive": facts.thinking, **other}
        able = {"image_input": {"supported": True},
                "thinking": {"supported": True, "types": {"adaptive": {"supported": about["adaptive"]}}}}  # fmt: skip
        info = {"id": name, "type": "model", "capabilities": able, "max_input_tokens": about["window"],
                "max_tokens": about["max_out"]}  # fmt: skip
        fake.pages[f"/v1/models/{name.removeprefix('anthropic:')}"] = json.dumps(info).encode()
        assert facts.price is not None
        cells = [f"${rate} / MTok, then ${rate * 5} / MTok" for rate in live.rates(facts.price)]
        rows.append(f"| {live.shown_name(name)}| {' | '.join(cells)} |")
    fake.pages["/pricing.md"] = "\n".join(rows).encode()
    return f"{fake.url}/pricing.md"


def states(out: str) -> dict[str, list[str]]:
    """What each mark stands before."""
    found: dict[str, list[str]] = {"holds": [], "DIFFERS": [], "not looked at": []}
    for line in out.splitlines():
        for mark, lines in found.items():
            if line.startswith(f"{mark} "):
                lines.append(line[14:].strip())
    return found


def test_without_a_key_nothing_is_looked_at(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert live.main({"HOME": str(tmp_path)}) == 4
    said = capsys.readouterr()
    assert said.out == "" and "ANTHROPIC_API_KEY" in said.err


def test_everything_holds(serve: Any, capsys: pytest.CaptureFixture[str]) -> None:
    fake = serve(*GOOD)
    page = told(fake)
    code = live.main({**fake.env, **NO_OLLAMA}, page)
    said = states(out := capsys.readouterr().out)
    assert (code, said["DIFFERS"], len(said["not looked at"])) == (0, [], 1), out
    assert len(said["holds"]) == 5 * len(shipped().entries) + 6 and "Ollama" in said["not looked at"][0]
    assert fake.refused == ["tool_choice: unknown parameter"]
    cost = float(out.splitlines()[-1].split()[1])
    assert 0 < cost < 0.05


def test_what_is_otherwise_is_told(serve: Any, capsys: pytest.CaptureFixture[str]) -> None:
    plain = replace(GOOD[0], usage={"input_tokens": 9, "output_tokens": 1})
    fake = serve(plain, plain, plain, GOOD[3], Answer(status=400, kind="invalid_request_error"), GOOD[0])
    page = told(fake, window=1000, adaptive=False)
    listed = fake.pages["/pricing.md"].replace(b"$0.125 ", b"$0.135 ").replace(b"Fable 5.1", b"Fable")
    fake.pages["/pricing.md"] = listed
    assert live.main({**fake.env, **NO_OLLAMA}, page) == 1
    said = states(capsys.readouterr().out)
    wrong = "\n".join(said["DIFFERS"])
    for what in ("haiku-5-5: window", "sonnet-5-5: adaptive thinking", "haiku-5-5: price", "written at first",
                 "thinking goes back verbatim", "ends as cut"):  # fmt: skip
        assert what in wrong
    assert any("fable-5-1: price" in line for line in said["not looked at"])


def test_a_provider_that_is_not_there_confirms_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    env = {"ANTHROPIC_API_KEY": "k" * 20, "ANTHROPIC_BASE_URL": "http://127.0.0.1:1", **NO_OLLAMA}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert live.main(env, "http://127.0.0.1:1/pricing.md") == 75
    assert not states(capsys.readouterr().out)["holds"]


def test_what_an_ollama_says_is_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    with FakeOpenAI([], kind="ollama").serving() as fake:
        env = {"OLLAMA_HOST": f"127.0.0.1:{fake.port}"}
        assert [fact.holds for fact in live.ollama(env)] == [True, None]
        fake.loaded = ["m"]
        assert [fact.holds for fact in live.ollama(env)] == [True, True]
