"""Which model speaks: whose word counts first, what a project or a skill may name, and what is taken without a word.

Everything is looked up on this machine, and no provider's library is loaded for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial

from harness.config import Config, user_file
from harness.errors import HarnessError, NoModelError
from harness.models import NEVER_PAID, ModelRef
from harness.models.resolve import FORMS, check_scheme, resolve
from harness.skills import Skill

ROLES = ("strong", "cheap")
CHEAPEST = "anthropic:claude-haiku-5-5"
CEILING = Decimal(10)


@dataclass(frozen=True, slots=True)
class Named:
    """A model string and where it was written."""

    text: str
    origin: str


@dataclass(frozen=True, slots=True)
class StandIn:
    """A model that takes over when another is not there; `dearer` where it may cost more, or nobody knows what."""

    text: str
    dearer: bool = False
    origin: str = field(default="models.fallback", compare=False)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the settings say of models: by role, of the project and of the user, and the user's own bounds.

    `ceiling` is USD for a million tokens of output: up to it a project or a skill may name a model by itself. `keys`
    are the names of keys by base URL; `effort` is how much a model should think, None where nobody says so. `said` is
    what the environment names, and where: a part of an agent's run goes by it, since its agent is no model to hand on.
    """

    project: Mapping[str, Named] = field(default_factory=dict)
    user: Mapping[str, Named] = field(default_factory=dict)
    stand_ins: Mapping[str, tuple[StandIn, ...]] = field(default_factory=dict)
    ceiling: Decimal = CEILING
    cache: str = "5m"
    effort: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    config: str = "the user's config.yaml"
    said: tuple[str, str] | None = None


def wishes_of(config: Config) -> Wishes:
    """What a command's settings say of models; whether these can be used is judged where they are."""
    fallback = config.settings["models.fallback"]
    keys = {role: f"models.{role}" for role in ROLES}
    there = {role: config.settings[key] for role, key in keys.items()}
    return Wishes(
        {role: Named(found.value, found.origin) for role, found in there.items() if found.layer == "project"},
        {role: Named(config.own[key].value, config.own[key].origin) for role, key in keys.items() if key in config.own},
        {
            role: tuple(StandIn(text, dearer, fallback.origin) for text, dearer in chain)
            for role, chain in fallback.value.items()
        },
        Decimal(config.value("models.ceiling")), config.value("models.cache"), config.value("models.effort"),
        config.value("endpoints"), str(user_file(os.environ)), said_of(config),
    )  # fmt: skip


def said_of(config: Config) -> tuple[str, str] | None:
    """The model that the environment names, and where."""
    found = config.settings["models.strong"]
    return (str(found.value), found.origin) if found.layer == "env" else None


def choose(said: tuple[str, str] | None, wishes: Wishes, skill: Skill | None, role: str = "strong") -> ModelRef:
    """The model for a skill's loop, or of a role. `said` is what a flag or the environment names, and which of them.

    Raises HarnessError (exit 2) for a string that names none, or that whoever wrote it may not name, one that may take
    over from it included; NoModelError (exit 4) where there is none to take.
    """
    wish = skill.model if skill is not None else None
    role = wish if wish in ROLES else role
    named = named_model(said, wishes, skill, role)
    found = named if named is not None else replace(automatic(skill), role=role)
    if found.scheme not in NEVER_PAID:  # nobody takes over from one that cannot be away
        for stand_in in wishes.stand_ins.get(role, ()):
            check_scheme(stand_in.text, stand_in.origin)
    return found


def unusable(wishes: Wishes) -> list[HarnessError]:
    """What the settings name and no run can use: for a run that does without it, and so is not refused."""
    layers = ((True, wishes.project), (False, wishes.user))
    tries: list[Callable[[], object]] = [
        partial(_resolved, named, wishes, role, foreign) for foreign, layer in layers for role, named in layer.items()
    ]
    tries += [partial(check_scheme, one.text, one.origin) for chain in wishes.stand_ins.values() for one in chain]
    return [error for attempt in tries if (error := _error_of(attempt)) is not None]


def _error_of(attempt: Callable[[], object]) -> HarnessError | None:
    try:
        attempt()
    except HarnessError as error:
        return error
    return None


def named_model(said: tuple[str, str] | None, wishes: Wishes, skill: Skill | None, role: str) -> ModelRef | None:
    """The same where somebody named one; None where nobody did."""
    if said is not None:
        return replace(resolve(said[0], source=said[1], skill=skill), role=role)
    foreign, named = _wished(wishes, skill.model if skill is not None else None, role, skill)
    return None if named is None else _resolved(named, wishes, role, foreign, skill)


