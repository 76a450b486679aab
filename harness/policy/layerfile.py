"""One policy file as values: every key checked, whatever is unknown refused with its line. Merges nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

from harness.documents import Node
from harness.errors import HarnessError
from harness.policy import DEFAULT_EFFECTS, RELAXABLE, SETTINGS, Bound, Rule, Setting, confinement
from harness.policy.layer import Channel, Layer
from harness.policy.reading import Reader
from harness.tools.notation import BUDGET_KEYS, shown

KEYS = ("version", "effects", "unattended", "approvals", "paths", "sandbox", "network", "env", "secrets", "budget",
        "rules")  # fmt: skip
SANDBOX = ("require", "limits", "tests", "unconfined")
PATHS = ("read", "write", "protect", "hide", "unprotect")
SECTIONS = {"sandbox": SANDBOX, "network": ("hosts",), "paths": PATHS, "approvals": ("remember_days", "channels")}
NARROWING = {
    "version", "effects", "unattended", "approvals", "approvals.remember_days", "approvals.channels", "paths",
    "paths.read", "paths.write", "paths.protect", "paths.hide", "sandbox", "sandbox.require", "sandbox.limits",
    "budget", "rules",
}  # fmt: skip
"""What a file that can only narrow may hold."""
GIT = ".git"
"""The one protected name that a tool may be let write."""


def read_layer(root: Node, reader: Reader) -> Layer:
    """The values of a file whose content is `root`. Raises HarnessError with file, line and fix."""
    top = reader.keys(root, "", KEYS)
    if "version" not in top:
        raise reader.error("`version: 1` is missing", "begin the file with it", root.line)
    if top["version"].value != "1":
        raise reader.error("version is not 1", "write `version: 1`", root.key_lines["version"])
    parts = {name: reader.keys(top[name], f"{name}.", known) for name, known in SECTIONS.items() if name in top}
    for prefix, node in [("", root), *((f"{name}.", top[name]) for name in parts)]:
        _refuse_grants(reader, node, prefix)
    found: dict[str, Any] = {}
    for section, known in {**parts, "": top}.items():
        for key, child in known.items():
            name = f"{section}.{key}".strip(".")
            if name in _FIELDS:
                field_name, read = _FIELDS[name]
                found[field_name] = read(reader, child, name)
    return Layer(**found)


def _refuse_grants(reader: Reader, node: Node, prefix: str) -> None:
    """Whatever came with a project or a skill may ask for less, never for more."""
    for key in node.value if reader.narrows and isinstance(node.value, dict) else ():
        if f"{prefix}{key}" not in NARROWING:
            fix = "take it out; a person sets it in the user's own policy.yaml"
            message = f"a {reader.kind}'s policy only narrows and may not set {prefix}{key}"
            raise reader.error(message, fix, node.key_lines[key])


def _effects(reader: Reader, node: Node, name: str) -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for effect, child in reader.keys(node, "effects.", tuple(DEFAULT_EFFECTS)).items():
        word = reader.word(child, f"{name}.{effect}", SETTINGS)
        if word == "allow" and effect not in RELAXABLE:
            raise reader.error(f"{effect} is never allowed unasked", "write ask or deny", child.line)
        if word == "named" and effect != "external":
            raise reader.error("named is for external only", "write allow, ask or deny", child.line)
        found[effect] = cast(Setting, word)
    return found


def _one_of(*words: str) -> Callable[[Reader, Node, str], str]:
    return lambda reader, node, name: reader.word(node, name, words)


def _days(reader: Reader, node: Node, name: str) -> int:
    if not isinstance(node.value, str) or not re.fullmatch(r"[0-9]{1,4}", node.value):
        raise reader.error(f"{name} wants a number of days", "write one such as 30; 0 remembers nothing", node.line)
    return int(node.value)


def _channels(reader: Reader, node: Node, name: str) -> dict[str, Channel]:
    found = {}
    for kind, child in reader.keys(node, f"{name}.", ("slack",)).items():
        parts = reader.keys(child, f"{name}.{kind}.", ("users", "channels"))
        lists = {key: reader.names(one, f"{name}.{kind}.{key}", lambda text, _: text) for key, one in parts.items()}
        found[kind] = Channel(**lists)
    return found


def _roots(reader: Reader, node: Node, name: str) -> tuple[str, ...]:
    return reader.names(node, name, reader.root)


def _names_or_places(reader: Reader, node: Node, name: str) -> tuple[str, ...]:
    return reader.names(node, name, reader.name_or_place)


def _unprotect(reader: Reader, node: Node, name: str) -> dict[str, tuple[str, ...]]:
    def git(text: str, line: int) -> str:
        if text != GIT:
            raise reader.error(f"{shown(text)} is protected from every tool", f"only {GIT} can be named", line)
        return text

    return reader.table(node, name, reader.tool, lambda child, label: reader.names(child, label, git))


def _rules(reader: Reader, node: Node, name: str) -> tuple[Rule, ...]:
    from harness.policy.rulefile import read_rules  # loads decimals, which a look at the other keys can do without

    return read_rules(reader, node)


def _budget(reader: Reader, node: Node, name: str) -> tuple[Bound, ...]:
    from harness.policy.budget import MONEY

    found: list[Bound] = []
    for key, child in reader.keys(node, f"{name}.", BUDGET_KEYS).items():
        for one in child.value if key == MONEY and isinstance(child.value, list) else [child]:
            found.append(_bound(reader, key, one))
    currencies = [bound.currency for bound in found if bound.currency]
    if len(set(currencies)) < len(currencies):
        raise reader.error("budget.money names a currency twice", "keep one of them", node.key_lines[MONEY])
    return tuple(found)


def _bound(reader: Reader, key: str, node: Node) -> Bound:
    from harness.policy.budget import checked

    try:
        value = checked(key, reader.text(node, f"budget.{key}"))
    except HarnessError as error:
        raise reader.error(error.message, f"correct budget.{key}", node.line) from None
    if value == "none":
        raise reader.error("budget.usd=none is for the command line", "take it out", node.line)
    amount, _, currency = value.partition(" ")
    return Bound(key, amount, reader.place(node.line), reader.kind, currency)


_FIELDS: Mapping[str, tuple[str, Callable[[Reader, Node, str], Any]]] = {
    "effects": ("effects", _effects),
    "unattended": ("unattended", _one_of("park", "deny")),
    "approvals.remember_days": ("remember_days", _days),
    "approvals.channels": ("channels", _channels),
    "paths.read": ("read", _roots),
    "paths.write": ("write", _roots),
    "paths.protect": ("protect", _names_or_places),
    "paths.hide": ("hide", _names_or_places),
    "paths.unprotect": ("unprotect", _unprotect),
    "sandbox.require": ("require", confinement.read_require),
    "sandbox.limits": ("limits", confinement.read_limits),
    "sandbox.tests": ("tests", confinement.read_tests),
    "sandbox.unconfined": ("unconfined", confinement.read_unconfined),
    "network.hosts": ("hosts", confinement.read_hosts),
    "env": ("env", confinement.read_env),
    "secrets": ("secrets", confinement.read_secrets),
    "budget": ("budget", _budget),
    "rules": ("rules", _rules),
}
"""A key → the field of a layer, and what reads it."""
