"""Attacks of the kinds that the numbered ones are examples of: spellings, places, words in names, borrowed names."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.loop.run import Said
from tests.cage_world import NONE, Caged, needs_full, with_files
from tests.loop_world import Person, call, finish, reply


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    return with_files(tmp_path, monkeypatch)


SPELLINGS = (
    "LOOK", "Look", "look ", " look", "look\n", "look\r", "look\t", "look\0", "./look", "bin/look", "../bin/look",
    "\uff4cook", "lo\u200bok", "l\u043eok", "look\u202e", "look;", "look --path", "'look'", "look#", "l*ok", "l?ok",
    "[l]ook", "$(look)", "`look`", "look\\", " ", ".", "..", "/", "look/", "-look", "--",
)  # fmt: skip


def test_only_the_very_name_of_a_tool_is_one(project: Caged) -> None:
    ran = project.calls(*(call(name, "--path", "a") for name in SPELLINGS))
    assert ran.spawned == [] and not {"allow", "ask"} & set(ran.codes())


VALUES = (
    "prod\n", " prod", "prod ", "PROD", "pr\u200bod", "prod#", "prod\n#", "p*", "pro[d]", "prod\0", "\uff50rod",
    "prod\r\n", "prod;x", "--env=prod", "prod\u2028",
)  # fmt: skip


def test_an_allow_rule_takes_no_value_that_only_looks_like_the_one_it_names(project: Caged) -> None:
    project.policy(NONE + "rules: [{tool: restart, verdict: allow, where: {--env: {eq: prod}}}]")
    project.tool("restart", "exit 0", "@option --env  where\n@meta effect external")
    ran = project.calls(*(call("restart", f"--env={value}") for value in VALUES))
    assert ran.spawned == [] and "allow" not in ran.codes()


URLS = (
    "https://api.x.io.evil.io/", "https://api.x.io@evil.io/", "https://evil.io/https://api.x.io",
    "https://evil.io#api.x.io", "https://evil.io?api.x.io", "https://evil.io\\@api.x.io",
    "https://api.x.io\\.evil.io", "https://api.x.io%2eevil.io", "https://api.x.io\t.evil.io",
    "https://api.x.io\n.evil.io", "https:api.x.io", "https:///api.x.io", "//api.x.io", "https://api.x.io:443@evil.io",
    "https://api\u3002x.io", "https://ap\u0131.x.io", "https://[::1]", "https://1.2.3.4", "https://0x7f.1",
    "https://2130706433", "ann@api.x.io@evil.io", "file://api.x.io/etc", "https://xn--api-x.io", "https://-api.x.io",
    "https://api.x.io:99999", "https://api.x.io:",
)  # fmt: skip


def test_an_allowed_host_is_the_one_that_is_reached(project: Caged) -> None:
    project.policy(NONE + "rules: [{tool: fetch, verdict: allow, where: {--url: {host: api.x.io}}}]")
    project.tool("fetch", "exit 0", "@option --url <URL>  where\n@meta effect external\n@meta net --url")
    ran = project.calls(*(call("fetch", f"--url={url}") for url in URLS))
    assert ran.spawned == [] and "allow" not in ran.codes()


PLACES = (
    "/proc/self/root/etc/passwd", "/proc/self/cwd/../x", "/proc/self/environ", "/dev/fd/0", "/dev/stdin", "/dev/tty",
    "/proc/1/root/etc/passwd", "linked/new", "linked/../x", "dangling", "self/../../x", "sub/./../../x", "up/up/x",
    "/etc/../etc/passwd", "turns", "sub//..//..//x", "a\n/../../../etc/passwd",
)  # fmt: skip


def test_no_place_outside_is_read_or_written(project: Caged) -> None:
    outside = project.home / "outside"
    outside.mkdir()
    (project.path / "linked").symlink_to(outside)
    (project.path / "dangling").symlink_to(outside / "none")
    (project.path / "self").symlink_to(".")
    (project.path / "up").symlink_to("..")
    (project.path / "turns").symlink_to("/proc/1/root/etc/passwd")
    (project.path / "sub").mkdir()
    calls = [(call("look", "--path", path), call("keep", f"--out={path}"), {"read": path}) for path in PLACES]
    ran = project.calls(*(one for group in calls for one in group))
    assert ran.spawned == [] and "allow" not in ran.codes() and list(outside.iterdir()) == []


@pytest.mark.parametrize("name", ["cfg", ".git", "hooks"])
def test_a_folder_that_is_a_link_to_a_protected_one_is_protected(project: Caged, name: str) -> None:
    (project.path / ".git" / "hooks").mkdir(parents=True)
    if name != ".git":
        (project.path / name).symlink_to(".git" if name == "cfg" else ".git/hooks")
    ran = project.one("keep", "--out", f"{name}/pre-commit")
    assert ran.spawned == [] and ran.codes() == ["DENIED"]


NAMES = (
    "LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONSTARTUP", "GIT_SSH_COMMAND", "BASH_ENV", "ENV", "PERL5OPT",
    "NODE_OPTIONS", "RUBYOPT", "IFS", "PROMPT_COMMAND", "HARNESS_MODEL", "http_proxy", "HTTPS_PROXY", "SSH_AUTH_SOCK",
    "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip


def test_no_variable_of_the_harness_reaches_a_tool_unnamed(project: Caged, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "/nowhere/evil")
    project.tool("show", "env")
    ran = project.one("show")
    assert "evil" not in ran.text(ran.of("tool.end")[0]["data"]["out"])


LINES = (
    "env: {look: [LD_PRELOAD]}", "env: {look: [GIT_DIR]}", "secrets: {T: {tools: [look], from: env}}",
    "network: {hosts: {look: any}}", "sandbox: {unconfined: {look: x}}", "sandbox: {tests: [look]}",
    "paths: {unprotect: {look: [.git]}}", "effects: {external: allow}", "approvals: {remember_days: 99}",
    "rules: [{tool: look, verdict: allow}]", "paths: {write: [/]}", "hooks: {start: x}", "include: /tmp/x",
    "budget: {usd: none}",
)  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_what_a_repository_says_in_its_policy_grants_nothing(project: Caged, line: str) -> None:
    """Refused, or without effect: what it says is no more than what held before."""
    project.tool("act", "echo acted > acted", "@meta effect external")
    project.file(".harness/policy.yaml", f"version: 1\n{line}\n")
    with suppress(HarnessError):
        ran = project.calls(call("act"), call("keep", "--out", ".git/x"))
        assert "allow" not in ran.codes() and ran.spawned == []


def test_many_asks_are_each_shown_and_enter_means_no(project: Caged) -> None:
    project.tool("act", 'echo "$2" >> acted', "@option --n=0\n@meta effect external")
    project.person = Person([Said("deny")] * 63 + [Said("deny", "enough")])
    ran = project.calls(*(call("act", "--n", str(n)) for n in range(64)))
    assert len(project.person.shown) == 64 and ran.spawned == []
    project.person = Person([Said("allow")] * 9)
    again = project.run([reply(call("act", "--n", "1")), reply(call("act", "--n", "1")), finish()])
    assert len(project.person.shown) == 2, again.codes()


@needs_full
def test_a_name_borrowed_by_a_repository_gets_nothing_that_its_owner_gets(
    project: Caged, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A variable and a secret are given to a tool by its name; a file of that name that may run once is none."""
    monkeypatch.setenv("PLACE", "prod-cluster")
    monkeypatch.setenv("TOKEN", "tok-4711-Az09qwertY")
    project.policy(NONE + "env: {show: [PLACE]}\nsecrets: {TOKEN: {tools: [show], from: env}}")
    path = project.tool("show", "env", "@meta effect read\n@env TOKEN  a token")
    ran = project.one("show")
    out = ran.text(ran.of("tool.end")[0]["data"]["out"])
    assert ran.codes() == ["allow"] and "prod-cluster" in out and "[secret:TOKEN]" in out
    project.trust = replace(project.trust, own=(str(project.path / "skills"),), files={str(path): "once"})
    again = project.one("show")
    assert again.codes() == ["ask"] and "TOKEN, which your policy does not give to show" in again.reasons()[0]
