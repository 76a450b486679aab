"""Whose word on the model counts, what a project or a skill may name, and what is taken when nobody said anything."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from harness.config import load
from harness.errors import HarnessError, NoModelError
from harness.models.choice import CHEAPEST, Named, StandIn, Wishes, automatic, choose, unusable, wishes_of
from tests.test_models_resolve import skill

HAIKU, SONNET, OPUS = (f"anthropic:claude-{name}-5-5" for name in ("haiku", "sonnet", "opus"))
USER = Wishes(user={"strong": Named(SONNET, "user:1"), "cheap": Named(HAIKU, "user:2")})


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def test_the_first_word_counts() -> None:
    asks, project = replace(skill(), model=HAIKU), {"strong": Named("scripted:p.yaml", "project:1")}
    everything = replace(USER, project=project)
    assert choose(("scripted:f", "-m"), everything, asks).text == "scripted:f"
    found = choose(None, everything, asks)
    assert (found.text, found.source) == ("scripted:p.yaml", "project:1")
    assert choose(None, USER, asks).text == HAIKU
    assert (choose(None, USER, skill()).text, choose(None, USER, skill()).source) == (SONNET, "user:1")


def test_a_role_is_its_own_word_or_the_other_ones() -> None:
    cheap = choose(None, USER, replace(skill(), model="cheap"))
    assert (cheap.text, cheap.role) == (HAIKU, "cheap")
    only = Wishes(user={"strong": Named(SONNET, "user:1")})
    lent = choose(None, only, replace(skill(), model="cheap"))
    assert (lent.text, lent.role) == (SONNET, "cheap") and "models.cheap is not set" in lent.source


@pytest.mark.parametrize(
    ("text", "why"),
    [(OPUS, "more than models.ceiling"), ("anthropic:claude-fable-5-2", "its price is not known")],
)
def test_case_2_what_a_project_or_a_skill_may_not_name(text: str, why: str) -> None:
    for wishes, asks in (
        (Wishes(project={"strong": Named(text, "p:1")}), skill()),
        (Wishes(), replace(skill(), model=text)),
    ):
        with pytest.raises(HarnessError, match=why) as caught:
            choose(None, wishes, asks)
        assert caught.value.exit_code == 2 and f"models: {{strong: '{text}'}}" in caught.value.fix


def test_case_2_a_model_of_openai_itself_goes_by_its_price(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its string names no address. A key is sent there by the user's own doing, not by the project's."""
    own = tmp_path / "harness/prices.yaml"
    own.parent.mkdir()
    own.write_text("models: {'openai:small': {in: 1, out: 2}, 'openai:large': {in: 1, out: 20}}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for text, why in (("openai:large", "more than models.ceiling"), ("openai:other", "its price is not known"),
                      ("openai:small@https://x.example/v1", "is not on this machine")):  # fmt: skip
        with pytest.raises(HarnessError, match=why):
            choose(None, Wishes(project={"strong": Named(text, "p:1")}), skill())
    assert choose(None, Wishes(project={"strong": Named("openai:small", "p:1")}), skill()).text == "openai:small"


def test_what_the_user_names_too_may_be_named_by_anyone() -> None:
    project = {"strong": Named(OPUS, "p:1")}
    assert choose(None, Wishes(project, user={"cheap": Named(OPUS, "u:1")}), skill()).text == OPUS
    assert choose(None, Wishes(project, stand_ins={"strong": (StandIn(OPUS),)}), skill()).text == OPUS
    assert choose(None, Wishes(project, ceiling=Decimal(20)), skill()).text == OPUS
    assert choose((OPUS, "-m"), Wishes(), skill()).text == OPUS


@pytest.mark.parametrize(
    ("env", "holder"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, "ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_AUTH_TOKEN": "k"}, "ANTHROPIC_AUTH_TOKEN"),
        ({"ANTHROPIC_PROFILE": "work"}, "ANTHROPIC_PROFILE"),
        ({"ANTHROPIC_FEDERATION_RULE_ID": "r", "ANTHROPIC_ORGANIZATION_ID": "o", "ANTHROPIC_IDENTITY_TOKEN": "t"},
         "ANTHROPIC_FEDERATION_RULE_ID"),
    ],
)  # fmt: skip
def test_case_1_a_credential_chooses_the_cheapest(env: dict[str, str], holder: str) -> None:
    found = automatic(skill("triage"), {"HOME": "/nowhere", **env})
    assert (found.text, found.source, found.checks) == (CHEAPEST, "auto", (f"anthropic: {holder}",))


