"""Which level a call gets: the whole table, and what is said when it is less."""

from __future__ import annotations

import pytest

from harness.sandbox import Level, Machine
from harness.sandbox import Tested as Seen
from harness.sandbox.choose import Call, Choice, Refusal, Require, level_for, summary

ALL = Machine({"landlock": Seen("landlock"), "full": Seen("full")})
NO_FULL = Machine({"landlock": Seen("landlock"), "full": Seen("full", reason="bubblewrap is not installed")})
NO_LANDLOCK = Machine({"landlock": Seen("landlock", reason="too old"), "full": Seen("full")})
NEITHER = Machine({"landlock": Seen("landlock", reason="too old"), "full": Seen("full", reason="no bubblewrap")})

READ, WRITE = Call("t", "read"), Call("t", "write")
FULL_CALLS = [
    Call("t", "external"),
    Call("t", "money"),
    Call("t", "destructive"),
    Call("t", "read", secret=True),
    Call("t", "write", secret=True, networked=True),
    Call("t", "read", trusted=False),
    Call("t", "write", trusted=False, networked=True),
]
NETWORKED = [Call("t", "read", networked=True), Call("t", "write", networked=True)]


def level(call: Call, machine: Machine, *more: object) -> object:
    found = level_for(call, machine, *more)  # type: ignore[arg-type]
    return found.level if isinstance(found, Choice) else "refused"


@pytest.mark.parametrize(
    ("call", "everything", "no_full", "no_landlock", "neither"),
    [
        (READ, "landlock", "landlock", "full", "limits"),
        (WRITE, "full", "landlock", "full", "limits"),
        *((call, "full", "landlock", "full", "limits") for call in NETWORKED),
        *((call, "full", "landlock", "full", "refused") for call in FULL_CALLS),
    ],
)
def test_auto(call: Call, everything: str, no_full: str, no_landlock: str, neither: str) -> None:
    found = [level(call, machine) for machine in (ALL, NO_FULL, NO_LANDLOCK, NEITHER)]
    assert found == [everything, no_full, no_landlock, neither]


@pytest.mark.parametrize("call", [READ, WRITE, *NETWORKED, *FULL_CALLS])
@pytest.mark.parametrize("machine", [ALL, NO_FULL, NO_LANDLOCK, NEITHER])
def test_no_level_falls_silently(call: Call, machine: Machine) -> None:
    found = level_for(call, machine)
    wanted = level_for(call, ALL)
    assert isinstance(wanted, Choice)
    if isinstance(found, Refusal):
        assert "no bubblewrap" in found.why
        assert "sandbox.require" in found.fix
    else:
        order = ("none", "limits", "landlock", "full")
        assert found.fell == (order.index(found.level) < order.index(wanted.level))
        assert found.fell == ("not " in found.why)


@pytest.mark.parametrize("require", ["none", "limits", "landlock", "full"])
@pytest.mark.parametrize("call", [READ, *(call for call in FULL_CALLS if call.trusted)])
def test_another_value_is_the_level_of_every_call(require: Require, call: Call) -> None:
    assert level(call, ALL, require) == require
    assert level(call, NEITHER, require) == (require if require in ("none", "limits") else "refused")


@pytest.mark.parametrize("require", ["none", "limits", "landlock", "full"])
@pytest.mark.parametrize("call", [call for call in FULL_CALLS if not call.trusted])
def test_what_nobody_trusts_is_confined_whatever_the_user_lowered(require: Require, call: Call) -> None:
    assert level(call, ALL, require) == "full" and level(call, NEITHER, require) == "refused"
    assert level(call, NO_FULL, require) == ("refused" if require == "full" else "landlock")
    assert level(call, ALL, require, "it needs the device") == "full"


def test_a_required_level_may_be_given_by_the_next_higher_one() -> None:
    assert level(READ, NO_LANDLOCK, "landlock") == "full"


@pytest.mark.parametrize(
    ("require", "least", "machine", "expected"),
    [
        ("auto", "full", ALL, "full"),
        ("auto", "none", ALL, "landlock"),
        ("auto", "full", NO_FULL, "refused"),
        ("auto", "landlock", NEITHER, "refused"),
        ("none", "landlock", ALL, "landlock"),
        ("full", "limits", ALL, "full"),
    ],
)
def test_the_command_line_only_raises(require: Require, least: Level, machine: Machine, expected: str) -> None:
    assert level(READ, machine, require, "", least) == expected


def test_an_unconfined_tool_runs_unconfined_and_says_why() -> None:
    found = level_for(WRITE, ALL, "full", "needs the GPU")
    assert isinstance(found, Choice)
    assert found.level == "none"
    assert "needs the GPU" in found.why
    assert level(WRITE, ALL, "auto", "needs the GPU", "landlock") == "landlock"


def test_a_level_that_was_not_tested_does_not_count() -> None:
    assert level(WRITE, Machine()) == "limits"
    assert level(FULL_CALLS[0], Machine()) == "refused"


@pytest.mark.parametrize(
    ("machine", "require", "line"),
    [
        (ALL, "auto", "confinement: full; plain reads: landlock"),
        (NO_LANDLOCK, "auto", "confinement: full"),
        (NO_FULL, "auto", "confinement: landlock; full: bubblewrap is not installed"),
        (NEITHER, "auto", "confinement: limits; full: no bubblewrap; landlock: too old"),
        (ALL, "none", "confinement: none, as `sandbox.require` says"),
    ],
)
def test_one_line_says_what_calls_get(machine: Machine, require: Require, line: str) -> None:
    assert summary(machine, require) == line
