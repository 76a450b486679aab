"""One HTTP request whose answer comes in pieces, with timers, and dropped at once when nobody wants it any more.

The exchange runs in a thread of its own that fills a queue: a read that blocks must keep nobody from hearing a person's
word. Whoever gives up shuts the socket, so that the thread ends too. Not a place that knows what the bytes mean.
"""

from __future__ import annotations

import math
import queue
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from harness.executor import Cancel

POLL = 0.05
MOST_BYTES = 16 * 1024 * 1024
LOOPBACK = ("localhost", "::1", "0.0.0.0", "::")


class BrokenExchange(Exception):
    """The answer did not come whole. `reason` is one of the table of failures."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Timers:
    """Seconds: to connect, to the first byte of the answer, between two pieces of it."""

    connect: float = 5.0
    first: float = 600.0
    between: float = 120.0


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers, names in lower case."""

    status: int
    headers: Mapping[str, str]


def is_loopback(url: str) -> bool:
    """Whether a URL names this machine."""
    host = urlsplit(url).hostname or ""
    return host in LOOPBACK or (host.startswith("127.") and host.replace(".", "").isdigit())


class Exchange:
    """A POST under way. `deadline` is seconds of the monotonic clock; any level of `cancel` ends it.

    A server on this machine is reached directly, whatever proxies the environment names; no redirect is followed, so
    that a key is given to nobody else.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], body: bytes, timers: Timers, deadline: float | None,
        cancel: Cancel | None,
    ) -> None:  # fmt: skip
        self._url, self._headers, self._body, self._timers = url, dict(headers), body, timers
        self._deadline, self._cancel = deadline, cancel
        self._queue: queue.SimpleQueue[Head | bytes | BaseException | None] = queue.SimpleQueue()
        self._socket: socket.socket | None = None
        self._dropped = False
        self._started = time.monotonic()
        threading.Thread(target=self._work, name="model request", daemon=True).start()

    def head(self) -> Head:
        """Wait for status and headers. Raises BrokenExchange."""
        found = self._next(self._started + self._timers.first)
        assert isinstance(found, Head)
        return found

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes, to its proper end. Raises BrokenExchange when it comes to none."""
        limit = self._started + self._timers.first
        while isinstance(piece := self._next(limit), bytes):
            limit = time.monotonic() + self._timers.between
            yield piece

    def drop(self) -> None:
        """Shut the connection; the thread ends by it. Harmless once all has come."""
        self._dropped = True
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _next(self, limit: float) -> Head | bytes | None:
        while True:
            try:
                found = self._queue.get(timeout=POLL)
            except queue.Empty:
                self._give_up_if_due(limit)
                continue
            if isinstance(found, BaseException):
                raise found
            self._give_up_if_due(math.inf)  # a server that never rests shall not keep anybody from leaving
            return found

    def _give_up_if_due(self, limit: float) -> None:
        now = time.monotonic()
        over = self._deadline is not None and now >= self._deadline
        if over or (self._cancel is not None and self._cancel.level):
            self.drop()
            raise BrokenExchange("cancelled", "the request was dropped")
        if now >= limit:
            self.drop()
            raise BrokenExchange("timeout", f"nothing came from {self._url} for {now - self._started:.0f} s")

    def _work(self) -> None:
        try:
            self._fetch()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            self._queue.put(error)

    def _fetch(self) -> None:
        import httpx2  # a run that speaks with nobody does without it

        seen, size = False, 0
        try:
            with self._client() as client, self._stream(client) as response:
                seen = True
                self._queue.put(Head(response.status_code, dict(response.headers)))
                for piece in response.iter_bytes():
                    size += len(piece)
                    if size > MOST_BYTES:
                        raise BrokenExchange("protocol", f"the reply is over {MOST_BYTES >> 20} MiB")
                    self._queue.put(piece)
        except httpx2.TimeoutException as error:
            raise BrokenExchange("timeout", f"no connection to {self._url} in {self._timers.connect:g} s") from error
        except (httpx2.HTTPError, httpx2.StreamError, OSError, ValueError, ImportError) as error:
            cut = seen or isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError | httpx2.WriteError)
            what = "the reply of {} was cut" if cut else "{} cannot be reached"
            raise BrokenExchange("cut" if cut else "unavailable", f"{what.format(self._url)}: {error}") from error
        self._queue.put(None)

    def _client(self) -> Any:
        import httpx2

        local = is_loopback(self._url)
        plain = local and self._url.startswith("http:")  # reading the certificates takes longer than the answer
        wait = httpx2.Timeout(None, connect=self._timers.connect)
        return httpx2.Client(trust_env=not local, verify=not plain, follow_redirects=False, timeout=wait)

    def _stream(self, client: Any) -> Any:
        headers = {"accept-encoding": "identity", "connection": "close", **self._headers}
        return client.stream(
            "POST", self._url, content=self._body, headers=headers, extensions={"trace": self._connected}
        )

    def _connected(self, name: str, info: Mapping[str, Any]) -> None:
        """Keep the socket as soon as there is one: headers may be what never comes."""
        stream = info.get("return_value")
        if name.endswith(("connect_tcp.complete", "start_tls.complete")) and stream is not None:
            self._socket = stream.get_extra_info("socket")
            if self._dropped:
                self.drop()
