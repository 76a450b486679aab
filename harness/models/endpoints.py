"""Where a chat-completions model is: its base URL, its key, and what the server said about itself beforehand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from harness.errors import HarnessError
from harness.models import FREE, Failure, ModelRef
from harness.models.memory import Form
from harness.models.prices import facts_of
from harness.models.wire import is_loopback
from harness.secrets import held

OWN_BASE = "https://api.openai.com/v1"
KEY_VARIABLE = "OPENAI_API_KEY"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model is: `base` ends without a slash; `key`, kept as `key_name`, is sent there and nowhere else.

    `window` (tokens) is asked for at each request, None where it is unknown; `cuts` says that the server drops the
    front of a longer prompt silently, and `cut_fix` what helps. `start` is the form to begin with, why there is nothing
    to begin with, or None where the server does not say.
    """

    base: str
    name: str
    key: str | None = None
    key_name: str = ""
    window: Callable[[], int | None] = lambda: None
    start: Callable[[], Form | Failure | None] = lambda: None
    cut_fix: str = "give the server a longer context"
    cuts: bool = False


def openai_endpoint(text: str, env: Mapping[str, str], keys: Mapping[str, str] | None = None) -> Endpoint:
    """The endpoint of `NAME[@BASE_URL]`. `keys` are the names of the keys that the user gives to bases."""
    name, base = split_name(text)
    base = base or OWN_BASE
    key_name, key = key_of(base, env, {OWN_BASE: KEY_VARIABLE} | dict(keys or {}))
    return Endpoint(base, name, key, key_name)


def key_of(base: str, env: Mapping[str, str], keys: Mapping[str, str]) -> tuple[str, str | None]:
    """(name, value) of the key for a base, which `keys` may name without its `/v1`; ("", None) where it needs none.

    Raises HarnessError (exit 4) for a value that no header can hold.
    """
    name = keys.get(base) or keys.get(base.removesuffix("/v1")) or ""
    return name, usable_key(name, held(name, env)) if name else None


def served(scheme: str, name: str, source: str, base: str) -> ModelRef:
    """The model of this name at a base. What answers on this machine costs nothing, unless the user says otherwise."""
    facts = facts_of(f"{scheme}:{name}")
    if facts.price is None and is_loopback(base):
        facts = replace(facts, price=FREE)
    return ModelRef(scheme, name, source, base_url=base, facts=facts)


def split_name(text: str) -> tuple[str, str | None]:
    """`NAME[@BASE_URL]` as (name, base without a slash at its end or None): the last `@http` divides."""
    at = max(text.rfind("@http://"), text.rfind("@https://"))
    return (text, None) if at < 0 else (text[:at], text[at + 1 :].rstrip("/"))


def check_name(scheme: str, text: str, source: str) -> None:
    """Raises HarnessError for a string that names no model or no base that can be used."""
    name, base = split_name(text)
    if not name:
        raise HarnessError(f"{scheme}: names no model", f"write {scheme}:NAME", source)
    other = name.rpartition("@")[2] if "://" in name else ""
    if other:
        raise HarnessError(f"{other} in {scheme}:{text} is no base URL", "write one with http:// or https://", source)
    host = re.search(r"@((localhost|[\w.-]+:[0-9]+|[\w-]+(\.[\w-]+)+(?=/))(/.*)?)$", name) if base is None else None
    if host is not None:  # else it, and the key, would go to the scheme's own address
        fix = f"write {scheme}:{name[: host.start()]}@http://{host[1]}"
        raise HarnessError(f"{host[1]} in {scheme}:{text} is no base URL", fix, source)
    if base is not None:
        check_base(base, f"write {scheme}:NAME@http://HOST:PORT/v1", source)


def check_base(base: str, fix: str, source: str) -> None:
    """Raises HarnessError for a URL that no request can be sent to, or that holds more than an address."""
    if "@" in base.partition("://")[2].partition("/")[0] or "?" in base or "#" in base:
        what = "a base URL holds neither user nor password, no ? and no #: it is shown, and kept in journals"
        raise HarnessError(what, "give the key apart from it, by its variable or in your own config", source)
    try:
        url = urlsplit(base)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        usable = False
    if not usable or any(ord(letter) <= 32 or ord(letter) > 126 for letter in base):
        raise HarnessError(f"{base!r} is no base URL", fix, source)


def usable_key(name: str, text: str | None) -> str | None:
    """A key as it goes into a header. Raises HarnessError (exit 4) for what no header can hold."""
    key = (text or "").strip()
    if not all(33 <= ord(letter) <= 126 for letter in key):
        raise HarnessError("the key holds letters that no key has", f"set {name} anew", code=4)
    return key or None

