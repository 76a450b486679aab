"""A tool with a network through whole runs: the proxy at full, any host below, and what a person is told of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli.guarding import confinement_notices
from tests.cage_world import NEITHER, NO_BWRAP, Caged, last, level, make, needs_full, needs_landlock, printed
from tests.loop_world import Person
from tests.net_servers import page, server

FETCH = """
import http.client, json, os, sys
from urllib.parse import urlsplit
seen = {}
for place in [word for word in sys.argv[1:] if "/" not in word and ":" in word]:
    host, _, port = place.rpartition(":")
    proxy = os.environ.get("HTTPS_PROXY")
    try:
        if proxy:
            at = urlsplit(proxy)
            connection = http.client.HTTPConnection(at.hostname, at.port, timeout=20)
            connection.set_tunnel(host, int(port))
        else:
            connection = http.client.HTTPConnection(host, int(port), timeout=20)
        connection.request("GET", "/")
        seen[place] = connection.getresponse().status
    except OSError as error:
        seen[place] = str(error)
print(json.dumps(seen))
"""
HEAD = "@meta effect external\n@meta net {net}\n@option --url <URL>  where\n@arg places+  host:port"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Caged:
    return make(tmp_path, monkeypatch)


def fetch(project: Caged, net: str, url: str, *places: str) -> tuple[dict[str, object], dict[str, object]]:
    """What the tool saw of each place, and the data of its end."""
    project.python("fetch", FETCH, HEAD.format(net=net))
    ran = project.one("fetch", "--url", url, *places, yes=True)
    assert ran.stop.name == "passed"
    return json.loads(printed(ran)), {**last(ran), "level": level(ran)}


@needs_full
def test_A44_at_full_only_the_granted_place_is_reached(project: Caged) -> None:
    with server(page) as port, server(page) as other:
        project.policy(f"network:\n  hosts:\n    fetch: [127.0.0.1:{port}]")
        good, evil, rest = f"127.0.0.1:{port}", f"127.0.0.1:{other}", "evil.example:443"
        seen, end = fetch(project, "--url", f"http://{good}/x", good, evil, rest)
    assert end["level"] == "full"
    assert seen[good] == 200
    assert "403" in str(seen[evil]) and "403" in str(seen[rest])
    assert "evil.example:443 is not granted to this call" in str(end["why"])
    assert project.person is not None and project.person.shown[0]["network"] == f"network {good}"


@needs_full
def test_A44_a_private_address_needs_the_persons_own_list(project: Caged) -> None:
    with server(page) as port:
        place = f"127.0.0.1:{port}"
        seen, end = fetch(project, "--url", f"http://{place}/", place)
    assert "403" in str(seen[place]) and "no public address" in str(end["why"])


@needs_full
def test_A44_a_user_in_the_url_reaches_nothing(project: Caged) -> None:
    project.python("fetch", FETCH, HEAD.format(net="--url"))
    ran = project.one("fetch", "--url", "https://good.example@evil.example/", "x:1", yes=True)
    assert ran.spawned == [] and ran.codes() == ["INVALID_INPUT"]
    assert "a URL with a user in it" in ran.reasons()[0]


@needs_landlock
def test_A44_at_landlock_any_host_is_reached_and_that_is_said(project: Caged) -> None:
    project.machine = NO_BWRAP
    with server(page) as port:
        place = f"127.0.0.1:{port}"
        seen, end = fetch(project, "api.good.example", "http://api.good.example/", place)
    assert (end["level"], seen[place]) == ("landlock", 200)
    assert isinstance(project.person, Person) and project.person.shown[0]["network"] == "network any host"
    assert project.guard is not None
    assert any("reaches any host" in line for line in confinement_notices(project.guard))


@needs_full
def test_a_tool_that_speaks_no_http_gets_the_hosts_network_by_policy(project: Caged) -> None:
    project.policy("network:\n  hosts:\n    fetch: any")
    with server(page) as port:
        place = f"127.0.0.1:{port}"
        seen, end = fetch(project, "db.example:5432", "http://db.example/", place)
    assert (end["level"], seen[place]) == ("full", 200)
    assert project.person is not None and project.person.shown[0]["network"] == "network any host"


def test_without_confinement_it_is_refused(project: Caged) -> None:
    project.machine = NEITHER
    project.python("fetch", FETCH, HEAD.format(net="api.good.example"))
    ran = project.one("fetch", "x:1", allow=("fetch",))
    assert (ran.codes(), ran.spawned) == (["DENIED"], [])
