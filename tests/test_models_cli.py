"""Anthropic's models from the command line: what is said of them, signals and kills in a request, what is loaded."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.models.wanted import narrowed
from tests.command import clean_env, events, harness, home_of, newest, start, waits
from tests.fake_anthropic import KEY, Answer, FakeAnthropic, fails, finishes, text
from tests.fake_openai import FakeOpenAI, Play
from tests.run_files import calls, finish, make_project, script

HAIKU = "anthropic:claude-haiku-5-5"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p")


def test_case_1_a_key_chooses_the_cheapest_and_one_line_says_so(project: Path) -> None:
    with FakeAnthropic(finishes(1, "found")) as fake:
        done = harness("run", "work", "x", cwd=project, **fake.env)
    assert (done.returncode, done.stdout) == (0, "found\n"), done.stderr
    line = f"model: {HAIKU} (auto: ANTHROPIC_API_KEY; 0.10/0.50 USD per M; at {fake.url}) budget 1 USD"
    assert done.stderr.splitlines().count(line) == 1
    model = events(newest(project))[0]["data"]["model"]
    assert (model["source"], model["checks"]) == ("auto", ["anthropic: ANTHROPIC_API_KEY"])
    assert not [p for p in project.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    assert KEY not in done.stderr


def test_the_key_may_be_among_the_secrets(project: Path) -> None:
    """As those of other endpoints may: what the environment names goes before it."""
    folder = home_of(project) / ".config/harness/secrets"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "ANTHROPIC_API_KEY").write_text(f"{KEY}\n")
    (folder / "ANTHROPIC_API_KEY").chmod(0o600)
    with FakeAnthropic(finishes(1, "found"), finishes(1, "found")) as fake:
        env = {name: value for name, value in fake.env.items() if name != "ANTHROPIC_API_KEY"}
        done = harness("run", "work", "x", cwd=project, **env)
        assert (done.returncode, done.stdout) == (0, "found\n"), done.stderr
        assert "(auto: ANTHROPIC_API_KEY among the secrets; " in done.stderr
        (folder / "ANTHROPIC_API_KEY").write_text("another")  # which the server would refuse
        assert harness("run", "work", "x", cwd=project, **fake.env).returncode == 0
    assert not [p for p in project.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]
    (folder / "ANTHROPIC_API_KEY").chmod(0o644)
    done = harness("run", "work", "x", "-m", HAIKU, cwd=project, **env)
    assert (done.returncode, "chmod 600" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


CHOICE = """
import sys
from harness.models.choice import Wishes, choose
assert choose(None, Wishes(), None).text == "anthropic:claude-haiku-5-5"
print(sorted({name.split(".")[0] for name in sys.modules} & {"anthropic", "httpx2", "openai", "pydantic"}))
"""


def test_case_1_the_choice_loads_no_library_of_a_provider(project: Path) -> None:
    env = clean_env(home_of(project), ANTHROPIC_API_KEY=KEY)
    done = subprocess.run([sys.executable, "-c", CHOICE], env=env, capture_output=True, text=True, cwd=project)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


ENTRY = """
import sys
from harness.cli.main import main
try:
    code = main()
finally:
    print(*sorted({name.split(".")[0] for name in sys.modules} & {"anthropic", "httpx2"}), "end", file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("kind", ["scripted", "none", "agent"])
def test_case_22_runs_without_a_provider_load_none(project: Path, kind: str) -> None:
    scripted = script(project, calls(["look"]), finish("done"))
    words = {"scripted": ["-m", scripted], "none": ["-m", "none"], "agent": ["--agent"]}[kind]
    command = [sys.executable, "-c", ENTRY, "run", "work", "x", *words]
    env = clean_env(home_of(project), ANTHROPIC_API_KEY=KEY)
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=project)
    assert done.stderr.splitlines()[-1] == "end" and "Traceback" not in done.stderr, done.stderr


