"""Policy files: what they may say, whose they must be, and what several of them say together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.policy import DEFAULT_EFFECTS, Limits, Test
from harness.policy.files import read
from harness.policy.layer import Channel, Layer, SecretRule
from harness.policy.layerfile import read_layer
from harness.policy.reading import Reader
from harness.policy.settings import Settings, limits_of, load, merged, narrowed, raised
from harness.tools import Tool

G, M = 1024**3, 1024**2
WHOLE = """
version: 1
sandbox:
  require: landlock
  limits: {memory: 8G, procs: 64, files: 100, file_size: 512M, output: 1000}
  tests: [run-tests]
  unconfined: {legacy: needs the device}
network:
  hosts:
    fetch: [API.x.io, "b.io:8443"]
    psql: any
env: {kubectl-get: [KUBECONFIG], query: [PGHOST, PGDATABASE]}
secrets:
  PAY_TOKEN: {tools: [pay], from: env}
  LOGS_TOKEN: {tools: [search-logs, tail-logs], from: file}
"""


class Place:
    """A home, a workspace in it, and the files of all layers."""

    def __init__(self, root: Path) -> None:
        self.home, self.workspace = root / "home", root / "home" / "shop"
        self.config = self.home / ".config" / "harness"
        self.user, self.system = self.config / "policy.yaml", root / "etc" / "policy.yaml"
        self.project = self.workspace / ".harness" / "policy.yaml"
        for path in (self.user, self.system, self.project):
            path.parent.mkdir(parents=True)
        self.env = {"HOME": str(self.home)}

    def load(self, **env: str) -> Settings:
        return load(self.workspace, {**self.env, **env}, self.system)

    def below_the_systems(self) -> Settings:
        """The user's file below the system's, which only root could write."""
        return merged(self.layer(self.system), self.layer(self.user))

    def layer(self, path: Path) -> Layer:
        root = read(path)
        return Layer() if root is None else read_layer(root, Reader(path, "user", self.workspace, self.home))

    def below(self, path: Path, settings: Settings | None = None) -> Settings:
        """The settings, by default those without any file, under a skill's file."""
        return narrowed(settings or Settings(), path, "skill", self.workspace, self.home)

    def refused(self, **env: str) -> HarnessError:
        with pytest.raises(HarnessError) as caught:
            self.load(**env)
        assert caught.value.exit_code == 2 and caught.value.fix and caught.value.where
        return caught.value


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def v1(text: str) -> str:
    return f"version: 1\n{text}"


def test_without_files_the_defaults_hold(place: Place) -> None:
    assert place.load() == Settings()
    assert Settings().require == "auto" and Settings().limits == Limits(4 * G, 256, G, 128, 8 * M)


def test_the_users_file_is_read_whole(place: Place) -> None:
    place.user.write_text(WHOLE)
    found = place.load()
    assert (found.require, found.floor) == ("landlock", "landlock")
    assert found.limits == Limits(8 * G, 100, 512 * M, 64, 1000)
    assert (found.tests, found.unconfined) == ({"run-tests"}, {"legacy": "needs the device"})
    assert found.hosts == {"fetch": ("api.x.io", "b.io:8443"), "psql": "any"}
    assert found.env == {"kubectl-get": ("KUBECONFIG",), "query": ("PGDATABASE", "PGHOST")}
    assert found.secrets["LOGS_TOKEN"] == SecretRule(("search-logs", "tail-logs"), "file")


