"""One request to the Messages API through the SDK, in a thread of its own, and what goes wrong with it.

The SDK is imported here and nowhere else, and only inside functions: it takes a second or two.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import Full, Queue
from typing import Any

from harness.models import Failure
from harness.models.endpoints import usable_key
from harness.models.failures import failure
from harness.models.messages import Malformed
from harness.models.status import status_failure
from harness.models.wire import MOST_BYTES, is_loopback
from harness.secrets import held

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_SAID = (*KEYS, "ANTHROPIC_PROFILE")
BASE_URL = "ANTHROPIC_BASE_URL"
_FEDERATED = ("ANTHROPIC_FEDERATION_RULE_ID", "ANTHROPIC_ORGANIZATION_ID")
_TOKENS = ("ANTHROPIC_IDENTITY_TOKEN", "ANTHROPIC_IDENTITY_TOKEN_FILE")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the other side may keep silent: while it connects, before its first event, between events; seconds."""

    connect: float = 5.0
    first: float = 120.0
    between: float = 60.0


PATIENCE = Patience()
AHEAD = 256
"""Events that are read before somebody takes one: a fast server shall not fill the memory of a slow listener."""
POLL_S = 0.05


def stored_key(env: Mapping[str, str]) -> str | None:
    """The key that the person keeps among the secrets, where the environment holds nothing of the kind.

    Raises HarnessError for a file that may not be used as a secret, and for a value that no header can hold.
    """
    if any(env.get(name) for name in _SAID):
        return None
    return usable_key(KEYS[0], held(KEYS[0], env))


def credential(env: Mapping[str, str]) -> str | None:
    """The first credential that can be seen, by the name of what holds it, in the SDK's own order."""
    for name in _SAID:
        if env.get(name):
            return name
    if stored_key(env):
        return f"{KEYS[0]} among the secrets"
    if all(env.get(name) for name in _FEDERATED) and any(env.get(name) for name in _TOKENS):
        return _FEDERATED[0]
    folder = env.get("ANTHROPIC_CONFIG_DIR") or Path(env.get("HOME") or Path.home(), ".config", "anthropic")
    pointer = Path(folder, "active_config")
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if pointer.read_text(encoding="utf-8").strip():
            return str(pointer)
    return None


class Exchange:
    """One request in a thread of its own, which nobody waits for: what comes of it goes into a queue."""

    def __init__(self, params: Mapping[str, Any], patience: Patience) -> None:
        self.params, self.patience = params, patience
        self.heard: Queue[Any] = Queue(AHEAD)
        self.request_id: str | None = None
        self._response: Any = None
        self._dropped, self._left = threading.Event(), threading.Event()

    def run(self) -> None:
        """Send, and put a text for each event, then None; or a Failure, or the exception of a bug."""
        try:
            client = client_of(self.patience)
            self._tell("")
            if self._dropped.is_set():
                return
            stream = client.messages.create(stream=True, **self.params)
            self._response = stream.response
            self.request_id = stream.response.headers.get("request-id")
            if self._dropped.is_set():
                self.drop()
            self._read(stream)
        except Exception as error:  # noqa: BLE001 - judged by whoever listens
            self._tell(_judged(error, self._response is not None))

    def _read(self, stream: Any) -> None:
        kind = self._response.headers.get("content-type", "")
        if not kind.lower().startswith("text/event-stream"):
            self._response.close()
            self._tell(failure("protocol", f"the answer is no stream of events, but {kind[:100] or 'nothing'}"))
            return
        self._tell("")
        for event in type(stream).raw_events(_Counted(self._response)):
            if event.data:
                self._tell(event.data)
            elif event.event is not None:
                self._tell("")
        self._tell(None)

    def _tell(self, what: Any) -> None:
        """Wait until there is room for it, or nobody listens any more."""
        while not self._left.is_set():
            with contextlib.suppress(Full):
                self.heard.put(what, timeout=POLL_S)
                break

    def leave(self) -> None:
        """The reply is whole: what follows is read to its end, so that the connection serves again, and not told."""
        self._left.set()

    def drop(self) -> None:
        """Nobody listens any more: shut the socket, since closing a response leaves a reader in its read."""
        self._dropped.set()
        self._left.set()
        response = self._response
        if response is None:
            return
        with contextlib.suppress(Exception):
            stream = response.extensions["network_stream"]
            stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class _Counted:
    """A response whose bytes are counted: one that is too large is not read to its end.

    Whole lines are handed on, since whoever reads them copies what it holds of a line for every piece of it.
    """

    def __init__(self, response: Any) -> None:
        self.response = response

    def iter_bytes(self) -> Iterator[bytes]:
        size, held = 0, bytearray()
        for chunk in self.response.iter_bytes():
            size += len(chunk)
            if size > MOST_BYTES:
                self.response.close()
                raise Malformed(f"the reply is over {MOST_BYTES >> 20} MiB")
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            held += chunk[:end]
            if end:
                yield bytes(held)
                held.clear()
            held += chunk[end:]
        yield bytes(held)