def test_case_2_a_project_names_no_dear_model(project: Path) -> None:
    (project / ".harness").mkdir(exist_ok=True)
    (project / ".harness" / "config.yaml").write_text("models: {strong: 'anthropic:claude-opus-5-5'}\n")
    with FakeAnthropic(finishes(1)) as fake:
        done = harness("run", "work", "x", cwd=project, **fake.env)
        assert (done.returncode, fake.requests) == (2, []) and "models.ceiling" in done.stderr
        assert str(home_of(project) / ".config/harness/config.yaml") in done.stderr
        assert ".harness/config.yaml:1" in done.stderr
        assert harness("run", "work", "x", "-m", "anthropic:claude-opus-5-5", cwd=project, **fake.env).returncode == 0


def test_case_8_a_wait_of_an_hour_parks_and_shows_its_time(project: Path) -> None:
    with FakeAnthropic(fails(429, "rate_limit_error", retry_after="3600")) as fake:
        done = harness("run", "work", "x", "-m", HAIKU, cwd=project, **fake.env)
    parked = events(newest(project))[-1]["data"]
    assert (done.returncode, parked["stop"], len(fake.requests)) == (75, "waiting", 1)
    assert parked["until"] in done.stderr


@pytest.mark.parametrize("fault", ["stall", "slow headers"])
def test_case_11_an_interruption_ends_the_process_while_the_server_keeps_silent(project: Path, fault: str) -> None:
    with FakeAnthropic(Answer([text("well " * 20)], fault=fault, after=5)) as fake:
        process = start("run", "work", "x", "-m", HAIKU, cwd=project, **fake.env)
        assert fake.reached.wait(60)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=25)
        assert process.returncode == 130, err
        assert not fake.let_go.is_set()
    run = newest(project)
    [failed] = events(run, "model.fail")
    assert failed["data"]["reason"] == "cancelled"
    reserved = events(run, "model.start")[0]["data"]["usd"]
    assert events(run)[-1]["data"]["spent"]["nanos"] == round(reserved * 1e9)


PEAK = """
import sys
from harness.cli.main import main
code = main()
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(peak, file=sys.stderr)
sys.exit(code)
"""
LONG = "x" * (20 << 20)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_case_10_a_reply_of_twenty_mebibytes_takes_little_memory(project: Path, provider: str) -> None:
    """The least of three: which thread loads what, and so how much lies idle in their heaps, is up to the machine."""
    assert min(peak_of(project, provider) for _ in range(3)) < 120 * 1024


def peak_of(project: Path, provider: str) -> int:
    """The KiB that a run took at most whose first reply is too large."""
    with FakeAnthropic(Answer([text(LONG)]), finishes(1, "found")) as fake:
        with FakeOpenAI([Play(LONG), Play("found")]).serving() as other:
            model = HAIKU if provider == "anthropic" else f"openai:m@{other.base}"
            env = clean_env(home_of(project), **fake.env)
            command = [sys.executable, "-c", PEAK, "run", "work", "x", "-m", model]
            done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=project)
    assert (done.returncode, done.stdout) == (0, "found\n"), done.stderr
    assert [event["data"]["reason"] for event in events(newest(project), "model.fail")] == ["protocol"]
    return int(done.stderr.splitlines()[-1])


def test_case_17_a_request_that_a_kill_cut_off_stays_paid_for(project: Path) -> None:
    with FakeAnthropic(Answer([text("well " * 20)], fault="stall", after=5), finishes(1)) as fake:
        process = start("run", "work", "x", "-m", HAIKU, cwd=project, **fake.env)
        assert fake.reached.wait(60)
        waits(lambda: events(newest(project), "model.start"))
        process.kill()
        process.communicate()
        done = harness("resume", "last", cwd=project, **fake.env)
    assert done.returncode == 0, done.stderr
    run = newest(project)
    reserved = events(run, "model.start")[0]["data"]["usd"]
    assert events(run)[-1]["data"]["spent"]["nanos"] == round(reserved * 1e9) + 20_000


def test_case_1_the_only_model_of_an_ollama_is_taken_and_several_are_listed(project: Path) -> None:
    with FakeOpenAI([Play("found"), Play("found")], kind="ollama").serving() as fake:
        env = {"OLLAMA_HOST": f"127.0.0.1:{fake.port}"}
        done = harness("run", "work", "x", cwd=project, **env)
        assert (done.returncode, done.stdout) == (0, "found\n"), done.stderr
        assert done.stderr.splitlines().count("model: ollama:m (auto: ollama: m)") == 1
        fake.models = ["a", "b"]
        several = harness("run", "work", "x", cwd=project, **env)
        assert several.returncode == 4 and "ollama: a, b" in several.stderr
        fake.loaded = ["b"]
        listed = json.loads(harness("models", "--json", cwd=project, **env).stdout)
        assert listed["automatic"] == {"model": "ollama:b", "why": "anthropic: no credential; ollama: b"}