def test_xdg_config_home_says_where_the_file_is(place: Place, tmp_path: Path) -> None:
    (tmp_path / "other" / "harness").mkdir(parents=True)
    (tmp_path / "other" / "harness" / "policy.yaml").write_text(v1("sandbox: {require: full}"))
    place.user.write_text(v1("sandbox: {require: none}"))
    assert place.load(XDG_CONFIG_HOME=str(tmp_path / "other")).require == "full"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("sandbox: {}\n", 1, "`version: 1` is missing"),
        ("", 1, "is empty"),
        ("# only this\n", 1, "is empty"),
        ("version: 2\n", 1, "version is not 1"),
        ("version: 1\nversion: 1\n", 2, "version is given twice"),
        ("- version\n", 1, "wants `key: value` lines"),
        (v1("sandbx: {}\n"), 2, "near: sandbox"),
        (v1("sandbox: {}\nsandbox: {}\n"), 3, "sandbox is given twice"),
        (v1("sandbox:\n  requir: full\n"), 3, "near: require"),
        (v1("sandbox:\n"), 2, "sandbox wants"),
        (v1("sandbox: full\n"), 2, "sandbox wants"),
        (v1("sandbox: {require: Full}\n"), 2, "require cannot be that; near: full"),
        (v1("sandbox: {require: ful}\n"), 2, "near: full"),
        (v1("sandbox: {require: [full]}\n"), 2, "require cannot be that"),
        (v1("sandbox: {limits: {memory: 4 GB}}\n"), 2, "a size such as"),
        (v1("sandbox: {limits: {memory: -1}}\n"), 2, "a size such as"),
        (v1("sandbox: {limits: {procs: 4K}}\n"), 2, "a number such as"),
        (v1("sandbox: {limits: {procs: 0}}\n"), 2, "a number such as"),
        (v1("sandbox: {limits: {memry: 4G}}\n"), 2, "near: memory"),
        (v1("sandbox: {tests: run}\n"), 2, "wants a list"),
        (v1("sandbox: {tests: ['*']}\n"), 2, "no name of a tool"),
        (v1("sandbox:\n  unconfined:\n    legacy:\n"), 4, "wants a text"),
        (v1("network: {host: {}}\n"), 2, "near: hosts"),
        (v1("network: {hosts: {fetch: api.x.io}}\n"), 2, "or any"),
        (v1("network:\n  hosts:\n    fetch:\n      - '*.x.io'\n"), 5, "no host name"),
        (v1("network: {hosts: {fetch: [https://a.io]}}\n"), 2, "not host[:port]"),
        (v1("network: {hosts: {fetch: [bücher.example]}}\n"), 2, "not ASCII"),
        (v1("network: {hosts: {'*': any}}\n"), 2, "no name of a tool"),
        (v1("env: [PGHOST]\n"), 2, "env wants"),
        (v1("env: {query: [PG-HOST]}\n"), 2, "no name of a variable"),
        (v1("env: {query: [HOME]}\n"), 2, "made anew"),
        (v1("env: {query: [HARNESS_RUN]}\n"), 2, "made anew"),
        (v1("env: {query: [OPENAI_API_KEY]}\n"), 2, "model provider's"),
        (v1("secrets: {ANTHROPIC_API_KEY: {tools: [pay], from: env}}\n"), 2, "model provider's"),
        (v1("secrets: {PAY_TOKEN: [pay]}\n"), 2, "wants `key: value`"),
        (v1("secrets: {PAY_TOKEN: {tools: [pay]}}\n"), 2, "wants tools and from"),
        (v1("secrets: {PAY_TOKEN: {tools: [pay], from: env, value: abc}}\n"), 2, "unknown key"),
        (v1("secrets: {PAY_TOKEN: {tools: ['*'], from: env}}\n"), 2, "no name of a tool"),
        (v1("secrets: {PAY_TOKEN: {tools: [pay], from: vault}}\n"), 2, "no source"),
        (v1("secrets: {PAY_TOKEN: {tools: [pay], from: keyring}}\n"), 2, "not supported by this version"),
        (v1("env: {query: &a [PGHOST]}\n"), 2, "an anchor"),
        (v1("env: {query: &a [PGHOST], other: *a}\n"), 2, "an anchor"),
        (v1("env: {query: !!seq [PGHOST]}\n"), 2, "a tag"),
        (v1("env: {query: ! x}\n"), 2, "a tag"),
        ("%YAML 1.1\n---\nversion: 1\n", 1, "a directive"),
        (v1("env: {<<: {query: [PGHOST]}}\n"), 2, "no name of a tool"),
        (v1("env: {query: [PGHOST]\n"), 3, "no YAML"),
        (v1("env: {}\n---\nversion: 1\n"), 3, "no YAML"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(place: Place, text: str, line: int, words: str) -> None:
    place.user.write_text(text)
    error = place.refused()
    assert error.where == f"{place.user}:{line}"
    assert words in error.message


def test_a_file_that_cannot_be_read_as_text_is_refused(place: Place) -> None:
    place.user.write_bytes(b"version: 1\nenv: {q: [\xff]}\n")
    assert place.refused().where == f"{place.user}:2"
    place.user.write_text(v1("#" * 256 * 1024))
    assert "over 256 KiB" in place.refused().message
    place.user.unlink()
    place.user.mkdir()
    assert "cannot read policy" in place.refused().message
    place.user.rmdir()
    os.mkfifo(place.user, 0o600)
    assert "it is a pipe, not a file" in place.refused().message
    place.user.unlink()
    place.user.symlink_to(place.user)
    assert "cannot read policy" in place.refused().message


def test_a_link_to_nothing_is_not_the_absence_of_a_file(place: Place) -> None:
    place.user.symlink_to(place.home / "gone.yaml")
    assert place.refused().where == str(place.user)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused_with_the_command_that_mends_it(place: Place, mode: int) -> None:
    place.user.write_text(v1(""))
    place.user.chmod(mode)
    assert place.refused().fix == f"run: chmod go-w {place.user}"


def test_its_directories_are_looked_at_as_well(place: Place) -> None:
    place.user.write_text(v1(""))
    place.config.parent.chmod(0o777)
    assert place.refused().fix == f"run: chmod go-w {place.config.parent}"
    place.config.parent.chmod(0o1777)
    assert place.load() == Settings()


def test_what_lies_above_the_home_is_not_the_users_to_mend(place: Place) -> None:
    place.user.write_text(v1(""))
    place.home.parent.chmod(0o777)
    assert place.load() == Settings()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(place: Place) -> None:
    place.user.write_text(v1(""))
    os.chown(place.user, 12345, 12345)
    error = place.refused()
    assert "belongs to user 12345" in error.message and error.fix == f"run: sudo chown -h 0 {place.user}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root owns what it writes")
