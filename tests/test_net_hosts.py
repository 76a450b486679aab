"""Hosts: which spellings are one name, and what `@meta net` of a call comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import HarnessError
from harness.policy.hosts import Grant, hosts_of, normal_host, place_in, place_of, place_text
from harness.policy.settings import Settings
from harness.tools import EnvVar, Parameter, Tool, Value


def tool(*net: str) -> Tool:
    parameters = (Parameter("url", "option"), Parameter("to", "option", mod="*"), Parameter("where", "arg"))
    return Tool("fetch", Path("bin/fetch"), parameters=parameters, net=net, env=(EnvVar("DATABASE_URL"),))


def grant(net: str, hosts: object = (), env: dict[str, str] | None = None, **values: Value) -> Grant:
    settings = Settings(hosts={"fetch": hosts})  # type: ignore[dict-item]
    return hosts_of(tool(*net.split()), values, env or {}, settings)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("API.X.io", ("api.x.io", 443)),
        ("api.x.io.:8443", ("api.x.io", 8443)),
        ("https://api.x.io/a?b=c", ("api.x.io", 443)),
        ("http://api.x.io", ("api.x.io", 80)),
        ("https://api.x.io:8443", ("api.x.io", 8443)),
        ("[2001:DB8::0:1]:443", ("2001:db8::1", 443)),
        ("192.0.2.1", ("192.0.2.1", 443)),
        ("a_b-c.x.io", ("a_b-c.x.io", 443)),
    ],
)
def test_a_host_a_place_and_a_url_name_a_place(text: str, place: tuple[str, int]) -> None:
    assert place_in(text, userinfo=False) == place
    assert place_of(place_text(place)) == place


@pytest.mark.parametrize(
    "text",
    [
        *("", ".", "a..b", "-a.io", "a-.io", "bücher.example", "ａ.io", "a\u200b.io", f"{'a' * 64}.io", "*.x.io"),
        *("2130706433", "0x7f.1", "127.1", "0177.0.0.1", "1.2.3.4.5", "256.1.1.1", "1.2.3.04", "0x7f000001", "a.0x1"),
        *("[::ffff:127.0.0.1]", "[fe80::1%eth0]", "[::1", "::1::", "[1.2.3.4]", "a.io:", "a.io:0", "a.io:70000", "a:b"),
        *("user@a.io", "https://user@a.io/", "https://a.io\\@b.io/", "https://a.io\t/", "https:///x", "https://[a]/"),
        *("file:///etc/passwd", "a.io/path"),
    ],
)
def test_what_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        place_in(text, userinfo=False)


def test_an_address_is_normal_in_one_form_only() -> None:
    assert normal_host("[0:0::1]") == "::1"
    assert normal_host("XN--bcher-kva.example.") == "xn--bcher-kva.example"


def test_fixed_hosts_arguments_and_variables_name_the_places_of_a_call() -> None:
    assert grant("api.x.io b.io:8443").allow == (("api.x.io", 443), ("b.io", 8443))
    assert grant("--url", url="https://a.io/x").allow == (("a.io", 443),)
    assert grant("--to", to=("a.io", "b.io:1", "a.io")).allow == (("a.io", 443), ("b.io", 1))
    assert grant("where", where="http://a.io").allow == (("a.io", 80),)
    by_variable = grant("DATABASE_URL", env={"DATABASE_URL": "postgresql://me:pass%2Fword@db.corp:5432/x"})
    assert by_variable.allow == (("db.corp", 5432),)


def test_what_is_not_given_names_no_place() -> None:
    for words in ("", "none", "--url", "--to", "where", "DATABASE_URL"):
        assert grant(words, to=()) == Grant()
    assert grant("", hosts=("a.io",)) == Grant(), "a tool that declares no network has none"
    assert grant("none", hosts="any") == Grant()


def test_the_users_list_makes_private_addresses_right_and_adds_no_place() -> None:
    assert grant("a.io b.io:1 b.io:2", ("a.io", "b.io:2", "c.io")).private_ok == {("a.io", 443), ("b.io", 2)}
    assert grant("[::1]:8443", ("[::1]",)).private_ok == {("::1", 8443)}
    assert grant("a.io", ("a.io:80",)) == Grant((("a.io", 443),))


def test_what_is_said_is_what_the_level_gives() -> None:
    named, whole = grant("api.x.io [2001:db8::1]:8443"), grant("api.x.io", "any")
    assert (named.network("full"), named.text("full")) == ("proxy", "network api.x.io:443 [2001:db8::1]:8443")
    assert (named.network("landlock"), named.text("landlock")) == ("host", "network any host")
    assert (whole.network("full"), whole.text("full")) == ("host", "network any host")
    assert (Grant().network("none"), Grant().text("full")) == ("off", "")


def test_a44_userinfo_in_an_argument_is_refused_and_a_variables_value_is_never_shown() -> None:
    with pytest.raises(HarnessError, match="user in it"):
        grant("--url", url="https://good.io@evil.io/")
    with pytest.raises(HarnessError) as caught:
        grant("DATABASE_URL", env={"DATABASE_URL": "postgresql://me:hunter22@/x"})
    assert "hunter22" not in caught.value.message + caught.value.fix
