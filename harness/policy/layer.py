"""One policy file as values: every key checked, whatever is unknown refused with its line. Merges nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from harness.documents import Node
from harness.errors import HarnessError, near_text
from harness.policy import Require
from harness.policy.hosts import DEFAULT_PORT, place_of, place_text
from harness.tools.notation import shown

Kind = Literal["system", "user", "project", "skill"]
Source = Literal["env", "file"]
Hosts = tuple[str, ...] | Literal["any"]
T = TypeVar("T")

SIZES, COUNTS = ("memory", "file_size", "output"), ("procs", "files")
KEYS = ("version", "sandbox", "network", "env", "secrets")
NOT_YET = ("effects", "unattended", "approvals", "paths", "budget", "rules")
SANDBOX = ("require", "limits", "tests", "unconfined")
NARROWING = {"version", "sandbox", "sandbox.require", "sandbox.limits"}
"""What a file that can only narrow may hold; of a deeper key the first two parts count."""

MADE_HERE = ("PATH", "HOME", "TMPDIR")
PROVIDER_PREFIXES = ("ANTHROPIC_", "OPENAI_")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TOOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SIZE = re.compile(r"([1-9][0-9]{0,11})([KMGT]?)")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


@dataclass(frozen=True, slots=True)
class SecretRule:
    """The tools that get a secret, and where its value is kept: the harness's environment, or a file of its own."""

    tools: tuple[str, ...]
    source: Source


@dataclass(frozen=True, slots=True)
class Layer:
    """What one file says; None for a key that it does not have."""

    require: Require | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    tests: frozenset[str] | None = None
    unconfined: Mapping[str, str] | None = None
    hosts: Mapping[str, Hosts] | None = None
    env: Mapping[str, tuple[str, ...]] | None = None
    secrets: Mapping[str, SecretRule] | None = None


def is_provider_key(name: str) -> bool:
    """True for the variables of model providers, which no tool ever gets."""
    return name.upper().startswith(PROVIDER_PREFIXES)


def size_of(text: str) -> int | None:
    """Bytes of `4G`, `256M` or `1000`, a count of `64`; None when it is neither."""
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def read_layer(root: Node, path: Path, kind: Kind) -> Layer:
    """The values of a file whose content is `root`. Raises HarnessError with file, line and fix."""
    return _Reader(path, kind).layer(root)


class _Reader:
    """Reads one file; its state is the place that errors name."""

    def __init__(self, path: Path, kind: Kind) -> None:
        self.path, self.kind = path, kind

    def error(self, message: str, fix: str, line: int) -> HarnessError:
        return HarnessError(message, fix, f"{self.path}:{line}")

    def layer(self, root: Node) -> Layer:
        top = self.keys(root, "", KEYS)
        if "version" not in top:
            raise self.error("`version: 1` is missing", "begin the file with it", root.line)
        if top["version"].value != "1":
            raise self.error("version is not 1", "write `version: 1`", root.key_lines["version"])
        box = self.keys(top["sandbox"], "sandbox.", SANDBOX) if "sandbox" in top else {}
        net = self.keys(top["network"], "network.", ("hosts",)) if "network" in top else {}
        return Layer(
            require=self.require(box["require"]) if "require" in box else None,
            limits=self.limits(box["limits"]) if "limits" in box else {},
            tests=frozenset(self.names(box["tests"], "sandbox.tests", self.tool)) if "tests" in box else None,
            unconfined=self.table(box, "unconfined", "sandbox.unconfined", self.tool, self.reason),
            hosts=self.table(net, "hosts", "network.hosts", self.tool, self.hosts),
            env=self.table(top, "env", "env", self.tool, self.variables),
            secrets=self.table(top, "secrets", "secrets", self.variable, self.secret),
        )

    def mapping(self, node: Node, name: str) -> dict[str, Node]:
        if not isinstance(node.value, dict):
            raise self.error(f"{name or 'the file'} wants `key: value` lines", "write them one a line", node.line)
        for key, line in node.duplicates:
            raise self.error(f"{shown(key)} is given twice", "keep one of them", line)
        return node.value

    def keys(self, node: Node, prefix: str, known: tuple[str, ...]) -> dict[str, Node]:
        """The keys of a mapping, all of them known and allowed in this kind of file."""
        found = self.mapping(node, prefix.removesuffix("."))
        for key in found:
            line = node.key_lines[key]
            if not prefix and key in NOT_YET:
                raise self.error(f"{key} is not supported by this version", "take it out", line)
            if key not in known:
                message = f"unknown key {shown(prefix + key)}{near_text(key, known)}"
                raise self.error(message, "correct the key or take it out", line)
            if self.kind in ("project", "skill") and ".".join((prefix + key).split(".")[:2]) not in NARROWING:
                fix = "take it out; a person sets it in the user's own policy.yaml"
                raise self.error(f"a {self.kind}'s policy only narrows and may not set {prefix + key}", fix, line)
        return found

    def table(
        self,
        parent: Mapping[str, Node],
        key: str,
        name: str,
        check: Callable[[str, int], str],
        read: Callable[[Node, str], T],
    ) -> dict[str, T] | None:
        """A mapping of names of one kind to values of one kind, or None where the key is not there."""
        if key not in parent:
            return None
        node = parent[key]
        found = self.mapping(node, name)
        return {check(one, node.key_lines[one]): read(child, f"{name}.{one}") for one, child in found.items()}

    def text(self, node: Node, name: str) -> str:
        if not isinstance(node.value, str) or not node.value.strip():
            raise self.error(f"{name} wants a text", "write one value after it", node.line)
        return node.value.strip()

    def names(self, node: Node, name: str, check: Callable[[str, int], str]) -> tuple[str, ...]:
        if not isinstance(node.value, list) or any(not isinstance(item.value, str) for item in node.value):
            raise self.error(f"{name} wants a list of names", f"write `{name.rpartition('.')[2]}: [NAME]`", node.line)
        return tuple(sorted({check(str(item.value), item.line) for item in node.value}))

    def tool(self, text: str, line: int) -> str:
        if not _TOOL.fullmatch(text):
            raise self.error(f"{shown(text)} is no name of a tool", "name each tool", line)
        return text

    def variable(self, text: str, line: int) -> str:
        if text in MADE_HERE or text.startswith("HARNESS_"):
            raise self.error(f"{text} is made anew for every tool", "take it out", line)
        if not _VARIABLE.fullmatch(text):
            raise self.error(f"{shown(text)} is no name of a variable", "write one such as PGHOST", line)
        if is_provider_key(text):
            raise self.error(f"{text} is a model provider's and goes to no tool", "take it out", line)
        return text

    def variables(self, node: Node, name: str) -> tuple[str, ...]:
        return self.names(node, name, self.variable)

    def reason(self, node: Node, name: str) -> str:
        return self.text(node, name)

    def require(self, node: Node) -> Require:
        words = get_args(Require)
        if node.value not in words:
            near = near_text(str(node.value), words) if isinstance(node.value, str) else ""
            raise self.error(f"sandbox.require is no level{near}", f"write one of {', '.join(words)}", node.line)
        return cast(Require, node.value)

    def limits(self, node: Node) -> dict[str, int]:
        found = self.keys(node, "sandbox.limits.", (*SIZES, *COUNTS))
        return {key: self.limit(key, child) for key, child in found.items()}

    def limit(self, key: str, node: Node) -> int:
        number = size_of(node.value) if isinstance(node.value, str) else None
        if number is None or (key in COUNTS and not str(node.value).isdecimal()):
            form = "a size such as 4G or 512M" if key in SIZES else "a number such as 64"
            raise self.error(f"sandbox.limits.{key} wants {form}", f"correct {key}", node.line)
        return number

    def hosts(self, node: Node, name: str) -> Hosts:
        if node.value == "any":
            return "any"
        if not isinstance(node.value, list):
            raise self.error(f"{name} wants a list of host[:port], or any", "write `[api.example.org]`", node.line)
        return self.names(node, name, self.host)

    def host(self, text: str, line: int) -> str:
        """The host in its normal form, with a port only if one was given."""
        try:
            place = place_of(text, DEFAULT_PORT)
            return place_text(place) if place == place_of(text, 1) else place_text(place).rpartition(":")[0]
        except ValueError as error:
            raise self.error(f"{shown(text)} {error}", "write each host out, as host or host:port", line) from None

    def secret(self, node: Node, name: str) -> SecretRule:
        found = self.mapping(node, name)
        for key in found:
            if key not in ("tools", "from"):
                raise self.error(f"unknown key {shown(f'{name}.{key}')}", "write tools and from", node.key_lines[key])
        if len(found) != 2:
            raise self.error(f"{name} wants tools and from", "write `{tools: [TOOL], from: env}` after it", node.line)
        source = self.text(found["from"], f"{name}.from")
        if source == "keyring":
            raise self.error(f"{name}: keyring is not supported by this version", "use env or file", found["from"].line)
        if source not in ("env", "file"):
            raise self.error(f"{name}.from is no source", "write env or file", found["from"].line)
        return SecretRule(self.names(found["tools"], f"{name}.tools", self.tool), cast(Source, source))
