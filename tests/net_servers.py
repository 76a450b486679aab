"""Real servers on loopback, and a client that speaks to a proxy over its unix socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

Serve = Callable[[socket.socket], None]


def echo(client: socket.socket) -> None:
    """Answers `you said …` to each piece, until the other side has said all."""
    while data := client.recv(4096):
        client.sendall(b"you said " + data)


def page(client: socket.socket) -> None:
    """Answers one HTTP request with the head it got."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += client.recv(4096)
    client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(head) + head)


@contextmanager
def server(serve: Serve) -> Iterator[int]:
    """A TCP server; gives its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def one(client: socket.socket) -> None:
        with client:
            serve(client)

    def loop() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(client,), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def loopback(host: str, port: int) -> Sequence[str]:
    """A resolver for which every name is this machine."""
    return ["127.0.0.1"]


def connect(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.settimeout(20)
    client.connect(str(path))
    return client


def rest(client: socket.socket) -> str:
    parts = []
    while part := client.recv(4096):
        parts.append(part)
    return b"".join(parts).decode()


def ask(path: Path, request: str) -> str:
    """All that the proxy answers to a request; nothing is said after it."""
    with connect(path) as client:
        client.sendall(request.encode())
        client.shutdown(socket.SHUT_WR)
        return rest(client)