def test_case_1_without_anything_the_ways_are_listed_and_nobody_far_is_asked(project: Path) -> None:
    """Whoever is asked off this machine is asked through the proxy, which is watched."""
    with FakeOpenAI([]).serving() as proxy:
        root = proxy.base.removesuffix("/v1")
        env = {"HTTP_PROXY": root, "HTTPS_PROXY": root, "ALL_PROXY": root, "OLLAMA_HOST": "127.0.0.1:1"}
        done = harness("run", "work", "x", cwd=project, OPENAI_API_KEY=KEY, **env)
    assert (done.returncode, done.stdout, proxy.requests) == (4, "", [])
    for way in ("ANTHROPIC_API_KEY", "-m openai:NAME (OPENAI_API_KEY is set", "-m ollama:", "-m exec:", "-m local:",
                "--agent"):  # fmt: skip
        assert way in done.stderr
    assert KEY not in done.stderr and not list(project.glob(".harness/runs/2*"))


def test_the_models_of_the_roles_with_their_prices_and_their_age(project: Path) -> None:
    (home_of(project) / ".config/harness/config.yaml").write_text(f"models: {{strong: '{HAIKU}', cheap: none}}\n")
    (home_of(project) / ".config/harness/prices.yaml").write_text(
        "as-of: 2026-01-02\nmodels: {'openai:x': {in: 1, out: 2, checked: 2026-01-01}}\n"
    )
    env = {"OLLAMA_HOST": "127.0.0.1:1", "ANTHROPIC_API_KEY": KEY}
    table = harness("models", cwd=project, **env)
    assert table.returncode == 0, table.stderr
    strong, cheap = table.stdout.splitlines()[1:3]
    assert strong.split()[:3] == ["strong", HAIKU, "0.10/0.50"] and strong.endswith("config.yaml:1")
    assert cheap.split()[:3] == ["cheap", "none", "free"]
    assert f"automatic: {HAIKU} (anthropic: ANTHROPIC_API_KEY)" in table.stdout and KEY not in table.stdout
    found = json.loads(harness("models", "--json", cwd=project, **env).stdout)["prices"]
    assert [(one["of"], one["as-of"]) for one in found] == [("your", "2026-01-02"), ("shipped", "2026-11-28")]
    assert found[0]["models"][0] == {
        "model": "openai:x", "in": "1", "out": "2", "write": "1", "write_1h": "1", "read": "1", "checked": "2026-01-01",
    }  # fmt: skip
    assert found[0]["days"] > found[1]["days"]


def test_models_check_asks_once_for_as_little_as_there_is(project: Path) -> None:
    (home_of(project) / ".config/harness/config.yaml").write_text(f"models: {{strong: '{HAIKU}'}}\n")
    with FakeAnthropic(Answer([text("ok")], "end_turn")) as fake:
        both = harness("models", "check", "--json", cwd=project, **fake.env)  # two roles, one model
        [row] = json.loads(both.stdout)["checked"]
        assert (both.returncode, row["state"], row["said"], len(fake.requests)) == (0, "ok", "ok", 1)
        assert fake.requests[0]["max_tokens"] == 16 and "tools" not in fake.requests[0]
    with FakeAnthropic(fails(401, "authentication_error")) as fake:
        bad = harness("models", "check", cwd=project, **fake.env)
        assert (bad.returncode, len(fake.requests)) == (4, 1) and "auth" in bad.stdout and KEY not in bad.stdout
    with FakeAnthropic(fails(529, "overloaded_error")) as fake:
        assert harness("models", "check", HAIKU, cwd=project, **fake.env).returncode == 75
    with FakeOpenAI([Play("ok")]).serving() as other:
        assert harness("models", "check", f"openai:m@{other.base}", cwd=project).returncode == 0
    assert not list(project.glob(".harness/runs/2*"))


