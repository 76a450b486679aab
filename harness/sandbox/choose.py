"""Which level a call gets, from what it does and what the machine gives. Pure: nothing here looks at the machine.

No level falls silently: the sentence that says why comes with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.sandbox import LEVELS, Level, Machine

Require = Literal["auto", "none", "limits", "landlock", "full"]


@dataclass(frozen=True, slots=True)
class Call:
    """What counts of a call: the tool's effect word, whether it reaches a network or gets a secret, and its project."""

    tool: str
    effect: str
    networked: bool = False
    secret: bool = False
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """The level of a call. `why` is a sentence for people; `fell` says that it is less than the call should have."""

    level: Level
    why: str
    fell: bool = False


@dataclass(frozen=True, slots=True)
class Refusal:
    """The call does not run: which level is missing, in a sentence, and what to do about it."""

    missing: Level
    why: str
    fix: str


def level_for(
    call: Call, machine: Machine, require: Require = "auto", unconfined: str = "", least: Level = "none"
) -> Choice | Refusal:
    """The level that `call` runs at, or why it does not.

    `require` is the user's or the system's `sandbox.require`. `unconfined` is the user's reason to run this tool
    without confinement, empty for none. `least` is what the command line and narrowing files ask for: it only raises.
    What nobody trusts runs confined or not at all: for it the rules of `auto` hold, and the user's words only raise.
    """
    if not call.trusted:
        least = _higher(_higher(least, "landlock"), "none" if require == "auto" else require)
        require, unconfined = "auto", ""
    if unconfined and least == "none":
        return Choice("none", f"{call.tool} runs unconfined: the user's policy says so ({unconfined})")
    if require != "auto" or unconfined:
        return _at_least(call, machine, _higher(least, "none" if require == "auto" else require))
    wanted = _wanted(call)
    found = _best(machine, _higher(wanted, least)) or _fallen(call, machine, wanted)
    if found is None or LEVELS.index(found) < LEVELS.index(least):
        return _refused(call, machine, _higher("landlock", least) if found is None else least)
    if LEVELS.index(found) >= LEVELS.index(wanted):
        return Choice(found, f"{call.tool} runs at {found}")
    return Choice(found, f"{call.tool} runs at {found}, not {wanted}: {_reasons(machine, found)}", fell=True)


def summary(machine: Machine, require: Require = "auto", least: Level = "none") -> str:
    """The line at the start of a run: what calls get here, and why not more. `least` as for a call."""
    if require != "auto":
        return f"confinement: {strongest(machine, require, least)}, as `sandbox.require` says"
    best = strongest(machine)
    if best == "full":
        plain = "; plain reads: landlock" if least != "full" and machine.gives("landlock") else ""
        return f"confinement: full{plain}"
    return f"confinement: {best}; {_reasons(machine, best)}"


def strongest(machine: Machine, require: Require = "auto", least: Level = "none") -> Level:
    """The most that calls get here: with `auto` the best there is, else the level asked for."""
    if require != "auto":
        return _best(machine, _higher(require, least)) or "none"
    return next((level for level in reversed(LEVELS) if machine.gives(level)), "none")


def _wanted(call: Call) -> Level:
    plain = not (call.networked or call.secret) and call.trusted
    return "landlock" if plain and call.effect == "read" else "full"


def _fallen(call: Call, machine: Machine, wanted: Level) -> Level | None:
    """The next lower level that the call may still run at."""
    if wanted == "full" and machine.gives("landlock"):
        return "landlock"
    if call.secret or not call.trusted or call.effect not in ("read", "write"):
        return None
    return "limits"


def _at_least(call: Call, machine: Machine, level: Level) -> Choice | Refusal:
    found = _best(machine, level)
    return Choice(found, f"{call.tool} runs at {found}") if found else _refused(call, machine, level)


def _best(machine: Machine, level: Level) -> Level | None:
    """The weakest level of the machine that is no weaker than the one asked for."""
    return next((found for found in LEVELS[LEVELS.index(level) :] if machine.gives(found)), None)


def _higher(one: Level, other: Level) -> Level:
    return max(one, other, key=LEVELS.index)


def _refused(call: Call, machine: Machine, level: Level) -> Refusal:
    reasons = _reasons(machine, LEVELS[LEVELS.index(level) - 1])
    why = f"{call.tool} needs confinement {level}, which this machine does not give ({reasons})"
    return Refusal(level, why, "mend what is named; the least level is `sandbox.require` in the user's policy")


def _reasons(machine: Machine, found: Level) -> str:
    """Why the machine gives no more than what was found."""
    missing = [level for level in LEVELS[LEVELS.index(found) + 1 :] if not machine.gives(level)]
    return "; ".join(f"{level}: {_reason(machine, level)}" for level in reversed(missing))


def _reason(machine: Machine, level: Level) -> str:
    tested = machine.levels.get(level)
    return tested.reason if tested else "not tested here"
