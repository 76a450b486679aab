"""Reading the value of one setting: each takes a text or a list and raises ValueError with the form wanted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from harness.errors import near_text
from harness.tools.notation import parse_duration

_FUSE = re.compile(r"fuse(blk)?(\.[\w.-]+)?|virtiofs")
ONLY_FOR = {"OPENAI_API_KEY": "https://api.openai.com/", "ANTHROPIC_API_KEY": "https://api.anthropic.com/"}


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value.strip()


def one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError(f"one of {', '.join(words)}{near_text(str(value), words)}")
        return str(value)

    return read


def whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,9}", value) or not low <= int(value) <= high:
            raise ValueError(f"a whole number from {low} to {high}")
        return int(value)

    return read


def share(value: Any) -> float:
    """A number from 0 to 1."""
    if not isinstance(value, str) or not re.fullmatch(r"0(\.[0-9]{1,9})?|1(\.0{1,9})?", value):
        raise ValueError("a number from 0 to 1")
    return float(value)


def time_limit(value: Any) -> float:
    """`90`, `90s`, `15m` or `2h` as seconds."""
    limit = parse_duration(value) if isinstance(value, str) else None
    if limit is None or not 1 <= limit <= 86400:
        raise ValueError("a duration from 1s to 24h")
    return limit


def folders(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ValueError("a list of folders")
    return tuple(value)


def fuse_types(value: Any) -> tuple[str, ...]:
    """Types of file systems as /proc/self/mountinfo names them; those of the network are no matter of choice."""
    if not isinstance(value, list) or not all(isinstance(item, str) and _FUSE.fullmatch(item) for item in value):
        raise ValueError("a list of FUSE file systems, such as fuse.sshfs")
    return tuple(value)


def amount(value: Any) -> str:
    """USD, 0 or more, as it is written."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", value):
        raise ValueError("an amount of USD, such as 10")
    return value


def stand_ins(value: Any) -> dict[str, tuple[tuple[str, bool], ...]]:
    """`{strong: [MODEL, {model: MODEL, dearer: yes}]}` as role → (model string, whether it may be dearer)."""
    if not isinstance(value, dict) or not set(value) <= {"strong", "cheap"}:
        raise ValueError("strong: or cheap: with a list of models")
    return {role: tuple(_stand_in(item) for item in _listed(chain)) for role, chain in value.items()}


def _listed(chain: Any) -> list[Any]:
    if not isinstance(chain, list):
        raise ValueError("a list of models for each role")
    return chain


def _stand_in(item: Any) -> tuple[str, bool]:
    given = {"model": item} if isinstance(item, str) else item
    if not isinstance(given, dict) or not set(given) <= {"model", "dearer"} or not isinstance(given.get("model"), str):
        raise ValueError("a model, or {model: MODEL, dearer: yes}")
    if given.get("dearer", "no") not in ("yes", "no"):
        raise ValueError("dearer: yes or no")
    return given["model"], given.get("dearer") == "yes"


def endpoint_keys(value: Any) -> dict[str, str]:
    """`{URL: {key: NAME}}` as base URL without a slash at its end → the name under which its key is kept."""
    if not isinstance(value, dict):
        raise ValueError("`URL: {key: NAME}` lines")
    return {url.rstrip("/"): _key_name(url, given) for url, given in value.items()}


def _key_name(url: str, given: Any) -> str:
    name = given.get("key") if isinstance(given, dict) and set(given) == {"key"} else None
    if not re.match(r"https?://[^/\s]", url) or not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError("`URL: {key: NAME}` lines, NAME being that of a variable or of a file of secrets")
    if not url.startswith(ONLY_FOR.get(name, "")):
        raise ValueError(f"another name than {name}, which goes to {ONLY_FOR[name]} only")
    return name
