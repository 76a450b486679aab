"""The one way out of a call's network namespace: an HTTP proxy that reaches the places granted to this call.

`CONNECT host:port` is a tunnel. A request for `http://host:port/…` is carried to a place that was granted in the same
way, as one request whose `Host` is the place. The name is resolved here and the address that was checked is the one
connected to. What is said inside a tunnel is not looked at. Not a place for deciding what is granted.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from harness.policy.hosts import Place, place_in, place_of, place_text
from harness.sandbox.addresses import is_public
from harness.tools.notation import shown

BRIDGE = Path(__file__).with_name("bridge.py")
"""The program that stands at the other end of the socket, inside the namespace."""

HEAD_BYTES, HEAD_S, CONNECT_S, DRAIN_S = 16 * 1024, 10.0, 10.0, 1.0
MAX_CONNECTIONS, MAX_REFUSED = 64, 50
_CHUNK = 1 << 16
_JOIN_S = 1.0
_REQUEST = re.compile(r"([A-Z]{1,20}) ([!-~]{1,8192}) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_HOP = ("host", "connection", "keep-alive", "upgrade", "te")
_REASONS = {400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway", 503: "Service Unavailable"}

Resolve = Callable[[str, int], Sequence[str]]
"""Host and port → addresses as text. Raises OSError."""


class Refusal(Exception):
    """What the tool is answered: the status, and the reason in words."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass(frozen=True, slots=True)
class Wanted:
    """Where a request wants to go, and what is to be sent there first. `tunnel` is answered before anything else."""

    place: Place
    first: bytes
    tunnel: bool


def bridged(argv: Sequence[str], path: Path) -> list[str]:
    """The argv that starts `argv` (its first word a path) inside, where the proxy's socket is at `path`."""
    return [sys.executable, "-I", "-S", str(BRIDGE), str(path), "--", *argv]