def test_the_systems_file_belongs_to_root(place: Place) -> None:
    place.system.write_text(v1("sandbox: {require: full}"))
    assert place.load().require == "full"
    os.chown(place.system, 12345, 12345)
    assert place.refused().fix == f"run: sudo chown -h 0 {place.system}"


def test_a_link_to_a_safe_file_is_followed(place: Place) -> None:
    kept = place.home / "dotfiles" / "policy.yaml"
    kept.parent.mkdir()
    kept.write_text(v1("sandbox: {require: full}"))
    place.user.symlink_to("../../dotfiles/policy.yaml")
    assert place.load().require == "full"
    kept.parent.chmod(0o777)
    assert place.refused().where == str(kept.parent)


def test_a22_a_policy_in_the_workspace_grants_nothing(place: Place) -> None:
    inside = place.workspace / "config" / "harness" / "policy.yaml"
    inside.parent.mkdir(parents=True)
    inside.write_text(v1("sandbox: {require: none}"))
    assert "lies in the workspace" in place.refused(XDG_CONFIG_HOME=str(place.workspace / "config")).message
    place.user.symlink_to(inside)
    error = place.refused()
    assert "lies in the workspace" in error.message and error.fix.startswith(f"run: rm {place.user} && mv {inside}")


def test_a_detour_through_the_workspace_is_seen(place: Place, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "policy.yaml").write_text(v1("sandbox: {require: none}"))
    (place.workspace / "hop").symlink_to(kept)
    place.config.rmdir()
    place.config.symlink_to(place.workspace / "hop")
    assert "lies in the workspace" in place.refused().message
    alias = tmp_path / "alias"
    alias.symlink_to(place.workspace)
    (place.workspace / "harness").symlink_to(kept)
    assert "lies in the workspace" in place.refused(XDG_CONFIG_HOME=str(alias)).message