def test_case_1_a_profile_on_disk_counts_and_half_a_federation_does_not(tmp_path: Path) -> None:
    folder = tmp_path / ".config" / "anthropic"
    folder.mkdir(parents=True)
    (folder / "active_config").write_text(" \n")
    half = {"HOME": str(tmp_path), "ANTHROPIC_FEDERATION_RULE_ID": "r", "ANTHROPIC_ORGANIZATION_ID": "o"}
    assert automatic(skill("triage"), half).text == "none"
    (folder / "active_config").write_text("work\n")
    assert automatic(skill("triage"), half).text == CHEAPEST


def test_case_1_without_anything_the_ways_are_listed() -> None:
    with pytest.raises(NoModelError) as caught:
        automatic(skill(), {"HOME": "/nowhere"})
    assert caught.value.exit_code == 4 and "export ANTHROPIC_API_KEY=" in caught.value.fix


def test_the_settings_of_user_and_project(tmp_path: Path) -> None:
    user, project = tmp_path / ".config" / "harness", tmp_path / "p" / ".harness"
    user.mkdir(parents=True)
    project.mkdir(parents=True)
    (user / "config.yaml").write_text(
        f"models:\n  strong: {SONNET}\n  ceiling: 25\n  cache: 1h\n  effort: high\n"
        f"  fallback: {{strong: [{HAIKU}, {{model: {OPUS}, dearer: yes}}]}}\n"
    )
    (project / "config.yaml").write_text(f"models: {{strong: {OPUS}}}\n")
    wishes = wishes_of(load(tmp_path / "p"))
    assert wishes.user["strong"].text == SONNET and wishes.project["strong"].text == OPUS
    assert (wishes.ceiling, wishes.cache, wishes.effort) == (25, "1h", "high")
    assert wishes.stand_ins["strong"] == (StandIn(HAIKU), StandIn(OPUS, True))
    assert choose(None, wishes, skill()).text == OPUS


@pytest.mark.parametrize("key", ["ceiling: 99", "cache: 1h", "effort: max", "fallback: {strong: [none]}"])
def test_a_project_sets_no_bound_of_the_users(tmp_path: Path, key: str) -> None:
    (tmp_path / ".harness").mkdir()
    (tmp_path / ".harness" / "config.yaml").write_text(f"models: {{{key}}}\n")
    with pytest.raises(HarnessError, match="a project may not set models"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["wat", "agent", "antropic:claude-haiku-5-5"])
def test_a_stand_in_that_is_no_model_is_refused_before_any_request(tmp_path: Path, text: str) -> None:
    folder = tmp_path / ".config" / "harness"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"models: {{fallback: {{cheap: [{HAIKU}, {{model: '{text}'}}]}}}}\n")
    wishes = wishes_of(load(None))
    with pytest.raises(HarnessError, match="scheme") as caught:
        choose((HAIKU, "-m"), wishes, skill(), "cheap")
    assert "config.yaml:1" in str(caught.value.where) and caught.value.exit_code == 2
    assert [error.where for error in unusable(wishes)] == [caught.value.where]
    for other in ("none", "scripted:s.yaml"):  # nobody takes over from them
        assert choose((other, "-m"), wishes, skill("triage"), "cheap").text == other
    assert choose((HAIKU, "-m"), wishes, skill(), "strong").text == HAIKU


def test_what_the_settings_name_in_vain_is_told_whoever_speaks() -> None:
    project = {"strong": Named("exec:x", "p:1"), "cheap": Named(HAIKU, "p:2")}
    wishes = Wishes(project, {"strong": Named("wat", "u:1"), "cheap": Named(OPUS, "u:2")})
    assert [(error.where, error.exit_code) for error in unusable(wishes)] == [("p:1", 2), ("u:1", 2)]
    assert unusable(USER) == [] == unusable(Wishes())


@pytest.mark.parametrize("value", ["[x]", "{strong: x}", "{odd: [x]}", "{strong: [{model: x, dear: yes}]}"])
def test_stand_ins_of_another_form_are_refused(tmp_path: Path, value: str) -> None:
    folder = tmp_path / ".config" / "harness"
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"models: {{fallback: {value}}}\n")
    with pytest.raises(HarnessError, match=r"models\.fallback wants"):
        load(None)
