"""The keys of a policy file that say how tools are confined and what they are given. Whether they may run: `layer`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast, get_args

from harness.documents import Node
from harness.policy import Require
from harness.policy.hosts import normal_place
from harness.policy.layer import From, Hosts, SecretRule
from harness.policy.reading import Reader
from harness.tools.notation import shown

SIZES, COUNTS = ("memory", "file_size", "output"), ("procs", "files")
MADE_HERE = ("PATH", "HOME", "TMPDIR")
PROVIDER_PREFIXES = ("ANTHROPIC_", "OPENAI_")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_SIZE = re.compile(r"([1-9][0-9]{0,11})([KMGT]?)")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def is_provider_key(name: str) -> bool:
    """True for the variables of model providers, which no tool ever gets."""
    return name.upper().startswith(PROVIDER_PREFIXES)


def size_of(text: str) -> int | None:
    """Bytes of `4G`, `256M` or `1000`, a count of `64`; None when it is neither."""
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def read_require(reader: Reader, node: Node, name: str) -> str:
    return reader.word(node, name, get_args(Require))


def read_limits(reader: Reader, node: Node, name: str) -> dict[str, int]:
    found = reader.keys(node, f"{name}.", (*SIZES, *COUNTS))
    return {key: _limit(reader, key, child) for key, child in found.items()}


def _limit(reader: Reader, key: str, node: Node) -> int:
    number = size_of(node.value) if isinstance(node.value, str) else None
    if number is None or (key in COUNTS and not str(node.value).isdecimal()):
        form = "a size such as 4G or 512M" if key in SIZES else "a number such as 64"
        raise reader.error(f"sandbox.limits.{key} wants {form}", f"correct {key}", node.line)
    return number


def read_tests(reader: Reader, node: Node, name: str) -> frozenset[str]:
    return frozenset(reader.names(node, name, reader.tool))


def read_unconfined(reader: Reader, node: Node, name: str) -> dict[str, str]:
    return reader.table(node, name, reader.tool, reader.text)


def read_hosts(reader: Reader, node: Node, name: str) -> dict[str, Hosts]:
    return reader.table(node, name, reader.tool, lambda child, label: _tools_hosts(reader, child, label))


def _tools_hosts(reader: Reader, node: Node, name: str) -> Hosts:
    if node.value == "any":
        return "any"
    if not isinstance(node.value, list):
        raise reader.error(f"{name} wants a list of host[:port], or any", "write `[api.example.org]`", node.line)
    return reader.names(node, name, lambda text, line: _host(reader, text, line))


def _host(reader: Reader, text: str, line: int) -> str:
    """The host in its normal form, with a port only if one was given."""
    try:
        return normal_place(text)
    except ValueError as error:
        raise reader.error(f"{shown(text)} {error}", "write each host out, as host or host:port", line) from None


def _variable(reader: Reader) -> Callable[[str, int], str]:
    def check(text: str, line: int) -> str:
        if text in MADE_HERE or text.startswith("HARNESS_"):
            raise reader.error(f"{text} is made anew for every tool", "take it out", line)
        if not _VARIABLE.fullmatch(text):
            raise reader.error(f"{shown(text)} is no name of a variable", "write one such as PGHOST", line)
        if is_provider_key(text):
            raise reader.error(f"{text} is a model provider's and goes to no tool", "take it out", line)
        return text

    return check


def read_env(reader: Reader, node: Node, name: str) -> dict[str, tuple[str, ...]]:
    return reader.table(node, name, reader.tool, lambda child, label: reader.names(child, label, _variable(reader)))


def read_secrets(reader: Reader, node: Node, name: str) -> dict[str, SecretRule]:
    return reader.table(node, name, _variable(reader), lambda child, label: _secret(reader, child, label))


def _secret(reader: Reader, node: Node, name: str) -> SecretRule:
    found = reader.mapping(node, name)
    for key in found:
        if key not in ("tools", "from"):
            raise reader.error(f"unknown key {shown(f'{name}.{key}')}", "write tools and from", node.key_lines[key])
    if len(found) != 2:
        raise reader.error(f"{name} wants tools and from", "write `{tools: [TOOL], from: env}` after it", node.line)
    source = reader.text(found["from"], f"{name}.from")
    if source == "keyring":
        raise reader.error(f"{name}: keyring is not supported by this version", "use env or file", found["from"].line)
    if source not in ("env", "file"):
        raise reader.error(f"{name}.from is no source", "write env or file", found["from"].line)
    return SecretRule(reader.names(found["tools"], f"{name}.tools", reader.tool), cast(From, source))