@pytest.mark.parametrize(
    ("system", "user", "require", "floor"),
    [
        ("full", "none", "full", "full"),
        ("landlock", "full", "full", "full"),
        ("landlock", "auto", "auto", "landlock"),
        ("auto", "none", "auto", "none"),
        ("auto", "landlock", "auto", "landlock"),
        ("none", "limits", "limits", "limits"),
        ("none", "auto", "auto", "none"),
    ],
)
def test_the_systems_level_is_a_floor(place: Place, system: str, user: str, require: str, floor: str) -> None:
    place.system.write_text(v1(f"sandbox: {{require: {system}}}"))
    place.user.write_text(v1(f"sandbox: {{require: {user}}}"))
    found = place.below_the_systems()
    assert (found.require, found.floor) == (require, floor)


def test_the_systems_keys_are_ceilings(place: Place) -> None:
    place.system.write_text(
        v1("""
sandbox: {limits: {memory: 2G}, tests: [a, b], unconfined: {a: by us}}
network: {hosts: {a: [x.io, y.io], b: any, c: [z.io]}}
env: {a: [ONE, TWO]}
secrets: {TOKEN_A: {tools: [a, b], from: file}}
""")
    )
    assert place.below_the_systems().hosts == {"a": ("x.io", "y.io"), "b": "any", "c": ("z.io",)}
    place.user.write_text(
        v1("""
sandbox: {limits: {memory: 8G, procs: 500}, tests: [b, c], unconfined: {a: by me, b: by me}}
network: {hosts: {a: [y.io, "x.io:8443", w.io], b: [z.io], d: any, c: any}}
env: {a: [TWO, THREE], b: [ONE]}
secrets: {TOKEN_A: {tools: [b, c], from: env}, TOKEN_B: {tools: [a], from: env}}
""")
    )
    found = place.below_the_systems()
    assert (found.limits.memory, found.limits.procs) == (2 * G, 500)
    assert (found.tests, found.unconfined) == ({"b"}, {"a": "by me"})
    assert found.hosts == {"a": ("x.io:8443", "y.io"), "b": ("z.io",), "c": ("z.io",)}
    assert found.env == {"a": ("TWO",)}
    assert found.secrets == {"TOKEN_A": SecretRule(("b",), "file")}


def test_a_projects_file_raises_the_level_and_lowers_limits(place: Place) -> None:
    place.project.write_text(v1("sandbox: {require: landlock, limits: {memory: 1G, procs: 5000}}"))
    found = place.load()
    assert (found.require, found.floor) == ("auto", "landlock")
    assert (found.limits.memory, found.limits.procs) == (G, 128)
    place.user.write_text(v1("sandbox: {require: full}"))
    place.project.write_text(v1("sandbox: {require: none}"))
    assert (place.load().require, place.load().floor) == ("full", "full")


@pytest.mark.parametrize(
    "text",
    [
        *("sandbox: {tests: [x]}", "sandbox: {unconfined: {x: y}}", "network: {hosts: {x: any}}", "network: {}"),
        *("env: {x: [Y]}", "secrets: {}", "rules: [{tool: x, verdict: allow}]"),
    ],
)
def test_a22_a_projects_or_skills_file_can_grant_nothing(place: Place, text: str) -> None:
    place.project.write_text(v1(text))
    assert place.refused().where == f"{place.project}:2"
    with pytest.raises(HarnessError):
        place.below(place.project)


