"""Whether a rule matches a call: typed values against tests, each true, false or not to be evaluated. Pure.

What cannot be evaluated fails an allow rule and fulfils an ask or deny rule: doubt never helps a call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from urllib.parse import urlsplit

from harness.policy import LEVELS, Grant, Rule, Test
from harness.policy.hosts import place_in, place_text
from harness.policy.names import folded, lies_in
from harness.policy.request import Request, Typed

_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::([0-9]+))?")
_TIES = frozenset(("eq", "in", "host", "from"))


def is_about(rule: Rule, request: Request) -> bool:
    """Whether the rule speaks of calls like this one, whatever their arguments."""
    return (
        (not rule.tools or request.tool in rule.tools)
        and (not rule.effects or request.effect in rule.effects)
        and (not rule.skills or request.skill in rule.skills)
    )


def matches(rule: Rule, request: Request) -> bool:
    """Whether the rule is about the call and all of its `where` holds: a plain loop, gone through for every rule."""
    if not is_about(rule, request):
        return False
    exact = rule.verdict == "allow"
    for option, test in rule.where:
        found = evaluate(option, test, request, exact)
        if not found and (exact or found is not None):
            return False
    return True


def failing(rule: Rule, request: Request) -> Iterator[str]:
    """What of a rule's `where` does not hold for the call, in words."""
    for option, test, found in _unmet(rule, request):
        said = "cannot be evaluated" if found is None else "does not hold"
        yield f"{option}: {test.operator} {' '.join(test.wanted)} {said}"


def _unmet(rule: Rule, request: Request) -> Iterator[tuple[str, Test, bool | None]]:
    exact = rule.verdict == "allow"
    for option, test in rule.where:
        found = evaluate(option, test, request, exact)
        if not found and (exact or found is not None):
            yield option, test, found


def ties(rule: Rule, request: Request) -> bool:
    """Whether the rule says where everything goes: every destination stands under eq, in, host or from."""
    tied = {option for option, test in rule.where if test.operator in _TIES}
    return all(dest.option in tied for dest in request.dests)


def binds_all(rule: Rule, request: Request) -> bool:
    """Whether the rule names every argument of the call with `eq`."""
    bound = {option for option, test in rule.where if test.operator == "eq"}
    return all(option in bound for option in request.typed if option.removeprefix("--") in request.values)


def grants(grant: Grant, request: Request) -> bool:
    """Whether a remembered yes is one to this call: the same bytes and values, or hosts, here, confined no less."""
    same = (grant.tool, grant.path, grant.digest, grant.cwd) == (
        request.tool, request.path, request.digest, request.cwd)  # fmt: skip
    if not same or not request.digest:
        return False
    if not (_stays_at(grant, request) if grant.hosts else dict(grant.values) == dict(request.values)):
        return False
    level = request.level or "none"
    return level in LEVELS and LEVELS.index(level) >= LEVELS.index(grant.level)


def _stays_at(grant: Grant, request: Request) -> bool:
    """Whether a call that only reads goes nowhere but to the hosts of the grant, and names them as its receivers."""
    if not request.reads or not request.hosts or not set(request.hosts) <= set(grant.hosts):
        return False
    places = [connected(dest.value) for dest in request.dests]
    return all(at is not None and at[1] is not None and place_text((at[0], at[1])) in grant.hosts for at in places)


def evaluate(option: str, test: Test, request: Request, exact: bool) -> bool | None:
    """Whether a test holds; None where that cannot be said. `exact`: spellings that only look alike do not count."""
    given = request.typed.get(option)
    if given is None:
        return None
    if given.kind == "text" and test.operator == "eq" and given.texts and not given.many and not test.whole:
        return given.texts[0] == test.wanted[0]  # the commonest by far, as `_eq` would find it
    if not given.texts and test.operator not in ("eq", "len_max"):
        return None
    if test.operator == "under":
        return _under(option, test, request, exact)
    if test.operator == "from":
        return _from(option, test, request)
    return _COMPARE[test.operator](test, given)


def _every(found: list[bool | None]) -> bool | None:
    return False if False in found else None if None in found else True


