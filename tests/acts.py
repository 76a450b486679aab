"""What a hostile tool tries, as scripts of it: for tests of a cage alone and of whole runs."""

from __future__ import annotations

TRY = """
import json, os, sys
def tried(act):
    try:
        act()
    except OSError as error:
        return error.strerror or "refused"
    return None
"""

NETWORK = TRY + """
import ctypes, socket
port, abstract, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def connect(family, address):
    socket.socket(family, socket.SOCK_STREAM).connect(address)
def send(family, host):
    socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", (host, port))
def io_uring():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(425, 1, ctypes.create_string_buffer(200)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
print(json.dumps({
    "tcp": tried(lambda: connect(socket.AF_INET, ("127.0.0.1", port))),
    "tcp6": tried(lambda: connect(socket.AF_INET6, ("::1", port))),
    "udp": tried(lambda: send(socket.AF_INET, "127.0.0.1")),
    "udp6": tried(lambda: send(socket.AF_INET6, "::1")),
    "icmp": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)),
    "raw": tried(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)),
    "packet": tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "netlink": tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "vsock": tried(lambda: socket.socket(40, socket.SOCK_STREAM)),
    "abstract": tried(lambda: connect(socket.AF_UNIX, "\\0" + abstract)),
    "path": tried(lambda: connect(socket.AF_UNIX, path)),
    "datagram": tried(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)),
    "dns": tried(lambda: socket.getaddrinfo("example.com", 80)),
    "io_uring": tried(io_uring),
    "bind": tried(lambda: socket.socket().bind(("127.0.0.1", 0))),
}))
"""