def test_a_skills_file_narrows_like_a_projects(place: Place, tmp_path: Path) -> None:
    assert place.below(tmp_path / "none.yaml") == Settings()
    path = tmp_path / "policy.yaml"
    path.write_text(v1("sandbox: {require: full, limits: {output: 1M}}"))
    found = place.below(path)
    assert (found.require, found.floor, found.limits.output) == ("auto", "full", M)


def test_the_flag_only_raises() -> None:
    assert raised(Settings(), "full").floor == "full"
    assert raised(Settings("limits", "limits"), "auto") == Settings("auto", "limits")
    assert raised(Settings("full", "full"), "full") == Settings("full", "full")
    for settings, word in [(Settings(), "none"), (Settings(), "limits"), (Settings("full", "full"), "landlock")]:
        with pytest.raises(HarnessError, match="would lower the confinement"):
            raised(settings, word)  # type: ignore[arg-type]


def test_a_header_asks_for_less_than_the_policy_gives() -> None:
    tool = Tool("t", Path("bin/t"), roles={"limit": ("memory=1G", "procs=1000", "files=16", "output=1M")})
    assert limits_of(tool, Settings()) == Limits(memory=G, files=16, procs=128, output=M)


def test_the_digest_follows_what_is_said_and_not_how(place: Place) -> None:
    place.user.write_text(WHOLE)
    digest = place.load().digest
    place.user.write_text(WHOLE.replace("[search-logs, tail-logs]", "[tail-logs, search-logs]").replace("8G", "8192M"))
    assert place.load().digest == digest and len(digest) == 64
    place.user.write_text(WHOLE.replace("psql: any", "psql: [db.corp]"))
    assert place.load().digest != digest


AUTHORITY = """
version: 1
effects: {write: ask, external: allow, money: deny}
unattended: deny
approvals: {remember_days: 7, channels: {slack: {users: [U1, U2], channels: [C1]}}}
paths:
  read: [., ~/data]
  write: [out]
  protect: [infra, docs/signed]
  hide: ["*.pem"]
  unprotect: {stage-change: [.git]}
budget: {calls: 100, seconds: 15m, usd: 0.50, money: ["50.00 EUR", 20 USD]}
rules:
  - tool: mail-send
    verdict: allow
    where: {--to: {from: [user]}, --body: {len_max: 4000}}
    why: mail to people I named
    match: [{args: [--to, ann@x.io, --body, hi], goal: "write to ann@x.io"}]
    no_match: [{args: [--to, eve@y.io, --body, hi], goal: "write to ann@x.io"}]
  - {tool: [restart-batch, ops/stop], verdict: ask, where: {--env: {eq: prod, in: [prod, dev]}}}
  - {effect: external, skill: triage, verdict: deny, where: {--out: {under: docs}, --at: {host: [X.io, ".y.io:8443"]}}}
"""


def test_every_key_of_authority_is_read(place: Place) -> None:
    place.user.write_text(AUTHORITY)
    found = place.load()
    assert found.effects == {**DEFAULT_EFFECTS, "write": "ask", "external": "allow", "money": "deny"}
    assert (found.unattended, found.remember_days) == ("deny", 7)
    assert found.channels == {"slack": Channel(("U1", "U2"), ("C1",))}
    work, home = place.workspace.resolve(), place.home.resolve()
    assert (found.read, found.write) == ((str(home / "data"), str(work)), (str(work / "out"),))
    assert (found.protect, found.hide) == ((str(work / "docs/signed"), "infra"), ("*.pem",))
    assert found.unprotect == {"stage-change": (".git",)}
    bounds = {(bound.key, bound.value, bound.currency) for bound in found.budget}
    assert bounds == {("calls", "100", ""), ("seconds", "900", ""), ("usd", "0.50", ""), ("money", "50.00", "EUR"),
                      ("money", "20", "USD")}  # fmt: skip
    assert found.budget[0].place == "~/.config/harness/policy.yaml:12"


