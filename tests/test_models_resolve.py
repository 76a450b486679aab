"""Model strings: what each means, what is nearest to one that means nothing, and what is taken when none is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import HarnessError, NoModelError
from harness.models import ModelRef, Opening
from harness.models.choice import automatic
from harness.models.none import NoModel
from harness.models.resolve import FORMS, open_model, resolve
from harness.models.scripted import Scripted
from harness.skills import Root, Skill

ALL = ", ".join(FORMS.values())


def skill(pipeline: str | None = None) -> Skill:
    folder = Path("skills/oncall-triage")
    return Skill("oncall-triage", folder, folder / "SKILL.md", Root(Path("skills"), None, "project"), pipeline=pipeline)


def test_strings_that_mean_something() -> None:
    assert resolve("scripted:a/b:c.yaml", source="flag", skill=None) == ModelRef("scripted", "a/b:c.yaml", "flag")
    assert resolve("none", source="user", skill=skill("triage")) == ModelRef("none", "", "user")
    assert resolve("none", source="flag", skill=skill("triage")).text == "none"
    assert resolve("scripted:x", source="flag", skill=None).text == "scripted:x"


@pytest.mark.parametrize(
    ("text", "message", "fix"),
    [
        ("non", "the model 'non' has no scheme; nearest: none", "write none"),
        ("scripted", "scripted: names no file", "write scripted:FILE"),
        ("scripted:", "scripted: names no file", "write scripted:FILE"),
        ("local:", "local: names no model", "write local:NAME"),
        ("locl:x", "unknown model scheme 'locl' in 'locl:x'; nearest: local:x", "write local:x"),
        ("good.yaml", "the model 'good.yaml' has no scheme; nearest: scripted:good.yaml", "write scripted:good.yaml"),
        ("scriptd:x", "unknown model scheme 'scriptd' in 'scriptd:x'; nearest: scripted:x", "write scripted:x"),
        ("claude-haiku-5-5", "the model 'claude-haiku-5-5' has no scheme; nearest: anthropic:claude-haiku-5-5",
         "write anthropic:claude-haiku-5-5"),
        ("antropic:x", "unknown model scheme 'antropic' in 'antropic:x'; nearest: anthropic:x", "write anthropic:x"),
        ("anthropic:", "anthropic: names no model: ''", "write anthropic:claude-haiku-5-5"),
        ("sonnet", "the model 'sonnet' has no scheme; nearest: anthropic:claude-sonnet-5-5",
         "write anthropic:claude-sonnet-5-5"),
        ("haiku-5-5", "the model 'haiku-5-5' has no scheme; nearest: anthropic:claude-haiku-5-5",
         "write anthropic:claude-haiku-5-5"),
        ("opsu-5-5", "the model 'opsu-5-5' has no scheme; nearest: anthropic:claude-opus-5-5",
         "write anthropic:claude-opus-5-5"),
        ("smollm2-135m", "the model 'smollm2-135m' has no scheme; nearest: local:smollm2-135m",
         "write local:smollm2-135m"),
        ("llama3:8b", "unknown model scheme 'llama3' in 'llama3:8b'; nearest: ollama:llama3:8b",
         "write ollama:llama3:8b"),
        ("gpt-9", "the model 'gpt-9' has no scheme; nearest: openai:gpt-9", "write openai:gpt-9"),
        ("gpt", "the model 'gpt' has no scheme", f"write one of {ALL}"),
        ("exotic:gpt", "unknown model scheme 'exotic' in 'exotic:gpt'", f"write one of {ALL}"),
        ("none:x", "none takes no name: 'none:x'", "write none"),
        ("", "the model '' has no scheme", f"write one of {ALL}"),
    ],
)  # fmt: skip
def test_strings_that_mean_nothing(text: str, message: str, fix: str) -> None:
    with pytest.raises(HarnessError) as caught:
        resolve(text, source="HARNESS_MODEL", skill=None)
    assert (caught.value.message, caught.value.fix, caught.value.where) == (message, fix, "HARNESS_MODEL")
    assert caught.value.exit_code == 2


def test_none_without_a_pipeline_is_a_usage_error() -> None:
    with pytest.raises(HarnessError, match="oncall-triage has none") as caught:
        resolve("none", source="flag", skill=skill())
    assert caught.value.exit_code == 2


def test_nothing_given_takes_the_pipeline() -> None:
    """Case 1, the part without providers."""
    assert automatic(skill("triage"), {"HOME": "/nowhere"}).text == "none"


def test_nothing_given_and_no_pipeline_lists_the_ways() -> None:
    with pytest.raises(NoModelError) as caught:
        automatic(skill(), {"HOME": "/nowhere"})
    assert caught.value.exit_code == 4
    assert "-m scripted:FILE" in caught.value.fix
    assert "export ANTHROPIC_API_KEY=" in caught.value.fix
    assert "-m none" not in caught.value.fix  # for a skill with a pipeline it would have been taken


def test_opening(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text("harness-script: 1\nreplies: [{text: x}]\n")
    ref = resolve("scripted:s.yaml", source="flag", skill=None)
    model = open_model(ref, Opening(tmp_path, skill()))
    assert isinstance(model, Scripted)
    assert model.ref == ref
    triage = skill("triage")
    nobody = open_model(resolve("none", source="auto", skill=triage), Opening(tmp_path, triage, ("x",)))
    assert isinstance(nobody, NoModel)
    assert (nobody.pipeline, nobody.args, nobody.ref.source) == ("triage", ("x",), "auto")


def test_a_missing_script_is_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError) as caught:
        open_model(ModelRef("scripted", "no.yaml"), Opening(tmp_path, skill()))
    assert caught.value.where == str(tmp_path / "no.yaml")


@pytest.mark.parametrize(
    ("variable", "url", "message"),
    [
        ("ANTHROPIC_BASE_URL", "http://h:bad", "no base URL"), ("ANTHROPIC_BASE_URL", "http://h:99999", "no base URL"),
        ("ANTHROPIC_BASE_URL", "http://h\nX: y", "no base URL"), ("ANTHROPIC_BASE_URL", "ftp://h", "no base URL"),
        ("ANTHROPIC_BASE_URL", "http://k:secret@h:x", "neither user nor password"),
        ("ANTHROPIC_BASE_URL", "https://h?key=secret", "neither user nor password"),
        ("OLLAMA_HOST", "http://h/x?key=secret", "neither user nor password"),
        ("OLLAMA_HOST", "ftp://h", "no base URL"),
    ],
)  # fmt: skip
def test_an_address_in_the_environment_is_one_or_nothing_is_sent(
    variable: str, url: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, url)
    text = "anthropic:claude-haiku-5-5" if variable.startswith("ANTHROPIC") else "ollama:m"
    with pytest.raises(HarnessError, match=message) as error:
        resolve(text, source="-m", skill=None)
    assert (error.value.exit_code, error.value.where) == (2, f"env {variable}")
    assert "secret" not in str(error.value)
    assert "\n" not in error.value.message