def _eq(test: Test, given: Typed) -> bool | None:
    if test.whole and not given.many:
        return None
    if not given.many:
        return _same(given.kind, given.texts[0], test.wanted[0]) if given.texts else None
    if len(given.texts) != len(test.wanted):
        return False
    return _every([_same(given.kind, a, b) for a, b in zip(given.texts, test.wanted, strict=True)])


def _same(kind: str, text: str, wanted: str) -> bool | None:
    """Equal by type: `1.0` and `1` are one number, `prod` is no number at all."""
    if text == wanted:
        return True
    if kind == "number":
        number = number_of(wanted)
        return None if number is None else number_of(text) == number
    return None if kind == "flag" and wanted not in ("true", "false") else False


def _in(test: Test, given: Typed) -> bool | None:
    return _every([_one_of(given.kind, text, test.wanted) for text in given.texts])


def _one_of(kind: str, text: str, wanted: tuple[str, ...]) -> bool | None:
    found = [_same(kind, text, word) for word in wanted]
    return True if True in found else None if None in found else False


def _max(test: Test, given: Typed) -> bool | None:
    if given.kind != "number":
        return None
    most = Decimal(test.wanted[0])
    return _every([None if (number := number_of(text)) is None else number <= most for text in given.texts])


def _len_max(test: Test, given: Typed) -> bool | None:
    if given.many:
        return len(given.texts) <= int(test.wanted[0])
    return None if given.kind != "text" or not given.texts else len(given.texts[0]) <= int(test.wanted[0])


def number_of(text: str) -> Decimal | None:
    """A finite number, or None."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _under(option: str, test: Test, request: Request, exact: bool) -> bool | None:
    found = [path.real for path in request.paths if path.option == option]
    if len(found) != len(request.typed[option].texts):
        return None
    roots = test.wanted
    if not exact:
        found, roots = [folded(real) for real in found], tuple(folded(root) for root in roots)
    return all(any(lies_in(real, root) for root in roots) for real in found)


def _from(option: str, test: Test, request: Request) -> bool | None:
    found = request.sources.get(option)
    if not found or len(found) != len(request.typed[option].texts):
        return None
    return _every([_meets(sources, test.wanted, request.traced) for sources in found])


def _meets(sources: frozenset[str], wanted: tuple[str, ...], traced: bool) -> bool | None:
    """Whether one of the sources is wanted; that a value comes from nowhere is known only once all was looked at."""
    kinds = {source.partition(":")[0] for source in sources}
    if any(word in sources or word in kinds for word in wanted):
        return True
    return False if traced or set(wanted) <= {"user"} else None


def _host(test: Test, given: Typed) -> bool | None:
    if given.kind != "text":
        return None
    return _every([_hosts_match(text, test.wanted) for text in given.texts])


def _hosts_match(text: str, wanted: tuple[str, ...]) -> bool | None:
    place = connected(text)
    return None if place is None else any(_host_matches(*place, word) for word in wanted)


def connected(text: str) -> tuple[str, int | None] | None:
    """The host that a URL, a host or a mail address names, in its normal form, and its port (a mail address has none).

    None for what names none for sure: a URL with a user in it, a scheme that goes nowhere, a name that is not ASCII.
    """
    try:
        if "://" in text:
            return None if urlsplit(text).scheme == "file" else place_in(text, userinfo=False)
        name, at, domain = text.rpartition("@")
        if not at:
            return place_in(text, userinfo=False)
        return (place_in(domain, userinfo=False)[0], None) if name and "@" not in name and ":" not in domain else None
    except ValueError:
        return None


def _host_matches(host: str, port: int | None, word: str) -> bool:
    """`x.io`, `.x.io` for any name below it, either with `:port`."""
    found = _HOST.fullmatch(word)
    if found is None or (found[2] and str(port) != found[2]):
        return False
    name = found[1].strip("[]")
    return host.endswith(name) if name.startswith(".") else host == name


_COMPARE: Mapping[str, Callable[[Test, Typed], bool | None]] = {
    "eq": _eq, "in": _in, "max": _max, "len_max": _len_max, "host": _host,
}  # fmt: skip
