"""The bridge: a command in a network namespace reaches the proxy; its exit code, signals and children stay its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from harness.policy.hosts import Place
from harness.sandbox.proxy import Proxy, bridged
from tests.net_servers import echo, loopback, server

CLEAN = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
CAGED = ["bwrap", "--unshare-net", "--unshare-pid", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]


@cache
def no_bwrap() -> str:
    """Why no command can be caged here, or nothing."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed"
    done = subprocess.run([*CAGED, "true"], capture_output=True, text=True, check=False)
    return f"bubblewrap does not start here: {done.stderr.strip()}" if done.returncode else ""


needs_bwrap = pytest.mark.skipif(bool(no_bwrap()), reason=no_bwrap() or "-")


@pytest.fixture
def port() -> Iterator[int]:
    with server(echo) as port:
        yield port


def proxy_to(tmp_path: Path, *allow: Place) -> Proxy:
    return Proxy(allow, frozenset(allow), tmp_path / "s", loopback)


def run(argv: list[str], path: Path, caged: bool = False) -> subprocess.CompletedProcess[str]:
    words = [*(CAGED if caged else ()), *bridged(argv, path)]
    return subprocess.run(words, env=CLEAN, capture_output=True, text=True, check=False, timeout=60)


def python(code: str) -> list[str]:
    return [sys.executable, "-I", "-c", code]


TUNNEL = """
import os, socket, sys
host, _, port = os.environ["HTTPS_PROXY"].removeprefix("http://").rpartition(":")
with socket.create_connection((host, int(port)), 20) as s:
    s.sendall(f"CONNECT {TARGET} HTTP/1.1\\r\\n\\r\\nhello".encode())
    s.shutdown(socket.SHUT_WR)
    print(b"".join(iter(lambda: s.recv(4096), b"")).decode())
"""


def tunnel(target: str) -> list[str]:
    return python(f"TARGET = {target!r}\n{TUNNEL}")


def test_a_command_reaches_a_granted_place_through_its_variables(tmp_path: Path, port: int) -> None:
    with proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        done = run(tunnel(f"api.x.io:{port}"), proxy.path)
    assert "you said hello" in done.stdout, done.stderr


def test_the_command_gets_the_proxys_variables_and_no_others(tmp_path: Path) -> None:
    done = run(python("import json, os; print(json.dumps(dict(os.environ)))"), tmp_path / "s")
    found = json.loads(done.stdout)
    address = found["HTTP_PROXY"]
    assert address.startswith("http://127.0.0.1:")
    names = [f"{kind}_PROXY" for kind in ("HTTPS", "HTTP", "ALL")]
    proxies = dict.fromkeys([*names, *(name.lower() for name in names)], address)
    assert found == {**CLEAN, **proxies, "NO_PROXY": "", "no_proxy": ""}


def test_the_commands_exit_code_and_signal_are_its_own(tmp_path: Path) -> None:
    assert run(["/bin/sh", "-c", "exit 75"], tmp_path / "s").returncode == 75
    assert run(["/bin/sh", "-c", "kill -TERM $$"], tmp_path / "s").returncode == -signal.SIGTERM
    assert run(["/bin/sh", "-c", "kill -PIPE $$"], tmp_path / "s").returncode == -signal.SIGPIPE
    missing = run([str(tmp_path / "none")], tmp_path / "s")
    assert (missing.returncode, missing.stderr) == (127, f"{tmp_path / 'none'}: No such file or directory\n")
    assert run([str(tmp_path)], tmp_path / "s").returncode == 126
    assert subprocess.run(bridged([], tmp_path / "s"), capture_output=True, check=False).returncode == 64


def test_the_command_finds_no_child_it_did_not_make(tmp_path: Path) -> None:
    code = "import os\ntry:\n    os.waitpid(-1, 0)\nexcept ChildProcessError:\n    print('alone')"
    assert run(python(code), tmp_path / "s").stdout == "alone\n"


def test_the_forwarder_keeps_no_descriptor_of_the_command(tmp_path: Path) -> None:
    read, write = os.pipe()
    words = bridged(["/bin/sh", "-c", "sleep 30"], tmp_path / "s")
    child = subprocess.Popen(words, env=CLEAN, pass_fds=(write,), stdout=subprocess.PIPE, start_new_session=True)
    os.close(write)
    expected = [*["/dev/null"] * 3, "anon_inode", "socket"]
    try:
        until = time.monotonic() + 30
        while (found := [links_of(pid) for pid in forwarders(tmp_path)]) != [expected] and time.monotonic() < until:
            time.sleep(0.01)
        assert found == [expected]
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        os.close(read)