def resolve(host: str, port: int) -> list[str]:
    """Every address of the host, as the system orders them."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


class Proxy:
    """Listens at a path until it is closed; every connection has its thread. `refused` are lines for the record.

    `path` is in a folder that is the call's own, mode 0700, and out of the tool's reach. A place of `private_ok` may
    have an address that is not public. Raises OSError when it cannot listen.
    """

    def __init__(
        self, allow: Sequence[Place], private_ok: frozenset[Place], path: Path, resolve: Resolve = resolve
    ) -> None:
        self.allow, self.private_ok, self.path, self.resolve = frozenset(allow), private_ok, path, resolve
        self.refused: list[str] = []
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._threads: set[threading.Thread] = set()
        self._closed = False
        self._listener = _listen(path)
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every connection, and take the socket away. What still resolves a name ends by itself."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            ends, threads = list(self._open), list(self._threads)
        for end in (self._listener, *ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        until = time.monotonic() + _JOIN_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _start(self, work: Callable[..., None], *given: socket.socket) -> threading.Thread:
        def body() -> None:
            try:
                work(*given)
            finally:
                with self._lock:
                    self._threads.discard(threading.current_thread())

        thread = threading.Thread(target=body, name="proxy", daemon=True)
        with self._lock:  # the thread cannot end before it is counted
            thread.start()
            self._threads.add(thread)
        return thread

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if not self._closed:
                    time.sleep(0.01)  # no descriptor is left; one will be
                continue
            try:
                self._start(self._serve, client)
            except RuntimeError:  # no more threads
                client.close()

    @contextmanager
    def _held(self, end: socket.socket) -> Iterator[None]:
        """While an end is in use `close` can end it. Raises Refusal when it is too late or there are too many."""
        try:
            with self._lock:
                if self._closed or len(self._open) >= 2 * MAX_CONNECTIONS:
                    raise Refusal(503, "too many connections")
                self._open.add(end)
            yield
        finally:
            with self._lock:
                self._open.discard(end)

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, RuntimeError):
            try:
                with self._held(client):
                    self._carry(client)
            except Refusal as refusal:
                if not self._closed:
                    self._refuse(client, refusal)

    def _carry(self, client: socket.socket) -> None:
        try:
            head, rest = _read_head(client)
            wanted = read_request(head)
            with self._connect(wanted.place) as server, self._held(server):
                self._join(client, server, wanted, rest)
        except Refusal as refusal:
            self._refuse(client, refusal)

    def _refuse(self, client: socket.socket, refusal: Refusal) -> None:
        if refusal.status == 403:
            with self._lock:
                if len(self.refused) < MAX_REFUSED:
                    self.refused.append(refusal.reason)
        client.settimeout(DRAIN_S)
        client.sendall(_answer(refusal.status, refusal.reason))
        client.shutdown(socket.SHUT_WR)
        for _ in range(HEAD_BYTES // 4096):  # an answer is lost if its reader is cut off while it still writes
            if not client.recv(4096):
                break

    def _connect(self, place: Place) -> socket.socket:
        """A connection to a granted place, at an address that was looked up once and may be reached."""
        host, port = place
        if place not in self.allow:
            granted = " ".join(sorted(place_text(one) for one in self.allow)) or "nothing"
            raise Refusal(403, f"{place_text(place)} is not granted to this call, which may reach {granted}")
        try:
            found = list(dict.fromkeys(self.resolve(host, port)))
        except (OSError, UnicodeError):
            raise Refusal(502, f"{host} has no address") from None
        good = [address for address in found if place in self.private_ok or is_public(address)]
        if found and not good:
            fix = "only the user's network.hosts can allow it"
            raise Refusal(403, f"{place_text(place)} is at {shown(found[0])}, no public address; {fix}")
        for address in good:
            with suppress(OSError):
                return socket.create_connection((address, port), CONNECT_S)
        raise Refusal(502, f"{place_text(place)} does not answer")

    def _join(self, client: socket.socket, server: socket.socket, wanted: Wanted, rest: bytes) -> None:
        for end in (client, server):
            end.settimeout(None)
        if wanted.tunnel:
            client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        server.sendall(wanted.first + rest)
        back = self._start(_pump, server, client)
        _pump(client, server)
        back.join()


def read_request(head: bytes) -> Wanted:
    """Where a request's head (without the empty line) wants to go. Raises Refusal."""
    try:
        line, *headers = head.decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise Refusal(400, "a request that is not ASCII") from None
    found = _REQUEST.fullmatch(line)
    if found is None:
        raise Refusal(400, f"{shown(line)} is no request")
    method, target = found[1], found[2]
    if method != "CONNECT" and not target.lower().startswith("http://"):
        raise Refusal(403, f"{method} {shown(target)}: this proxy takes CONNECT host:port, and http:// addresses")
    try:
        place = place_of(target, None) if method == "CONNECT" else place_in(target, userinfo=False)
    except ValueError as error:
        raise Refusal(403, f"{method} {shown(target)} {error}") from None
    return Wanted(place, b"", True) if method == "CONNECT" else Wanted(place, _first(method, target, headers), False)


def _first(method: str, target: str, headers: Sequence[str]) -> bytes:
    """The request as its server takes it: the path alone, the place as host, nothing meant for a proxy, one request."""
    url = urlsplit(target)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    pairs = []
    for text in headers:
        found = _HEADER.fullmatch(text)
        if found is None:
            raise Refusal(400, f"{shown(text)} is no header")
        name = found[1].lower()
        if name not in _HOP and not name.startswith("proxy-"):
            pairs.append(f"{found[1]}: {found[2]}")
    lines = (f"{method} {path} HTTP/1.1", f"Host: {url.netloc}", *pairs, "Connection: close", "", "")
    return "\r\n".join(lines).encode()


def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request and what came with it, within the time and size that a head may have."""
    until = time.monotonic() + HEAD_S
    data = b""
    while b"\r\n\r\n" not in data:
        left = until - time.monotonic()
        if left <= 0 or len(data) > HEAD_BYTES:
            raise Refusal(400, "a request without an end")
        client.settimeout(left)
        part = client.recv(4096)
        if not part:
            raise Refusal(400, "half a request")
        data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest


def _answer(status: int, reason: str) -> bytes:
    body = f"harness: {reason}\n".encode()
    head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Carry one direction to its end; when the sink takes no more, the source is told."""
    try:
        while data := source.recv(_CHUNK):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _listen(path: Path) -> socket.socket:
    """A listening socket at a path of any length, for its owner alone."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")  # the name of a socket holds 107 bytes
        path.chmod(0o600)
        listener.listen(MAX_CONNECTIONS)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener
