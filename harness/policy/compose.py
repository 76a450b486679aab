"""From a proposed call to the request that is decided: bounds, form, canonical argv, roles, effect. It decides nothing.

What is checked here is what is executed, byte for byte; nothing of it is expanded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path

from harness.errors import TOO_LARGE
from harness.policy import Operator, Policy
from harness.policy.destinations import named
from harness.policy.effects import effect_of, only_reads
from harness.policy.grounding import Found, Source
from harness.policy.hosts import is_argument
from harness.policy.names import folded
from harness.policy.paths import Area, Mode, check, has_variable, is_path_like
from harness.policy.request import CheckedPath, Destination, Grounding, Request, Typed
from harness.policy.settings import Settings
from harness.tools import Parameter, Tool, Value
from harness.tools.arguments import FREE, canonical, faults, parse
from harness.tools.compare import as_texts
from harness.tools.meta import spelled
from harness.tools.notation import MAX_DEPTH, expected, json_depth, shown

MAX_CALLS, MAX_ARGS, MAX_ARGV_BYTES = 64, 256, 128 * 1024
Knows = Callable[[str], Found]
"""The sources of a value; where it has none, known values near it with theirs."""
_PATHS = ("PATH", "FILE", "DIR")
_NUMBERS = ("INT", "NUM", "AMOUNT")


@dataclass(frozen=True, slots=True)
class Scene:
    """What is true around a call: where paths may lead, what the user said, and whose policy holds.

    `area`, `words`, the user's own texts, and `known`, the sources of a value and the known ones near it, are looked up
    only for a call that needs them. `tainted`: untrusted text
    is in the run. `attended`: somebody can be asked.
    """

    workspace: Path
    area: Callable[[Tool], Area]
    words: Callable[[], tuple[str, ...]] = tuple
    known: Knows | None = None
    settings: Settings = field(default_factory=Settings)
    policy: Policy = field(default_factory=Policy)
    skill: str = ""
    tainted: bool = False
    attended: bool = True


def too_large(args: Sequence[str], tool: Tool | None = None) -> str:
    """Which bound the words break, or an empty text. Linear in their length, and first of all checks."""
    if len(args) > MAX_ARGS:
        return f"{TOO_LARGE}: {len(args)} arguments, at most {MAX_ARGS}"
    if sum(map(len, args)) > MAX_ARGV_BYTES or sum(len(a.encode("utf-8", "replace")) for a in args) > MAX_ARGV_BYTES:
        return f"{TOO_LARGE}: more than {MAX_ARGV_BYTES // 1024} KiB of arguments"
    takes_json = tool is not None and any(one.notation == "JSON" for one in tool.parameters)
    if takes_json and any(json_depth(word) > MAX_DEPTH for word in args):
        return f"{TOO_LARGE}: JSON nested more than {MAX_DEPTH} deep"
    return ""


def compose(tool: Tool, args: Sequence[str], scene: Scene) -> Request:
    """The request of a call of `tool` with these words; what is only known elsewhere is still missing in it."""
    effect, origin = effect_of(tool, scene.settings)
    request = Request(
        tool.name, tuple(args), effect, tool.effect_declared or tool.pipeline, origin, repeat=tool.repeat,
        skill=scene.skill, path=str(tool.path), cwd=str(scene.workspace), tainted=scene.tainted,
        attended=scene.attended, reads=only_reads(tool),
    )  # fmt: skip
    if large := too_large(args, tool):
        return replace(request, large=large)
    if tool.broken is not None:
        return replace(request, broken=tool.broken.text())
    values, problems = parse(tool, args)
    amounts, wrong = ({}, []) if problems else _amounts(tool, values)
    if problems or wrong:
        return replace(request, problems=(faults(tool, [*problems, *wrong]),))
    typed = dict(_typed(tool, values))
    return replace(
        request, argv=canonical(tool, values), values=as_texts(tool, values), typed=typed, amounts=amounts,
        paths=_paths(tool, typed, scene), dests=tuple(_destinations(tool, typed, scene)),
        sources=_sources(tool, typed, scene), traced=scene.known is not None, grounding=_grounding(tool, typed, scene),
    )  # fmt: skip


def _typed(tool: Tool, values: Mapping[str, Value]) -> Iterator[tuple[str, Typed]]:
    """The arguments that have a value, by the name that the header writes."""
    if not tool.declared:
        yield FREE, Typed("text", _texts(values.get(FREE, ())), many=True)
    for parameter in tool.parameters:
        value = values.get(parameter.name)
        if value is not None:
            yield spelled(parameter), _one_typed(tool, parameter, value)


def _one_typed(tool: Tool, parameter: Parameter, value: Value) -> Typed:
    if isinstance(value, bool):
        return Typed("flag", (str(value).lower(),))
    is_amount = any(role.split()[0] == spelled(parameter) for role in tool.roles.get("amount", ()))
    is_number = isinstance(value, int) or parameter.notation in _NUMBERS or is_amount
    return Typed("number" if is_number else "text", _texts(value), parameter.many and not isinstance(value, int))


def _texts(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (str(value),)


def _paths(tool: Tool, typed: Mapping[str, Typed], scene: Scene) -> tuple[CheckedPath, ...]:
    """Every value that is a path or may be taken for one, and the paths that the header itself writes."""
    found = list(_candidates(tool, typed, scene))
    area, unprotected = scene.area(tool) if found else None, unprotected_of(tool, scene.settings)
    return tuple(check(option, text, mode, area, unprotected) for option, text, mode in found if area is not None)


def _candidates(tool: Tool, typed: Mapping[str, Typed], scene: Scene) -> Iterator[tuple[str, str, Mode]]:
    written = tool.roles.get("writes", ())
    kinds = {spelled(one): one.notation for one in tool.parameters}
    asked = _asked(tool, scene.policy, "under")
    for option, given in typed.items():
        mode: Mode = "write" if option in written else "read"
        is_path = kinds.get(option) in _PATHS or mode == "write" or option in asked
        for text in given.texts if given.kind == "text" else ():
            for part in _parts(text, option):
                if is_path or is_path_like(part) or (option == FREE and has_variable(part)):
                    yield option, part, mode
    for word in written:
        if not word.startswith("--") and word not in kinds:
            yield "", word, "write"


def _parts(text: str, option: str) -> tuple[str, ...]:
    """The text itself; of a word that no header declares also what follows its `=`."""
    _, equals, value = text.partition("=")
    return (text, value) if option == FREE and text.startswith("-") and equals else (text,)


def unprotected_of(tool: Tool, settings: Settings) -> frozenset[str]:
    """The names that the header says it writes and the user lets this tool write."""
    granted = settings.unprotect.get(tool.name, ())
    return frozenset(folded(word) for word in tool.roles.get("writes", ()) if word in granted)


def _destinations(tool: Tool, typed: Mapping[str, Typed], scene: Scene) -> Iterator[Destination]:
    """The values that say who or what receives; an argument that holds a host is one, too."""
    hosts = (word for word in tool.net if is_argument(tool, word))
    for option in dict.fromkeys(chain(tool.roles.get("dest", ()), hosts)):
        for text in typed[option].texts if option in typed else ():
            yield Destination(option, text, named(text, scene.words()))


def _sources(tool: Tool, typed: Mapping[str, Typed], scene: Scene) -> dict[str, tuple[frozenset[str], ...]]:
    """Where the values are from that a rule asks about."""
    return {
        option: tuple(_kinds(text, scene) for text in typed[option].texts)
        for option in _asked(tool, scene.policy, "from") if option in typed
    }  # fmt: skip


def _kinds(text: str, scene: Scene) -> frozenset[str]:
    """The user is a source only of what stands whole in the user's words."""
    kinds = {source.kind for source in scene.known(text).sources} - {"user"} if scene.known is not None else set[str]()
    return frozenset(kinds | ({"user"} if named(text, scene.words()) else set()))


def _grounding(tool: Tool, typed: Mapping[str, Typed], scene: Scene) -> tuple[Grounding, ...]:
    """The values that must be known; one that the header itself gives is."""
    if scene.known is None:
        return ()
    own = {spelled(one): one.default for one in tool.parameters if one.name in tool.known}
    return tuple(
        _ground(option, text, scene.known)
        for option in own if option in typed
        for text in typed[option].texts if text != own[option]
    )  # fmt: skip


def _ground(option: str, text: str, known: Knows) -> Grounding:
    found = known(text)
    labels = tuple(source.label for source in found.sources)
    return Grounding(option, text, labels, tuple(map(_told, found.near)), found.echo, found.written)


def _told(near: tuple[str, Source]) -> str:
    return f"{near[0]} from {near[1].label}"


def _asked(tool: Tool, policy: Policy, operator: Operator) -> set[str]:
    """The arguments of a tool that some rule tests in this way."""
    about = (rule for rule in policy.rules if not rule.tools or tool.name in rule.tools)
    return {option for rule in about for option, test in rule.where if test.operator == operator}


def _amounts(tool: Tool, values: Mapping[str, Value]) -> tuple[dict[str, Decimal], list[str]]:
    """The sums that `@meta amount` names, by currency, and what is wrong with them."""
    found: dict[str, Decimal] = {}
    wrong: list[str] = []
    for role in tool.roles.get("amount", ()):
        option, currency = role.split()
        texts = _texts(values.get(option.removeprefix("--"), ()))
        if not texts:
            wrong.append(f"missing {option}: the amount in {currency}")
        for text in texts:
            if want := expected("AMOUNT", text):
                wrong.append(f"{option}: {shown(text)} is not {want}")
            else:
                found[currency] = found.get(currency, Decimal(0)) + Decimal(text)
    return found, wrong
