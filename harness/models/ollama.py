"""What an Ollama server says about itself: which models it has, what each can do, how long a prompt it reads.

Its chat goes through the adapter for chat-completions. Asked directly, without proxies, and never for long: a server
that does not answer is one that says nothing.
"""

from __future__ import annotations

import json
import os
import queue
import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.errors import HarnessError
from harness.models import Failure, Model, ModelRef, Opening
from harness.models.endpoints import Endpoint, check_base, check_name, key_of, served, split_name
from harness.models.failures import failure
from harness.models.memory import Form, memory_file
from harness.models.prices import facts_of
from harness.models.wire import is_loopback

if TYPE_CHECKING:
    from harness.skills import Skill

PORT, DEFAULT_WINDOW = 11434, 4096
CHOICE_S, FACTS_S = 0.3, 2.0
_MOST = 4 * 1024 * 1024
_NAME = re.compile(r"\w[\w./:-]*")
"""Of what a server lists: what else it says could lead a prompt elsewhere, or write on a terminal."""
CUT_FIX = "start the server with a larger OLLAMA_CONTEXT_LENGTH"


def named(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """The model `NAME[@BASE_URL]`. Raises HarnessError for a string that names none, or no base that can be used."""
    check_name("ollama", name, source)
    if split_name(name)[1] is None and not is_readable(os.environ):
        what = f"OLLAMA_HOST is {os.environ['OLLAMA_HOST']!r}, which names no host and port"
        raise HarnessError(what, "write OLLAMA_HOST=HOST:PORT or unset it", "env OLLAMA_HOST")
    base = base_of(name, os.environ)
    check_base(base, "write OLLAMA_HOST=HOST:PORT or unset it", "env OLLAMA_HOST")
    ref = served("ollama", name, source, base)
    is_known = facts_of(ref.text).price is not None
    return ref if is_known else replace(ref, facts=replace(ref.facts, window=DEFAULT_WINDOW))


def opened(ref: ModelRef, how: Opening) -> Model:
    """The model; whether its server is there is seen at the first call. Raises HarnessError for a key that is none."""
    from harness.models.openai import OpenAI  # whoever only asks which model runs does without it

    return OpenAI(endpoint(ref.name, os.environ, how.keys), ref=ref, file=memory_file(os.environ))


def base_of(text: str, env: Mapping[str, str]) -> str:
    """The base URL of `NAME[@BASE_URL]`, which may be given with `/v1` or without.

    Without one it is `$OLLAMA_HOST` as Ollama's own client reads it, else loopback.
    """
    given = split_name(text)[1] or _host(env.get("OLLAMA_HOST", "").strip())
    return given if given.endswith("/v1") else f"{given}/v1"


def is_readable(env: Mapping[str, str]) -> bool:
    """Whether `$OLLAMA_HOST` names a host and a port: Ollama's own client takes the default in place of another one."""
    with suppress(ValueError):
        return urlsplit(f"//{env.get('OLLAMA_HOST', '').strip().rpartition('://')[2]}").port != 0
    return False


def _host(text: str) -> str:
    scheme, divider, rest = text.partition("://")
    if not divider:
        scheme, rest = "http", text
    authority, _, path = rest.rstrip("/").partition("/")
    host, port = "127.0.0.1", None
    with suppress(ValueError):
        url = urlsplit(f"//{authority}")
        host, port = url.hostname or host, url.port
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # where a server listens is not where it is
    standard = {"https": 443, "http": 80 if divider else PORT}.get(scheme, PORT)
    name = f"[{host}]" if ":" in host else host
    return f"{scheme}://{name}:{port or standard}" + (f"/{path}" if path else "")


def endpoint(text: str, env: Mapping[str, str], keys: Mapping[str, str] | None = None) -> Endpoint:
    """The endpoint of `NAME[@BASE_URL]`. `keys` are the names of the keys that the user gives to bases."""
    name, base = split_name(text)[0], base_of(text, env)
    root = base.removesuffix("/v1")
    key_name, key = key_of(base, env, keys or {})
    return Endpoint(
        base, name, key, key_name, lambda: window(root, name), lambda: first_form(root, name), CUT_FIX, cuts=True
    )


def first_form(root: str, name: str) -> Form | Failure | None:
    """How a model is asked at first, by what it can do; a failure for one that is not there."""
    status, found = ask(root, "/api/show", {"model": name}, FACTS_S)
    if status == 404 and isinstance(found, dict) and isinstance(found.get("error"), str):
        return failure("unknown_model", f"Ollama has no model {name}: ollama pull {name}")
    able = found.get("capabilities") if isinstance(found, dict) else None
    return None if not isinstance(able, list) else Form("tools" if "tools" in able else "json")


def window(root: str, name: str) -> int | None:
    """Tokens that a loaded model reads; None for one that is not loaded, which reads DEFAULT_WINDOW or more."""
    for model in _models(ask(root, "/api/ps", None, FACTS_S)[1]):
        length = model.get("context_length")
        if _same(name, _name(model)) and isinstance(length, int) and length > 0:
            return length
    return None


def running_model(env: Mapping[str, str]) -> tuple[str | None, list[str]]:
    """(the model to take by itself, those there are) of an Ollama on this machine, within 300 ms.

    One that is the only one, or the only one loaded. No model and none listed when nothing answers.
    """
    root, until = base_of("", env).removesuffix("/v1"), time.monotonic() + CHOICE_S
    if not is_readable(env) or not is_loopback(root):
        return None, []
    listed = _names(ask(root, "/api/tags", None, CHOICE_S)[1])
    if len(listed) == 1:
        return listed[0], listed
    left = until - time.monotonic()
    loaded = _names(ask(root, "/api/ps", None, left)[1]) if listed and left > 0 else []
    return (loaded[0] if len(loaded) == 1 else None), listed


def _models(found: Any) -> list[dict[str, Any]]:
    held = found.get("models") if isinstance(found, dict) else None
    return [model for model in held if isinstance(model, dict)] if isinstance(held, list) else []


def _name(model: Mapping[str, Any]) -> str:
    found = model.get("name") or model.get("model")
    return found if isinstance(found, str) else ""


def _names(found: Any) -> list[str]:
    return [name for model in _models(found) if _NAME.fullmatch(name := _name(model))]


def _same(wanted: str, found: str) -> bool:
    """`llama3` is `llama3:latest`."""
    return found in (wanted, f"{wanted}:latest")


def ask(root: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> tuple[int, Any]:
    """(status, parsed JSON) of a GET, or of a POST with a body; (0, None) when no answer came in time."""
    answer: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
    work = threading.Thread(target=lambda: answer.put(_fetch(root, path, body, seconds)), daemon=True)
    work.start()
    try:
        return answer.get(timeout=seconds)  # a server that sends a letter a second keeps every other timer waiting
    except queue.Empty:
        return 0, None


def _fetch(root: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> tuple[int, Any]:
    import http.client  # lighter than what the requests go through, and enough

    url = urlsplit(root)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    with suppress(OSError, ValueError, http.client.HTTPException, RecursionError):
        connection = kind(url.hostname or "", url.port, timeout=seconds)
        try:
            sent = None if body is None else json.dumps(body).encode()
            headers = {"content-type": "application/json"} if sent else {}
            connection.request("POST" if sent else "GET", f"{url.path}{path}", sent, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read(_MOST))
        finally:
            connection.close()
    return 0, None
