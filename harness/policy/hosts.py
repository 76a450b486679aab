"""Hosts: one normal form of their names, and what a tool's `@meta net` means for one call. Connects to nothing."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from harness.errors import HarnessError
from harness.policy import Level
from harness.tools import Tool, Value
from harness.tools.notation import shown

if TYPE_CHECKING:
    from harness.policy.settings import Settings

Place = tuple[str, int]
"""A host in its normal form, and a port."""

DEFAULT_PORT = 443
_PORTS = {"http": 80, "ws": 80, "ftp": 21, "ssh": 22}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class Grant:
    """Where one call may connect: these places, or any host. Of `private_ok` the user's policy lists the host."""

    allow: tuple[Place, ...] = ()
    private_ok: frozenset[Place] = frozenset()
    any: bool = False

    def network(self, level: Level) -> Literal["off", "proxy", "host"]:
        """What is really given at a level: the proxy, which knows places, is there at full alone."""
        if not self.allow and not self.any:
            return "off"
        return "proxy" if level == "full" and not self.any else "host"

    def hosts(self) -> tuple[str, ...]:
        """The places, or `any host`."""
        return ("any host",) if self.any else tuple(place_text(place) for place in self.allow)

    def text(self, level: Level) -> str:
        """`network api.x.io:443` or `network any host`, as a person is told; empty without network."""
        network = self.network(level)
        if network == "proxy":
            return f"network {' '.join(place_text(place) for place in self.allow)}"
        return "network any host" if network == "host" else ""


def normal_host(text: str) -> str:
    """The host in lower case without a final dot, an address in its usual form. ValueError says what it is not.

    Only ASCII names are taken: what an international name stands for depends on who reads it, its `xn--` form does
    not. Of addresses only the usual form is: no numbers in other notations, no zone, no IPv4 inside IPv6.
    """
    if not text.isascii():
        raise ValueError("is not ASCII; write its xn-- form")
    if text.startswith("[") or ":" in text:
        return _address6(text)
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _address4(name)
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("is no host name")
    return name


def _address4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError:
        raise ValueError("is no address in the form 192.0.2.1") from None


def _address6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise ValueError("is no address in the form [2001:db8::1]") from None
    if address.scope_id or address.ipv4_mapped:
        raise ValueError("is an address with a zone or with an IPv4 address in it")
    return str(address)


def place_of(text: str, port: int | None = DEFAULT_PORT) -> Place:
    """`host[:port]` as a place; `port` is the one that holds if none is given, None if one must be. ValueError."""
    found = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", text, re.ASCII)
    if found is None:
        raise ValueError("is not host[:port]")
    number = int(found[2]) if found[2] else port
    if number is None or not 0 < number < 65536:
        raise ValueError("has no port from 1 to 65535")
    return normal_host(found[1]), number


def normal_place(text: str) -> str:
    """`host` or `host:port` in its normal form, with a port only if one was given. ValueError says what it is not."""
    place = place_of(text)
    return place_text(place) if place == place_of(text, 1) else place_text(place).rpartition(":")[0]


def place_text(place: Place) -> str:
    """`host:port`, an IPv6 address in brackets."""
    host, port = place
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def place_in(text: str, *, userinfo: bool) -> Place:
    """The place that a URL or `host[:port]` names. `userinfo`: a URL may carry one (never shown). ValueError."""
    if "://" not in text:
        return place_of(text)
    try:
        url = urlsplit(text)
    except ValueError:
        raise ValueError("is no URL") from None
    if "\\" in text or not text.isprintable():
        raise ValueError("is no URL")
    if "@" in url.netloc and not userinfo:
        raise ValueError("is a URL with a user in it")
    return place_of(url.netloc.rpartition("@")[2], _PORTS.get(url.scheme, DEFAULT_PORT))


def hosts_of(tool: Tool, values: Mapping[str, Value], env: Mapping[str, str], settings: Settings) -> Grant:
    """What `@meta net` of a tool means for a call with these values.

    `values` as `tools.arguments.parse` gives them; `env` holds the variables the tool gets, secrets included, by name.
    An argument that was not given and a variable without a value name no host. A tool that declares no network has
    none. Raises HarnessError for a value that names no host; a variable's value is not in its text.
    """
    words = [word for word in tool.net if word != "none"]
    listed = settings.hosts.get(tool.name, ())
    if listed == "any":
        return Grant(any=bool(words))
    allow = tuple(dict.fromkeys(place for word in words for place in _places(tool, word, values, env)))
    return Grant(allow, frozenset(place for place in allow if lists(listed, place)))


def is_argument(tool: Tool, word: str) -> bool:
    """Whether a word of `@meta net` is an argument of the tool, so that a call names the host."""
    return word.startswith("--") or any(one.kind == "arg" and one.name == word for one in tool.parameters)


def lists(listed: tuple[str, ...] | str, place: Place) -> bool:
    """Whether a list names the place, or its host with no port."""
    return place_text(place) in listed or place_text((place[0], 0)).removesuffix(":0") in listed


def _places(tool: Tool, word: str, values: Mapping[str, Value], env: Mapping[str, str]) -> list[Place]:
    name = word.removeprefix("--")
    if is_argument(tool, word):
        value = values.get(name, ())
        texts = (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ()
        return [_place(tool, f"{word} {shown(text)}", text) for text in texts]
    if any(variable.name == word for variable in tool.env):
        text = env.get(word)
        return [_place(tool, f"the value of {word}", text, userinfo=True)] if text else []
    return [_place(tool, shown(word), word)]


def _place(tool: Tool, label: str, text: str, *, userinfo: bool = False) -> Place:
    try:
        return place_in(text, userinfo=userinfo)
    except ValueError as error:
        raise HarnessError(f"{label} {error}", "give a host, host:port or URL", tool.name) from None