_clients: dict[tuple[str | None, ...], Any] = {}
_making = threading.Lock()


def client_of(patience: Patience) -> Any:
    """The one client of this process, for what the environment says. It imports the SDK, and may take seconds."""
    marks = (*(os.environ.get(name) for name in (*KEYS, BASE_URL)), stored_key(os.environ), str(patience))
    with _making:
        if marks not in _clients:
            _clients[marks] = _made(patience)
        return _clients[marks]


def _made(patience: Patience) -> Any:
    import gc
    import logging

    import anthropic
    import httpx2

    # the SDK's hundreds of thousands of objects live as long as the process: searched at its end, they hold up a Ctrl-C
    gc.freeze()
    # what the SDK would say on stderr about credentials is said by our own line
    logging.getLogger("anthropic").addHandler(logging.NullHandler())
    timeout = httpx2.Timeout(max(patience.first, patience.between) + 5, connect=patience.connect)
    # a key follows no redirect, and what is meant for this machine goes through no proxy
    http = anthropic.DefaultHttpxClient(timeout=timeout, follow_redirects=False, trust_env=not is_loopback(_url()))
    key = stored_key(os.environ)  # without one the SDK looks in its own places
    return anthropic.Anthropic(api_key=key, max_retries=0, timeout=timeout, http_client=http, open_telemetry=False)


def _url() -> str:
    return os.environ.get(BASE_URL) or ""


def _judged(error: Exception, had_head: bool) -> Failure | Exception:
    """What an exception of the SDK, or of what it stands on, means; a bug is given back as it is."""
    import anthropic
    import httpx2

    if isinstance(error, anthropic.APIStatusError):
        said = error.api_message or f"{error.response.headers.get('content-type') or 'no'} answer"
        elsewhere = error.response.headers.get("location") if error.status_code // 100 == 3 else None
        what = f"to {elsewhere}" if elsewhere else error.type or ""
        text = f"{error.status_code} {what}: {said}".replace(" :", ":")
        return status_failure(error.status_code, error.type, error.error_code, text, error.response.headers)
    if isinstance(error, anthropic.CredentialsError):
        return failure("auth", f"no credential that can be used: {error}")
    if isinstance(error, TypeError) and not had_head and credential(os.environ) is None:
        return failure("auth", "no credential: set ANTHROPIC_API_KEY")
    if isinstance(error, Malformed):
        return failure("protocol", str(error))
    if isinstance(error, UnicodeDecodeError):
        return failure("protocol", "the stream is no UTF-8")
    cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else error
    if isinstance(cause, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError | httpx2.UnsupportedProtocol):
        return failure("unavailable", f"cannot connect: {str(cause) or type(cause).__name__}")
    if isinstance(cause, httpx2.TimeoutException):
        return failure("timeout", "nothing came in time")
    if isinstance(cause, httpx2.DecodingError):
        return failure("protocol", f"the stream cannot be decoded: {cause}")
    if isinstance(cause, httpx2.HTTPError | OSError) or isinstance(error, anthropic.APIConnectionError):
        return failure("cut", f"the connection broke: {str(cause) or type(cause).__name__}")
    return error
