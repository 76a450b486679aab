"""Run inside a network namespace that holds nothing but `lo`: `python -I -S bridge.py SOCKET -- ARGV…` starts ARGV
with its HTTP proxy at 127.0.0.1, and carries what arrives there to the unix socket. Not a place for decisions: who may
be reached is up to the proxy at the other end. Imported by nothing, and imports nothing that is slow to load: it stands
before every call that uses the network, and `socket` and `signal` alone would make it half as slow again.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import os
import select
import sys

PROXIED = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
DIRECT = ("NO_PROXY", "no_proxy")
MAX_PAIRS, CHUNK = 64, 1 << 16

# A tool that is told to end may still have something to say; the forwarder ends with it and not before.
_LASTING = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM)


class End:
    """One side of a connection: `pending` is still to be sent on it, `done` that it has nothing more to say."""

    def __init__(self, sock: _socket.socket) -> None:
        self.sock, self.fd = sock, sock.fileno()
        self.peer = self
        self.pending = b""
        self.done = False

    def mask(self) -> int:
        wants = 0 if self.done or self.peer.pending else select.POLLIN
        return wants | (select.POLLOUT if self.pending else 0)


class Forwarder:
    """Carries connections of `listener` to the unix socket at `path` until the process of `pidfd` has ended."""

    def __init__(self, listener: _socket.socket, path: str, pidfd: int) -> None:
        self.listener, self.path, self.pidfd = listener, path, pidfd
        self.ends: dict[int, End] = {}
        self.watched: set[int] = set()
        self.poll = select.poll()

    def run(self) -> None:
        if self.pidfd >= 0:
            self.poll.register(self.pidfd, select.POLLIN)
        self.poll.register(self.listener.fileno(), select.POLLIN)
        while True:
            for fd, _ in self.poll.poll():
                if fd == self.pidfd:
                    return
                if fd == self.listener.fileno():
                    self.accept()
                elif fd in self.ends:
                    self.turn(self.ends[fd])

    def accept(self) -> None:
        try:
            fd, _ = self.listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        near = End(_socket.socket(fileno=fd))
        far = End(_socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM))
        near.peer, far.peer = far, near
        try:
            far.sock.connect(self.path)
        except OSError:
            near.sock.close()
            far.sock.close()
            return
        for end in (near, far):
            end.sock.setblocking(False)
            self.ends[end.fd] = end
            self.watch(end)
        if len(self.ends) >= 2 * MAX_PAIRS:
            self.poll.unregister(self.listener.fileno())

    def turn(self, end: End) -> None:
        """Send what waits for this side, take what it says, and end the pair when both have said all."""
        try:
            if end.pending:
                end.pending = end.pending[end.sock.send(end.pending) :]
            if not end.done and not end.peer.pending:
                self.take(end)
            if end.done and not end.peer.pending:
                end.peer.sock.shutdown(_socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self.close(end)
            return
        if end.done and end.peer.done and not end.pending and not end.peer.pending:
            self.close(end)
            return
        self.watch(end)
        self.watch(end.peer)

    def take(self, end: End) -> None:
        data = end.sock.recv(CHUNK)
        end.done = not data
        end.peer.pending = data

    def watch(self, end: End) -> None:
        """Ask for what the side is ready for; not for its hang-up alone, which would be reported for ever."""
        mask = end.mask()
        if mask:
            self.poll.register(end.fd, mask)
            self.watched.add(end.fd)
        elif end.fd in self.watched:
            self.poll.unregister(end.fd)
            self.watched.discard(end.fd)

    def close(self, end: End) -> None:
        if len(self.ends) >= 2 * MAX_PAIRS:
            self.poll.register(self.listener.fileno(), select.POLLIN)
        for side in (end, end.peer):
            if side.fd in self.watched:
                self.poll.unregister(side.fd)
                self.watched.discard(side.fd)
            del self.ends[side.fd]
            side.sock.close()


def main(words: list[str]) -> int:
    if len(words) < 3 or words[1] != "--":
        print("usage: bridge.py SOCKET -- ARGV...", file=sys.stderr)
        return 64
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0))
    listener.listen(MAX_PAIRS)
    listener.setblocking(False)
    detach(listener, words[0])
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    env = {**os.environ, **dict.fromkeys(PROXIED, address), **dict.fromkeys(DIRECT, "")}
    for ignored in (_signal.SIGPIPE, _signal.SIGXFSZ):  # by the interpreter, for itself
        _signal.signal(ignored, _signal.SIG_DFL)
    try:
        os.execve(words[2], words[2:], env)
    except OSError as error:
        print(f"{words[2]}: {error.strerror}", file=sys.stderr)
        return 127 if isinstance(error, FileNotFoundError) else 126


def detach(listener: _socket.socket, path: str) -> None:
    """Start the forwarder as nobody's child: a tool that waits for its children must find none it did not make."""
    try:
        pidfd = os.pidfd_open(os.getpid())
    except (OSError, AttributeError):  # the end of the namespace is its end too
        pidfd = -1
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            let_go({listener.fileno(), pidfd})
            folder, _, name = path.rpartition("/")
            os.chdir(folder or "/")  # the name of a socket holds 107 bytes
            Forwarder(listener, name, pidfd).run()
    finally:
        os._exit(0)


def let_go(keep: set[int]) -> None:
    """Leave the tool's streams, locks and session, so that nothing of them is kept open or signalled here."""
    os.setsid()
    for number in _LASTING:
        _signal.signal(number, _signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    with os.scandir("/proc/self/fd") as entries:
        numbers = [int(entry.name) for entry in entries]
    for fd in numbers:
        if fd > 2 and fd not in keep:
            os.closerange(fd, fd + 1)  # no error for the one that listed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
