"""The proxy: what was granted is reached, and nothing else is, whatever form it is asked for in."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from harness.policy.hosts import Place
from harness.sandbox.proxy import Proxy
from tests.net_servers import ask, connect, echo, loopback, page, rest, server


@pytest.fixture
def port() -> Iterator[int]:
    with server(echo) as port:
        yield port


def proxy_to(tmp_path: Path, *allow: Place, listed: bool = True) -> Proxy:
    return Proxy(allow, frozenset(allow if listed else ()), tmp_path / "s", loopback)


def tunnel(path: Path, target: str) -> tuple[str, str]:
    """The status line for a CONNECT, and what the far end echoes."""
    with connect(path) as client:
        client.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\nhello".encode())
        client.shutdown(socket.SHUT_WR)
        status, _, said = rest(client).partition("\r\n")
        return status, said.rpartition("\r\n")[2]


@pytest.mark.parametrize("spelling", ["api.x.io", "API.X.io", "api.x.io."])
def test_a_granted_place_is_reached_in_every_spelling_of_its_name(tmp_path: Path, port: int, spelling: str) -> None:
    with proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        status, said = tunnel(proxy.path, f"{spelling}:{port}")
    assert status == "HTTP/1.1 200 Connection established"
    assert said == "you said hello"
    assert proxy.refused == []


@pytest.mark.parametrize(
    "target",
    [
        *("evil.io:{port}", "api.x.io:1", "api.x.io", "api.x.io:", "api.x.io:0", "api.x.io:99999", ":{port}"),
        *("api.x.io@evil.io:{port}", "user:pass@api.x.io:{port}", "api.x.io:{port}@evil.io:{port}"),
        *("127.0.0.1:{port}", "2130706433:{port}", "0x7f000001:{port}", "0177.0.0.1:{port}", "127.1:{port}"),
        *("[::1]:{port}", "[::ffff:127.0.0.1]:{port}", "[::ffff:7f00:1]:{port}", "[::1%25lo]:{port}"),
        *("api.x.io..:{port}", "x.api.x.io:{port}", "api.x.io/:{port}", "api.x.io#:{port}", "api.x.io%00:{port}"),
        *("localhost:{port}", "xapi.x.io:{port}", "xn--api-x.io:{port}"),
        *("https://api.x.io:{port}", "api.x.io:{port}:{port}"),
    ],
)
def test_a44_nothing_but_the_granted_place_is_reached(tmp_path: Path, port: int, target: str) -> None:
    with proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        status, said = tunnel(proxy.path, target.format(port=port))
        assert status == "HTTP/1.1 403 Forbidden"
        assert "you said" not in said
        assert len(proxy.refused) == 1
        assert tunnel(proxy.path, f"api.x.io:{port}")[1] == "you said hello"


def test_a44_a_name_that_is_not_ascii_is_refused(tmp_path: Path, port: int) -> None:
    with proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        assert tunnel(proxy.path, f"ａpi.x.io:{port}")[0] == "HTTP/1.1 400 Bad Request"


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "0.0.0.0"),
        *("100.100.100.200", "168.63.129.16", "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.0.192"),
        *("::1", "::", "fe80::1", "fe80::1%1", "fd00:ec2::254", "ff02::1", "fec0::1", "::ffff:127.0.0.1"),
        *("::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:7f00:1::", "2001:db8::1", "what"),
    ],
)
def test_a44_addresses_that_are_not_public_need_the_users_word(tmp_path: Path, address: str) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        return [address]

    with Proxy([("api.x.io", 443)], frozenset(), tmp_path / "s", resolve) as proxy:
        status, said = tunnel(proxy.path, "api.x.io:443")
    assert status == "HTTP/1.1 403 Forbidden"
    assert "network.hosts" in said and "network.hosts" in proxy.refused[0]


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "64:ff9b::808:808"])
def test_public_addresses_are_told_from_the_others(address: str) -> None:
    from harness.sandbox.addresses import is_public

    assert is_public(address)


def test_a44_a_declared_address_still_needs_the_users_word(tmp_path: Path, port: int) -> None:
    with proxy_to(tmp_path, ("127.0.0.1", port), listed=False) as proxy:
        assert tunnel(proxy.path, f"127.0.0.1:{port}")[0] == "HTTP/1.1 403 Forbidden"
    with proxy_to(tmp_path, ("127.0.0.1", port)) as proxy:
        assert tunnel(proxy.path, f"127.0.0.1:{port}")[1] == "you said hello"


def test_a44_a_name_is_resolved_once_and_the_checked_address_is_used(tmp_path: Path, port: int) -> None:
    asked: list[str] = []

    def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["192.0.2.1"] if len(asked) == 1 else ["127.0.0.1"]

    place = ("api.x.io", port)
    with Proxy([place], frozenset(), tmp_path / "s", rebinding) as proxy:
        assert tunnel(proxy.path, f"api.x.io:{port}")[0] == "HTTP/1.1 403 Forbidden"
        assert asked == ["api.x.io"]
        assert tunnel(proxy.path, f"api.x.io:{port}")[0] == "HTTP/1.1 403 Forbidden"
    assert "127.0.0.1" in proxy.refused[1]


def test_a_name_without_address_and_a_place_that_does_not_answer_are_told_apart(tmp_path: Path) -> None:
    def resolve(host: str, port: int) -> Sequence[str]:
        if host == "gone.x.io":
            raise socket.gaierror(-2, "unknown")
        return ["127.0.0.1"]

    places = [("gone.x.io", 443), ("api.x.io", 1)]
    with Proxy(places, frozenset(places), tmp_path / "s", resolve) as proxy:
        assert tunnel(proxy.path, "gone.x.io:443")[0] == "HTTP/1.1 502 Bad Gateway"
        assert tunnel(proxy.path, "gone.x.io:443")[1] == "harness: gone.x.io has no address\n"
        assert tunnel(proxy.path, "api.x.io:1")[1] == "harness: api.x.io:1 does not answer\n"
    assert proxy.refused == []


def test_plain_http_to_a_granted_place_is_carried_as_that_places_request(tmp_path: Path) -> None:
    with server(page) as port, proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        head = f"GET http://API.x.io:{port}/a?b=c#d HTTP/1.1\r\nHost: evil.io\r\nAccept: */*\r\n"
        answer = ask(proxy.path, f"{head}Proxy-Authorization: Basic x\r\nConnection: keep-alive\r\n\r\n")
    seen = answer.partition("\r\n\r\n")[2]
    assert seen == f"GET /a?b=c HTTP/1.1\r\nHost: API.x.io:{port}\r\nAccept: */*\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET http://evil.io:{port}/ HTTP/1.1", 403),
        ("GET http://api.x.io/ HTTP/1.1", 403),
        ("GET http://user@api.x.io:{port}/ HTTP/1.1", 403),
        ("GET http://api.x.io:{port}\\@evil.io/ HTTP/1.1", 403),
        ("GET https://api.x.io:{port}/ HTTP/1.1", 403),
        ("GET / HTTP/1.1", 403),
        ("GET ftp://api.x.io/ HTTP/1.1", 403),
        ("CONNECT api.x.io:{port} HTTP/2.0", 400),
        ("CONNECT api.x.io:{port}", 400),
        ("CONNECT  api.x.io:{port} HTTP/1.1", 400),
        ("\x05\x01", 400),
    ],
)
def test_a44_other_requests_are_refused_with_their_reason(
    tmp_path: Path, port: int, request_line: str, status: int
) -> None:
    with proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        answer = ask(proxy.path, request_line.format(port=port) + "\r\n\r\n")
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert "\r\n\r\nharness: " in answer
    assert len(proxy.refused) == (status == 403)


def test_a_header_that_would_be_two_is_refused(tmp_path: Path, port: int) -> None:
    with proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        for odd in ("A: b\nHost: evil.io", " folded: x", "Ho st: x"):
            answer = ask(proxy.path, f"GET http://api.x.io:{port}/ HTTP/1.1\r\n{odd}\r\n\r\n")
            assert answer.startswith("HTTP/1.1 400 ")


def test_a_head_has_a_bound_and_an_end(tmp_path: Path, port: int) -> None:
    with proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        assert ask(proxy.path, f"CONNECT api.x.io:{port} HTTP/1.1\r\n" + "A: b\r\n" * 4000).startswith("HTTP/1.1 400 ")
        assert ask(proxy.path, "CONNECT api").startswith("HTTP/1.1 400 ")


def test_connections_have_a_bound_and_come_back(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.sandbox.proxy.MAX_CONNECTIONS", 1)
    with proxy_to(tmp_path, ("api.x.io", port)) as proxy:
        with connect(proxy.path) as first:
            first.sendall(f"CONNECT api.x.io:{port} HTTP/1.1\r\n\r\n".encode())
            assert first.recv(100).startswith(b"HTTP/1.1 200")
            assert tunnel(proxy.path, f"api.x.io:{port}")[0] == "HTTP/1.1 503 Service Unavailable"
            first.shutdown(socket.SHUT_WR)
            assert first.recv(10) == b""
        while tunnel(proxy.path, f"api.x.io:{port}")[1] != "you said hello":
            pass


def test_what_was_refused_is_recorded_up_to_a_bound_and_without_control_characters(tmp_path: Path) -> None:
    with proxy_to(tmp_path) as proxy:
        for number in range(60):
            tunnel(proxy.path, f"h{number}.io:443")
        assert ask(proxy.path, "CONNECT \x1b[31m HTTP/1.1\r\n\r\n").startswith("HTTP/1.1 400 ")
    assert len(proxy.refused) == 50
    assert proxy.refused[3] == "h3.io:443 is not granted to this call, which may reach nothing"


def test_a_large_transfer_in_both_directions_arrives_whole(tmp_path: Path) -> None:
    def back(client: socket.socket) -> None:
        while data := client.recv(65536):
            client.sendall(data)

    sent = bytes(range(256)) * 16384
    with server(back) as port, proxy_to(tmp_path, ("api.x.io", port)) as proxy, connect(proxy.path) as client:
        client.sendall(f"CONNECT api.x.io:{port} HTTP/1.1\r\n\r\n".encode())
        assert client.recv(100).endswith(b"\r\n\r\n")
        got = bytearray()

        def send() -> None:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        while part := client.recv(65536):
            got += part
        sender.join()
    assert bytes(got) == sent


def test_closing_ends_open_tunnels_and_threads_and_takes_the_socket_away(tmp_path: Path, port: int) -> None:
    before = threading.active_count()
    proxy = proxy_to(tmp_path, ("api.x.io", port))
    assert stat.S_IMODE(proxy.path.stat().st_mode) == 0o600
    with connect(proxy.path) as client, connect(proxy.path) as silent:
        client.sendall(f"CONNECT api.x.io:{port} HTTP/1.1\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        proxy.close()
        assert client.recv(100) == b""
        assert b"200" not in silent.recv(100)
    assert not proxy.path.exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "proxy"]
    assert threading.active_count() <= before + 1
    proxy.close()


def test_a_socket_may_lie_deep_and_takes_nobodys_place(tmp_path: Path, port: int) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with Proxy([("api.x.io", port)], frozenset(), deep / "s", loopback) as proxy:
        assert proxy.path.is_socket()
        with pytest.raises(OSError):
            Proxy([("api.x.io", port)], frozenset(), deep / "s", loopback)
    (deep / "s").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        Proxy([], frozenset(), deep / "s", loopback)
    assert not (tmp_path / "elsewhere").exists()
