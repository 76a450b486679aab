"""A networked tool at full, as root and as an ordinary user: the proxy is reached and nothing else is."""

from __future__ import annotations

import pytest
from caged import as_user, lacking, place, users

from tests.net_servers import echo, server

# In the harness's place: one attempt with a proxy that grants one place, which is a server of this machine.
ATTEMPT = """
import tempfile
from contextlib import ExitStack
from pathlib import Path
sys.path.insert(0, str(Path(caged.__file__).resolve().parents[1]))
from harness.sandbox import Cage, probe
from harness.sandbox.facts import facts
from harness.sandbox.proxy import BRIDGE, Proxy
from tests.net_servers import loopback
way, folder, port, tool = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
reason = probe.test_machine(facts(), folder, ["full"]).levels["full"].reason
if reason:
    print(json.dumps([reason, "", []]))
    sys.exit()
place = ("api.x.io", port)
with ExitStack() as stack:
    private = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    proxy = stack.enter_context(Proxy((place,), frozenset((place,)), private / "proxy", loopback))
    cage = Cage("full", folder, folder / "work", read=(Path(tool).parent, BRIDGE), network="proxy", proxy=proxy.path)
    got = caged.attempt(cage, way, tool, str(port))
    print(json.dumps([got.why or "", (got.out + got.err).decode(), list(proxy.refused)]))
"""
TOOL = """#!/usr/bin/env python3
import os, socket, sys
host, _, port = os.environ["HTTPS_PROXY"].removeprefix("http://").rpartition(":")
def through(target):
    with socket.create_connection((host, int(port)), 20) as s:
        s.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\nhello".encode())
        s.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: s.recv(4096), b"")).decode()
print("you said hello" in through("api.x.io:" + sys.argv[1]))
print(through("evil.io:443").split()[1])
for address in ("127.0.0.1", "192.0.2.1"):
    try:
        socket.create_connection((address, int(sys.argv[1])), 5)
        print("reached")
    except OSError:
        print("not reached")
"""


@pytest.mark.skipif(bool(lacking("full")), reason=lacking("full"))
@pytest.mark.parametrize("way", ["shim", "direct"])
@pytest.mark.parametrize("user", users())
def test_a43_a44_at_full_the_proxy_and_nothing_else_is_reached(user: str, way: str) -> None:
    with place(user) as made, server(echo) as port:
        tool = made.outside / "tools" / "tool"
        tool.parent.mkdir()
        tool.write_text(TOOL)
        tool.chmod(0o755)
        made.own()
        why, printed, refused = as_user(user, ATTEMPT, way, made.outside / "run", port, tool)
    if "namespace" in why or "self-test did not run" in why:
        pytest.skip(f"{user}: {why}")
    assert (why, printed) == ("", "True\n403\nnot reached\nnot reached\n")
    assert refused == [f"evil.io:443 is not granted to this call, which may reach api.x.io:{port}"]