def test_rules_are_read_with_their_place_their_tests_and_their_examples(place: Place) -> None:
    place.user.write_text(AUTHORITY)
    mail, restart, deny = place.load().rules
    assert (mail.verdict, mail.tools, mail.why) == ("allow", ("mail-send",), "mail to people I named")
    assert mail.place == "~/.config/harness/policy.yaml:14"
    assert mail.where == (("--to", Test("from", ("user",), True)), ("--body", Test("len_max", ("4000",))))
    assert [(one.tool, one.matches, one.line) for one in mail.examples] == [
        ("mail-send", True, 18), ("mail-send", False, 19)
    ]  # fmt: skip
    assert mail.examples[0].args == ("--to", "ann@x.io", "--body", "hi")
    assert mail.examples[0].goal == "write to ann@x.io"
    assert restart.tools == ("ops/stop", "restart-batch")
    assert restart.where == (("--env", Test("eq", ("prod",))), ("--env", Test("in", ("prod", "dev"), True)))
    assert (deny.tools, deny.effects, deny.skills) == ((), ("external",), ("triage",))
    under, host = (test for _, test in deny.where)
    assert under.wanted == (str(place.workspace.resolve() / "docs"),) and host.wanted == ("x.io", ".y.io:8443")


RULE = "rules:\n  - {tool: t, verdict: ask, where: {--a: {%s}}}\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("effects: {reed: allow}", 2, "near: read"),
        ("effects: {write: alow}", 2, "near: allow"),
        ("effects: {money: allow}", 2, "never allowed unasked"),
        ("effects:\n  destructive: allow", 3, "never allowed unasked"),
        ("effects: {write: named}", 2, "for external only"),
        ("unattended: ask", 2, "unattended cannot be that"),
        ("approvals: {remember: 3}", 2, "near: remember_days"),
        ("approvals: {remember_days: -1}", 2, "a number of days"),
        ("approvals: {channels: {slak: {}}}", 2, "near: slack"),
        ("approvals: {channels: {slack: {users: U1}}}", 2, "wants a list"),
        ("paths: {reed: [.]}", 2, "near: read"),
        ("paths: {read: .}", 2, "wants a list"),
        ("paths: {read: ['~ann/x']}", 2, "is no path"),
        ("paths: {protect: ['a?b']}", 2, "no file's name"),
        ("paths: {hide: ['..']}", 2, "no file's name"),
        ("paths: {hide: ['src/*.txt']}", 2, "is a pattern"), ("paths: {protect: ['src/**']}", 2, "is a pattern"),
        ("paths: {read: ['docs*']}", 2, "is a pattern"),
        ("paths: {unprotect: {t: [.harness]}}", 2, "protected from every tool"),
        ("budget: {call: 3}", 2, "near: calls"),
        ("budget: {calls: 0}", 2, "no positive number"),
        ("budget: {strikes: 7}", 2, "it is only lowered"),
        ("budget: {calls: 1.5}", 2, "no positive number"),
        ("budget: {usd: none}", 2, "for the command line"),
        ("budget: {money: 50}", 2, "no amount with its currency"),
        ("budget: {money: -5 EUR}", 2, "no amount with its currency"),
        ("budget: {money: 1e3 EUR}", 2, "no amount with its currency"),
        ("budget: {money: [5 EUR, 6 EUR]}", 2, "a currency twice"),
        ("budget: {calls: [5]}", 2, "wants a text"),
        ("rules: {}", 2, "rules wants a list"),
        ("rules: [x]", 2, "wants `key: value`"),
        ("rules: [{tool: t}]", 2, "no verdict"),
        ("rules: [{tool: t, verdict: maybe}]", 2, "verdict cannot be that"),
        ("rules: [{tol: t, verdict: ask}]", 2, "near: tool"),
        ("rules: [{verdict: ask}]", 2, "says of no call"),
        ("rules: [{tool: '*', verdict: allow}]", 2, "only with ask or deny"),
        ("rules: [{effect: read, verdict: allow}]", 2, "only with ask or deny"),
        ("rules: [{tool: ['*', t], verdict: ask}]", 2, "stands alone"),
        ("rules: [{tool: [], verdict: ask}]", 2, "tool is empty"),
        ("rules: [{tool: 'a b', verdict: ask}]", 2, "no name of a tool"),
        ("rules: [{effect: reed, verdict: ask}]", 2, "near: read"),
        ("rules: [{skill: '*', verdict: ask}]", 2, "no name of a skill"),
        ("rules: [{tool: t, verdict: ask, verdict: deny}]", 2, "given twice"),
        ("rules: [{tool: t, verdict: ask, where: {--a: x}}]", 2, "wants `key: value`"),
        ("rules: [{tool: t, verdict: ask, where: {'-a': {eq: x}}}]", 2, "is no argument"),
        ("rules: [{tool: t, verdict: ask, where: {--a: {}}}]", 2, "has no test"),
        (RULE % "equals: x", 3, "unknown key"),
        (RULE % "matches: '.*'", 3, "unknown key"),
        (RULE % "eq: ", 3, "wants a value"),
        (RULE % "eq: {}", 3, "wants a value"),
        (RULE % "in: x", 3, "wants a list"),
        (RULE % "in: []", 3, "is empty"),
        (RULE % "max: many", 3, "no finite number"),
        (RULE % "max: .inf", 3, "no finite number"),
        (RULE % "max: nan", 3, "no finite number"),
        (RULE % "max: [1]", 3, "wants one number"),
        (RULE % "len_max: -1", 3, "is no length"),
        (RULE % "len_max: 1.5", 3, "is no length"),
        (RULE % "from: usr", 3, "near: user"),
        (RULE % "from: 'tool:'", 3, "no name of a tool"),
        (RULE % "host: 'https://x.io'", 3, "not host[:port]"),
        (RULE % "host: '*.x.io'", 3, "no host name"),
        (RULE % "host: .10.0.0.1", 3, "no address"),
        (RULE % "under: '~ann'", 3, "is no path"),
        ("rules: [{tool: t, verdict: ask, match: []}]", 2, "match wants a list"),
        ("rules: [{tool: t, verdict: ask, match: [{arg: [a]}]}]", 2, "near: args"),
        ("rules: [{tool: t, verdict: ask, match: [{goal: x}]}]", 2, "match wants args"),
        ("rules: [{tool: t, verdict: ask, match: [{args: a}]}]", 2, "wants a list"),
        ("rules: [{tool: [t, u], verdict: ask, match: [{args: []}]}]", 2, "names no tool"),
        ("rules: [{effect: read, verdict: ask, no_match: [{args: []}]}]", 2, "names no tool"),
    ],
)  # fmt: skip
def test_what_authority_cannot_mean_is_refused_with_its_line(place: Place, text: str, line: int, words: str) -> None:
    place.user.write_text(v1(text))
    error = place.refused()
    assert error.where == f"{place.user}:{line}"
    assert words in error.message


