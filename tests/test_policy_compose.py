"""From a call to the request: bounds, form, types, roles, effects and paths, by real headers and real files."""

from __future__ import annotations

import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from harness.policy import Policy, Rule, Test
from harness.policy.compose import Scene, compose, too_large
from harness.policy.decide import decide
from harness.policy.effects import effect_of
from harness.policy.layer import SecretRule
from harness.policy.paths import Area
from harness.policy.request import Destination, Request, Typed
from harness.policy.settings import Settings
from harness.tools import Tool
from harness.tools.header import read_tool

Make = Callable[..., Request]


def tool(folder: Path, head: str, name: str = "t") -> Tool:
    path = folder / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *(f"# {line}" for line in head.strip().splitlines()), ""]))
    path.chmod(0o755)
    return read_tool(path, name)


def scene(folder: Path, words: str = "", **more: Any) -> Scene:
    home = str(folder.parent / "home")
    area = Area(folder, (str(folder),), (str(folder),), environ={"HOME": home})
    return Scene(folder, lambda tool: area, lambda: (words,), **more)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Composes a call of a tool with this header in a workspace."""
    workspace = (tmp_path / "w").resolve()
    workspace.mkdir()

    def composed(head: str, *args: str, words: str = "", **more: Any) -> Request:
        found = tool(workspace, f"@describe t\n{head}" if head else "")
        return compose(found, args, scene(workspace, words, **more))

    return composed


HEAD = """
@arg path <PATH>
@option --to* <EMAIL>
@option --n=3 <INT>
@option --text
@option --sum <AMOUNT>
@flag --force
@flag --loud*
@meta effect external
@meta dest --to
"""


def test_arguments_are_typed_by_the_header_and_defaults_filled_in(make: Make) -> None:
    found = make(HEAD, "--force", "--loud", "--loud", "--to", "a@x.io", "--to=b@x.io", "in.txt", "--sum", "5.0")
    assert found.typed == {
        "path": Typed("text", ("in.txt",)), "--to": Typed("text", ("a@x.io", "b@x.io"), True),
        "--n": Typed("number", ("3",)), "--sum": Typed("number", ("5.0",)), "--force": Typed("flag", ("true",)),
        "--loud": Typed("number", ("2",)),
    }  # fmt: skip
    assert found.argv == ("--to", "a@x.io", "--to", "b@x.io", "--n", "3", "--sum", "5.0", "--force", "--loud", "--loud",
                          "in.txt")  # fmt: skip
    assert (found.effect, found.effect_from, found.problems) == ("external", "header", ())


def test_a_tool_without_declared_arguments_has_one_field(make: Make) -> None:
    found = make("@meta effect read", "-x", "--y=1", "z")
    assert found.typed == {"args": Typed("text", ("-x", "--y=1", "z"), True)} and found.argv == ("-x", "--y=1", "z")


@pytest.mark.parametrize(
    ("args", "said"),
    [(["--nn", "1"], "unknown option --nn"), (["--n", "1", "--n", "2"], "--n is given 2 times"),
     (["a", "b"], "surplus"), (["--n", "x"], "not a whole number"), (["--to", "a"], "one @"), (["a\0b"], "NUL"),
     (["--n"], "--n"),
     (["--force=yes"], "takes no value"), (["--text", "\udcff"], "no text")],
)  # fmt: skip
def test_what_the_form_forbids_is_invalid(make: Make, args: list[str], said: str) -> None:
    found = make(HEAD, *args)
    decision = decide(found, Policy())
    assert (decision.code, said in decision.reasons[0]) == ("INVALID_INPUT", True)


def test_nothing_is_expanded(make: Make) -> None:
    given = ["$HOME", "`id`", "$(id)", "*", "{a,b}", "a;b", "%s"]
    for text in given:
        assert make(HEAD, "--text", text).typed["--text"].texts == (text,)


@pytest.mark.parametrize(
    ("args", "large"),
    [(["x"] * 256, ""), (["x"] * 257, "too large: 257 arguments"), (["x" * 131_072], ""),
     (["x" * 131_073], "too large: more than 128 KiB"), (["é" * 65_537], "too large: more than 128 KiB"),
     (["x" * 1_000_000] * 200, "too large: more than 128 KiB")],
)  # fmt: skip
def test_bounds_come_first(args: list[str], large: str) -> None:
    assert too_large(args).startswith(large) and bool(too_large(args)) is bool(large)


def test_what_is_too_large_is_denied_whatever_else_is_wrong(make: Make) -> None:
    decision = decide(make(HEAD, *(["--nope"] * 300)), Policy())
    assert (decision.code, decision.reasons) == ("DENIED", ("too large: 300 arguments, at most 256",))


@pytest.mark.parametrize(
    ("text", "code"),
    [("[" * 32 + "]" * 32, None), ("[" * 33 + "]" * 33, "DENIED"), ("[" * 10_000, "DENIED"), ('{"a":' * 40, "DENIED"),
     ('"' + "[" * 40 + '"', None), ('["\\"[[[[' + "[" * 40 + '"]', None), ("[]" * 3, "INVALID_INPUT")],
)  # fmt: skip
def test_json_is_at_most_32_deep(make: Make, text: str, code: str | None) -> None:
    decision = decide(make("@option --doc <JSON>\n@meta effect read", "--doc", text), Policy())
    assert decision.code == code
    assert code != "DENIED" or decision.reasons[0].startswith("too large")


FIXED = "@meta effect read\n@meta net api.x.io"


@pytest.mark.parametrize(
    ("head", "settings", "effect", "origin"),
    [
        ("@meta effect read", Settings(), "read", "header"),
        ("", Settings(), "external", "absent"),
        ("@meta effect read\n@meta writes out", Settings(), "write", "raised"),
        ("@meta effect external\n@meta writes out", Settings(), "external", "header"),
        (FIXED, Settings(), "external", "raised"),
        (FIXED, Settings(hosts={"t": ("api.x.io",)}), "read", "header"),
        (FIXED, Settings(hosts={"t": ("api.x.io:443",)}), "read", "header"),
        (FIXED, Settings(hosts={"t": ("api.x.io:8443",)}), "external", "raised"),
        (FIXED, Settings(hosts={"t": "any"}), "read", "header"),
        (FIXED, Settings(hosts={"u": ("api.x.io",)}), "external", "raised"),
        (f"{FIXED} b.x.io", Settings(hosts={"t": ("api.x.io",)}), "external", "raised"),
        (f"{FIXED}\n@meta writes out", Settings(hosts={"t": ("api.x.io",)}), "write", "raised"),
        ("@meta effect read\n@meta net none", Settings(), "read", "header"),
        ("@option --url <URL>\n@meta effect read\n@meta net --url", Settings(hosts={"t": "any"}), "external", "raised"),
        ("@env PGHOST\n@meta effect read\n@meta net PGHOST", Settings(), "external", "raised"),
        ("@env PGHOST\n@meta effect read\n@meta net PGHOST", Settings(env={"t": ("PGHOST",)}), "read", "header"),
        ("@env PGHOST\n@meta effect read\n@meta net PGHOST", Settings(env={"u": ("PGHOST",)}), "external", "raised"),
        ("@env PGHOST\n@meta effect read\n@meta net PGHOST",
         Settings(secrets={"PGHOST": SecretRule(("t",), "env")}), "read", "header"),
        ("@option --sum <AMOUNT>\n@meta effect read\n@meta amount --sum EUR", Settings(), "money", "raised"),
        ("@option --sum <AMOUNT>\n@meta effect destructive\n@meta amount --sum EUR", Settings(), "destructive",
         "header"),
    ],
)  # fmt: skip
def test_an_effect_is_raised_and_never_lowered(
    tmp_path: Path, head: str, settings: Settings, effect: str, origin: str
) -> None:
    assert effect_of(tool(tmp_path, head), settings) == (effect, origin)


def test_destinations_are_those_of_dest_and_of_a_host_that_is_given(make: Make) -> None:
    head = "@option --to* <EMAIL>\n@option --url <URL>\n@meta effect external\n@meta dest --to\n@meta net --url"
    args = ["--to", "ann@x.io", "--to", "eve@y.io", "--url", "https://x.io/a"]
    found = make(head, *args, words="mail ann@x.io")
    assert found.dests == (
        Destination("--to", "ann@x.io", True), Destination("--to", "eve@y.io", False),
        Destination("--url", "https://x.io/a", False),
    )  # fmt: skip
    assert make(head).dests == ()


PAY = "@option --sum\n@option --more*\n@meta effect money\n@meta amount --sum EUR\n@meta amount --more EUR"


def test_amounts_add_up_by_currency(make: Make) -> None:
    assert make(PAY, "--sum", "1.50", "--more", "2", "--more", "0.0001").amounts == {"EUR": Decimal("3.5001")}


@pytest.mark.parametrize(
    "amount", ["-1", "+1", "NaN", "inf", "1e3", "1e309", "1,000", "1.00001", "1234567890123", "١", ""]
)
def test_what_is_no_amount_is_invalid(make: Make, amount: str) -> None:
    decision = decide(make(PAY, f"--sum={amount}", "--more", "1"), Policy())
    assert (decision.verdict, decision.code) == ("deny", "INVALID_INPUT")


def test_an_amount_that_is_not_given_cannot_be_reserved(make: Make) -> None:
    assert "missing --sum: the amount in EUR" in decide(make(PAY, "--more", "1"), Policy()).reasons[0]


def test_where_a_value_is_from_is_looked_up_for_rules_that_ask(make: Make) -> None:
    rule = Rule("allow", ("t",), where=(("--to", Test("from", ("user",))),), place="u:1")
    policy = Policy(rules=(rule,))
    found = make(HEAD, "--to", "ann@x.io", "--to", "eve@y.io", words="to ann@x.io", policy=policy)
    assert found.sources == {"--to": (frozenset({"user"}), frozenset())}
    assert make(HEAD, "--to", "ann@x.io", words="to ann@x.io").sources == {}


def test_a_broken_header_is_no_call(make: Make) -> None:
    assert decide(make("@meta effect raed"), Policy()).verdict == "deny"


READ, WRITE = "@option --p <PATH>\n@meta effect read", "@option --p <PATH>\n@meta effect write\n@meta writes --p"
ANY = "@option --p\n@meta effect read"


@pytest.mark.parametrize(
    ("head", "text", "why"),
    [
        (READ, "a/b.txt", ""), (READ, "a/../b.txt", ""), (READ, ".", ""), (READ, "-", ""),
        (READ, "../../etc/passwd", "outside"), (READ, "/etc/passwd", "outside"), (READ, "//etc/passwd", "outside"),
        (READ, "~/.ssh/id_rsa", "never read"), (READ, "~/x", "outside"), (READ, "~root/x", "outside"),
        (READ, "$HOME/.aws/credentials", "outside"), (READ, "${HOME}/x", "outside"), (READ, "a/../../x", "outside"),
        (READ, "way/x", "outside"), (READ, "way", "outside"), (READ, "deep/back/../secret", "outside"),
        (READ, ".env", ".env is never read"), (READ, "a/.ENV", ".env is never read"), (READ, ".env.example", ""),
        (READ, "server.key", "never read"), (READ, "a/id_rsa/x", "never read"), (READ, "alias", "never read"),
        (READ, "a/other", ".env (the same file) is never read"), (READ, "twin", ""),
        (READ, "mine", "k.pem (the same file)"), (READ, "deep/link", ".env (the same file) is never read"),
        (READ, ".git/config", ""), (READ, "$NOTHING/x", ""), (READ, "~nobody-of-that-name/x", ""),
        (WRITE, "out.txt", ""), (WRITE, "new/out.txt", ""), (WRITE, ".git/hooks/x", ".git is protected"),
        (WRITE, ".GIT/hooks/x", ".git is protected"), (WRITE, "a/.Git/x", ".git is protected"),
        (WRITE, ".harness/policy.yaml", "protected"), (WRITE, ".Harness/drafts/s/SKILL.md", "protected"),
        (WRITE, ".harness/drafts/s/SKILL.md", ""), (WRITE, ".harness/drafts/../policy.yaml", "protected"),
        (WRITE, ".harness/drafts/.git/x", ".git is protected"), (WRITE, "a/.harness/drafts/x", "protected"),
        (WRITE, ".envrc", "protected"), (WRITE, ".env.example", "protected"), (WRITE, ".claude/x", "protected"),
        (WRITE, "sub/.agents", "protected"), (WRITE, "gitlink/x", ".git is protected"), (WRITE, "twin", "another name"),
        (WRITE, "x.key", "never read"), (WRITE, ".git/", ".git is protected"), (WRITE, "/", "outside"),
        (ANY, "/etc/passwd", "outside"), (ANY, "~", "outside"), (ANY, "../x", "outside"), (ANY, "a/../../x", "outside"),
        (ANY, "..", "outside"), (ANY, "a..b", ""), (ANY, "see /etc", ""), (ANY, "$HOME", ""), (ANY, ".env", ""),
        (ANY, "$5 each", ""), (ANY, "~30 pods", ""),
    ],
)  # fmt: skip
def test_where_a_path_leads_decides(make: Make, tmp_path: Path, head: str, text: str, why: str) -> None:
    workspace, home = tmp_path / "w", tmp_path / "home"
    for folder in (home / ".ssh", *(workspace / name for name in ("a", "deep", ".git", ".harness/drafts"))):
        folder.mkdir(parents=True)
    (workspace / ".env").write_text("x")
    (workspace / "way").symlink_to("/etc")
    (workspace / "deep" / "back").symlink_to(home / ".ssh")
    (workspace / "alias").symlink_to(".env")
    (workspace / "gitlink").symlink_to(".git")
    (workspace / "first").write_text("x")
    os.link(workspace / "first", workspace / "twin")
    os.link(workspace / ".env", workspace / "a" / "other")
    (workspace / "a" / "id_rsa").mkdir()
    (workspace / "a" / "id_rsa" / "k.pem").write_text("x")
    os.link(workspace / "a" / "id_rsa" / "k.pem", workspace / "mine")
    (workspace / "deep" / "link").symlink_to("../a/other")
    decision = decide(make(head, f"--p={text}"), Policy())
    assert decision.verdict == ("deny" if why else "allow"), decision
    assert not why or (decision.rules == ("paths",) and why in decision.reasons[0])


def test_a_decomposed_spelling_is_the_same_name(make: Make, tmp_path: Path) -> None:
    settings = Settings(protect=("caf\u00e9",))
    area = Area(tmp_path / "w", (str(tmp_path / "w"),), (str(tmp_path / "w"),), protect=settings.protect)
    found = compose(tool(tmp_path / "w", WRITE), ["--p", "CAFE\u0301/x"], Scene(tmp_path / "w", lambda _: area))
    assert found.paths[0].protected == "caf\u00e9"


def test_words_that_no_header_declares_are_looked_at_too(make: Make) -> None:
    for word in ("/etc/passwd", "--file=/etc/passwd", "-f=../x", "$HOME/x"):
        assert decide(make("@meta effect read", word), Policy()).rules == ("paths",), word
    assert decide(make("@meta effect read", "--file=a", "b"), Policy()).verdict == "allow"


def test_only_the_user_lets_a_tool_write_what_is_protected(make: Make) -> None:
    head = "@option --p <PATH>\n@meta effect write\n@meta writes .git"
    assert ".git is protected" in decide(make(head), Policy()).reasons[0]
    granted = Settings(unprotect={"t": (".git",)})
    assert decide(make(head, settings=granted), Policy()).verdict == "allow"
    assert decide(make(head, settings=Settings(unprotect={"u": (".git",)})), Policy()).verdict == "deny"
    silent = "@option --p <PATH>\n@meta effect write\n@meta writes --p"
    assert decide(make(silent, "--p", ".git/x", settings=granted), Policy()).verdict == "deny"


def test_a_relative_path_is_resolved_where_a_rule_asks_under(make: Make) -> None:
    where = (("--p", Test("under", (str(Path("/nowhere")),))),)
    policy = Policy(rules=(Rule("deny", ("t",), where=where, place="u:1"),))
    found = make(ANY, "--p", "docs/x", policy=policy)
    assert [path.option for path in found.paths] == ["--p"] and decide(found, policy).verdict == "allow"