def test_a_role_that_may_not_be_named_so_is_shown_as_that(project: Path) -> None:
    (project / ".harness/config.yaml").write_text("models: {cheap: 'exec:x'}\n")
    rows = json.loads(harness("models", "--json", cwd=project, OLLAMA_HOST="127.0.0.1:1").stdout)["roles"]
    assert [row["model"] for row in rows] == ["unusable", "unusable"] and "it starts a program" in rows[1]["from"]


def test_a_setting_that_names_no_model_stops_only_who_uses_it(project: Path) -> None:
    """With `-m` it is told in one line, whatever else is wrong; a question to the role itself is refused."""
    (home_of(project) / ".config/harness/config.yaml").write_text(
        f"models:\n  strong: '{HAIKU}'\n  cheap: haiku-5-5\n  fallback: {{strong: [antropic:x]}}\n"
    )
    done = harness("run", "work", "x", "-m", script(project, finish("done")), cwd=project)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    [told] = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert "config.yaml:3: the model 'haiku-5-5' has no scheme" in told
    assert "write anthropic:claude-haiku-5-5 (and 1 more: harness models)" in told
    assert harness("run", "work", "x", "--agent", cwd=project).returncode == 0
    assert harness("step", "last", "look", cwd=project).returncode == 0
    listed = harness("models", cwd=project, OLLAMA_HOST="127.0.0.1:1")
    assert listed.returncode == 0 and "unusable" in listed.stdout
    told = [line.split(": ")[1] for line in listed.stderr.splitlines() if line.startswith("warning: ")]
    assert [where.rpartition(":")[2] for where in told] == ["3", "4"]
    with FakeAnthropic(finishes(1)) as fake:
        used = harness("run", "work", "x", cwd=project, **fake.env)
        asked = harness("prompt", "why?", "--role", "cheap", cwd=project, **fake.env)
        assert (used.returncode, asked.returncode, fake.requests) == (2, 2, [])
    assert "config.yaml:4" in used.stderr and "config.yaml:3" in asked.stderr


def test_a_form_is_asked_of_the_provider_as_far_as_it_takes_it(project: Path) -> None:
    """What it does not take is judged here all the same."""
    word = {"type": "object", "properties": {"why": {"type": "string", "minLength": 3}, "n": {"type": "integer"}},
            "required": ["why"]}  # fmt: skip
    (project / "form.json").write_text(json.dumps(word))
    answers = [Answer([text(f'{{"why": "{why}"}}')], "end_turn") for why in ("it", "oom")]
    with FakeAnthropic(*answers) as fake:
        done = harness("prompt", "why?", "--schema", "form.json", "-m", HAIKU, cwd=project, **fake.env)
        assert (done.returncode, done.stdout, fake.refused) == (0, '{"why": "oom"}\n', []), done.stderr
        wanted = {"type": "object", "properties": {"why": {"type": "string"}, "n": {"type": "integer"}},
                  "required": ["why"], "additionalProperties": False}  # fmt: skip
        assert fake.requests[0]["output_config"] == {"format": {"type": "json_schema", "schema": wanted}}


@pytest.mark.parametrize(
    "part",
    [{"type": "object"}, {"type": ["string", "null"]}, True, {"type": "array", "items": {"type": "object"}},
     {"anyOf": [{"type": "string"}, True]}, {"type": "object", "properties": {"a": True}},
     {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}}],
)  # fmt: skip
def test_a_form_that_a_provider_cannot_be_told_is_not_sent(part: object) -> None:
    assert narrowed({"type": "object", "properties": {"x": part}}) is None
    assert narrowed({"type": "array"}) is None


def test_case_16_an_unknown_price_is_shown_as_that(project: Path) -> None:
    with FakeAnthropic(finishes(1)) as fake:
        named = ("-m", "anthropic:claude-mythos-5")
        refused = harness("run", "work", "x", *named, cwd=project, **fake.env)
        assert (refused.returncode, fake.requests) == (2, []) and "-b usd=none" in refused.stderr
        done = harness("run", "work", "x", *named, "-b", "usd=none", cwd=project, **fake.env)
    assert done.returncode == 0 and "price unknown" in done.stderr and "$0" not in done.stderr
    assert "unknown" in harness("show", "last", cwd=project).stdout