def links_of(pid: int) -> list[str]:
    """What the descriptors of a process lead to, without numbers; empty for one that is gone."""
    try:
        return sorted(str(link.readlink()).partition(":")[0] for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return []


def forwarders(tmp_path: Path) -> list[int]:
    """The forwarders of this test: bridges in a session of their own."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if str(tmp_path / "s").encode() in words and os.getsid(int(entry.name)) == int(entry.name):
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def test_the_forwarder_ends_with_the_command(tmp_path: Path) -> None:
    run(["/bin/true"], tmp_path / "s")
    until = time.monotonic() + 30
    while forwarders(tmp_path) and time.monotonic() < until:
        time.sleep(0.01)
    assert forwarders(tmp_path) == []


def test_many_connections_with_much_data_at_once(tmp_path: Path, port: int) -> None:
    code = """
import os, socket, threading
host, _, port = os.environ["HTTPS_PROXY"].removeprefix("http://").rpartition(":")
data = bytes(range(256)) * 4096
def one():
    with socket.create_connection((host, int(port)), 30) as s:
        s.sendall(f"CONNECT {TARGET} HTTP/1.1\\r\\n\\r\\n".encode())
        assert s.recv(100).startswith(b"HTTP/1.1 200")
        threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR))).start()
        whole.append(b"".join(iter(lambda: s.recv(65536), b"")) == data)
whole = []
threads = [threading.Thread(target=one) for _ in range(30)]
[t.start() for t in threads]; [t.join() for t in threads]
print(whole.count(True), len(whole))
"""

    def back(client: socket.socket) -> None:
        while data := client.recv(65536):
            client.sendall(data)

    with server(back) as port, proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        done = run(python(f"TARGET = 'api.x.io:{port}'\n{code}"), proxy.path)
    assert done.stdout == "30 30\n", done.stderr


@needs_bwrap
def test_a44_in_its_namespace_a_tool_reaches_the_granted_place_alone(tmp_path: Path, port: int) -> None:
    with server(echo) as other, proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        assert "you said hello" in run(tunnel(f"api.x.io:{port}"), proxy.path, caged=True).stdout
        refused = run(tunnel(f"api.x.io:{other}"), proxy.path, caged=True).stdout
        assert refused.startswith("HTTP/1.1 403 ") and "you said" not in refused
        assert run(tunnel(f"127.0.0.1:{port}"), proxy.path, caged=True).stdout.startswith("HTTP/1.1 403 ")


DIRECT = """
import json, socket
def tried(act):
    try:
        act()
    except OSError:
        return False
    return True
def udp(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.sendto(b"x", address)
def abstract():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\\0" + NAME)
print(json.dumps({
    "tcp to loopback": tried(lambda: socket.create_connection(("127.0.0.1", PORT), 5).close()),
    "tcp to an address": tried(lambda: socket.create_connection(("192.0.2.1", 443), 5).close()),
    "udp": tried(lambda: udp(socket.AF_INET, ("192.0.2.1", 53))),
    "udp over ipv6": tried(lambda: udp(socket.AF_INET6, ("2001:db8::1", 53))),
    "dns": tried(lambda: socket.getaddrinfo("example.org", 443)),
    "abstract unix socket": tried(abstract),
}))
"""


@needs_bwrap
def test_a43_in_its_namespace_a_tool_reaches_nothing_directly(tmp_path: Path, port: int) -> None:
    name = f"harness-test-{os.getpid()}"
    with proxy_to(tmp_path, ("api.x.io", port)) as proxy, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        code = f"PORT, NAME = {port}, {name!r}\n{DIRECT}"
        done = run(python(code), proxy.path, caged=True)
        open_here = json.loads(subprocess.run(python(code), capture_output=True, text=True, check=True).stdout)
    assert open_here["tcp to loopback"] and open_here["abstract unix socket"], "the test would not see a way out"
    assert json.loads(done.stdout) == dict.fromkeys(open_here, False), done.stderr


@needs_bwrap
def test_a44_a_redirect_elsewhere_fails(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    reached = []

    def elsewhere(client: socket.socket) -> None:
        reached.append(client)

    with server(elsewhere) as other:

        def redirect(client: socket.socket) -> None:
            client.recv(4096)
            where = f"http://evil.io:{other}/"
            client.sendall(f"HTTP/1.1 302 Found\r\nLocation: {where}\r\nContent-Length: 0\r\n\r\n".encode())

        with server(redirect) as port, proxy_to(tmp_path, ("api.x.io", port)) as proxy:
            curl = [str(shutil.which("curl")), "-sSL", "--max-time", "20", f"http://api.x.io:{port}/"]
            done = run(curl, proxy.path, caged=True)
    assert f"evil.io:{other} is not granted to this call" in done.stdout, done.stderr
    assert proxy.refused == [f"evil.io:{other} is not granted to this call, which may reach api.x.io:{port}"]
    assert reached == []