def test_the_systems_authority_is_a_ceiling_and_its_rules_stay(place: Place) -> None:
    place.system.write_text(
        v1("""
effects: {external: ask, write: allow}
unattended: deny
approvals: {remember_days: 10, channels: {slack: {users: [U1], channels: [C1, C2]}}}
paths: {read: [., ~/data], protect: [infra], unprotect: {a: [.git]}}
budget: {calls: 50}
rules: [{tool: t, verdict: deny}]
""")
    )
    place.user.write_text(
        v1("""
effects: {external: allow, write: ask, read: ask}
unattended: park
approvals: {remember_days: 90, channels: {slack: {users: [U1, U2], channels: [C2]}}}
paths: {read: [src, ~/data/in, /etc], protect: [mine], unprotect: {a: [.git], b: [.git]}}
budget: {calls: 500}
rules: [{tool: t, verdict: allow}]
""")
    )
    found = place.below_the_systems()
    assert (found.effects["external"], found.effects["write"], found.effects["read"]) == ("ask", "ask", "ask")
    assert (found.unattended, found.remember_days) == ("deny", 10)
    assert found.channels == {"slack": Channel(("U1",), ("C2",))}
    work, home = place.workspace.resolve(), place.home.resolve()
    assert set(found.read or ()) == {str(work / "src"), str(home / "data" / "in")}
    assert found.protect == ("infra", "mine") and found.unprotect == {"a": (".git",)}
    assert [rule.verdict for rule in found.rules] == ["deny", "allow"]
    assert [bound.value for bound in found.budget] == ["50", "500"]