def _resolved(named: Named, wishes: Wishes, role: str, foreign: bool, skill: Skill | None = None) -> ModelRef:
    """The model of a name, which is `foreign` where it is not the user's own word."""
    ref = replace(resolve(named.text, source=named.origin, skill=skill), role=role)
    if foreign:
        check_named(ref, named, wishes)
    return ref


def _wished(wishes: Wishes, wish: str | None, role: str, skill: Skill | None) -> tuple[bool, Named | None]:
    """The first word on this role, and whether it is one of the project's or the skill's; then one on the other."""
    if role in wishes.project:
        return True, wishes.project[role]
    if skill is not None and wish is not None and wish not in ROLES:
        return True, Named(wish, f"metadata.model of {skill.name}")
    if role in wishes.user:
        return False, wishes.user[role]
    for foreign, layer in ((True, wishes.project), (False, wishes.user)):
        for other, named in layer.items():
            return foreign, replace(named, origin=f"{named.origin}, as models.{other}: models.{role} is not set")
    return False, None


def check_named(ref: ModelRef, named: Named, wishes: Wishes) -> None:
    """Raises HarnessError where a project or a skill names what only the user may bring into play."""
    own = {name.text for name in wishes.user.values()}
    own |= {stand_in.text for chain in wishes.stand_ins.values() for stand_in in chain}
    if named.text in own:
        return
    why = _forbidden(ref, wishes.ceiling)
    if why is not None:
        fix = f"if you want it, put `models: {{{ref.role}: '{named.text}'}}` into {wishes.config}"
        raise HarnessError(f"{named.text} may not be named here: {why}", fix, named.origin)


def _forbidden(ref: ModelRef, ceiling: Decimal) -> str | None:
    if ref.scheme == "exec":
        return "it starts a program"
    if not _is_own(ref) and ref.base_url is not None and not _is_near(ref.base_url):
        return f"{ref.base_url} is not on this machine"
    if ref.price is None:
        return "its price is not known"
    if ref.price.out > ceiling:
        return f"a million tokens of its output cost {ref.price.out} USD, more than models.ceiling ({ceiling})"
    return None


def _is_own(ref: ModelRef) -> bool:
    """Whether its string names no address: it answers at its provider's own, or where the environment says."""
    from harness.models.endpoints import OWN_BASE

    return ref.scheme == "anthropic" or (ref.scheme, ref.base_url) == ("openai", OWN_BASE)


def _is_near(url: str) -> bool:
    from harness.models.wire import is_loopback

    return is_loopback(url)


def automatic(skill: Skill | None, env: Mapping[str, str] | None = None) -> ModelRef:
    """The model that is taken when nobody named one. Raises NoModelError with the ways to name one."""
    from harness.models.exchange import credential
    from harness.models.ollama import running_model

    env = os.environ if env is None else env
    checks: tuple[str, ...] = ()
    holder = credential(env)
    if holder is not None:
        return _taken(CHEAPEST, (f"anthropic: {holder}",), skill)
    checks += ("anthropic: no credential",)
    local, there = running_model(env)
    if local is not None:
        return _taken(f"ollama:{local}", (*checks, f"ollama: {local}"), skill)
    checks += (f"ollama: {', '.join(there) if there else 'no model'}",)
    if skill is not None and skill.pipeline:
        return _taken("none", (*checks, f"pipeline: {skill.pipeline}"), skill)
    weights, found = _weights()
    checks += (f"weights: {found}",)
    if weights is not None:
        return _taken(f"local:{weights}", checks, skill)
    raise NoModelError(f"no model to use: none was named; looked for {'; '.join(checks)}", _ways(env, skill))


def _weights() -> tuple[str | None, str]:
    """The weights to take by themselves, the only ones here, and what was found; no library is loaded."""
    from harness.models import weights

    names = weights.installed()
    if not names or not weights.has_library():
        return None, f"{', '.join(names)} without {weights.LIBRARY}" if names else "none"
    return (names[0] if len(names) == 1 else None), ", ".join(names)


def _taken(text: str, checks: tuple[str, ...], skill: Skill | None) -> ModelRef:
    return replace(resolve(text, source="auto", skill=skill), checks=checks)


def _ways(env: Mapping[str, str], skill: Skill | None) -> str:
    """How a model is given, of what there is: a skill may be driven by an agent, a question by nobody who only chooses.

    Nobody (`none`) is no way: for a skill with a pipeline it would have been taken.
    """
    unasked = ("anthropic", "openai", "none", *(() if skill is not None else ("local",)))
    forms = [f"-m {form}" for scheme, form in FORMS.items() if scheme not in unasked]
    if env.get("OPENAI_API_KEY"):
        forms.insert(0, "-m openai:NAME (OPENAI_API_KEY is set, and names no model)")
    last = "--agent" if skill is not None else "go on without: --optional"
    return "export ANTHROPIC_API_KEY=…  or  " + "  or  ".join([*forms, last])