def test_a_projects_and_a_skills_file_only_narrow_authority(place: Place, tmp_path: Path) -> None:
    place.user.write_text(AUTHORITY)
    place.project.write_text(
        v1("""
effects: {external: named, write: allow, read: deny}
unattended: park
approvals: {remember_days: 30, channels: {slack: {users: [U2, U3]}}}
paths: {read: [src, /etc], write: [.], protect: [more], hide: [secret.txt]}
budget: {calls: 10}
rules: [{tool: t, verdict: ask}]
""")
    )
    found = place.load()
    assert (found.effects["external"], found.effects["write"], found.effects["read"]) == ("named", "ask", "deny")
    assert (found.unattended, found.remember_days) == ("deny", 7)
    assert found.channels == {"slack": Channel(("U2",), ())}
    work = place.workspace.resolve()
    assert (found.read, found.write) == ((str(work / "src"),), (str(work / "out"),))
    assert "more" in found.protect and found.hide == ("*.pem", "secret.txt")
    assert [rule.source for rule in found.rules] == ["user", "user", "user", "project"]
    skill = tmp_path / "policy.yaml"
    skill.write_text(v1("effects: {external: deny}\nrules: [{tool: u, verdict: deny}]"))
    below = place.below(skill, found)
    assert below.effects["external"] == "deny" and [rule.source for rule in below.rules][-1] == "skill"


@pytest.mark.parametrize(
    ("text", "words"),
    [("rules: [{tool: t, verdict: allow}]", "may not allow"), ("paths: {unprotect: {t: [.git]}}", "paths.unprotect"),
     ("sandbox: {tests: [t]}", "sandbox.tests"), ("sandbox: {unconfined: {t: x}}", "sandbox.unconfined")],
)  # fmt: skip
def test_a22_what_a_project_must_not_say(place: Place, text: str, words: str) -> None:
    place.project.write_text(v1(text))
    assert words in place.refused().message


def test_a_projects_roots_lie_in_the_workspace_where_the_user_says_nothing(place: Place) -> None:
    place.project.write_text(v1("paths: {read: [src, ~/data], write: [/]}"))
    found = place.load()
    work = place.workspace.resolve()
    assert (found.read, found.write) == ((str(work / "src"),), (str(work),))


def test_the_digest_follows_rules_and_not_their_lines(place: Place) -> None:
    place.user.write_text(AUTHORITY)
    digest = place.load().digest
    place.user.write_text(AUTHORITY.replace("rules:", "# a word\n\nrules:").replace("people I named", "friends"))
    assert place.load().digest == digest
    place.user.write_text(AUTHORITY.replace("len_max: 4000", "len_max: 4001"))
    assert place.load().digest != digest
    place.user.write_text(AUTHORITY.replace("calls: 100", "calls: 101"))
    assert place.load().digest != digest


def test_lists_that_do_not_meet_are_none_and_stay_none(place: Place, tmp_path: Path) -> None:
    place.user.write_text(v1("paths: {read: [docs], write: [docs]}"))
    place.project.write_text(v1("paths: {read: [out], write: [out]}"))
    found = place.load()
    assert (found.read, found.write) == ((), ())
    skill = tmp_path / "policy.yaml"
    skill.write_text(v1("paths: {read: [.], write: [.]}"))
    below = place.below(skill, found)
    assert (below.read, below.write) == ((), ())
