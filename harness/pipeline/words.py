"""The words of a stage as they bind now, with what a person or a later call has set in place of one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.tools import Parameter, Tool, Value
from harness.tools.arguments import canonical, looks_like_option, parse
from harness.tools.expression import Lookup, Word, bind
from harness.tools.stages import Stage


def bound(stage: Stage, lookup: Lookup, tool: Tool | None, given: Mapping[str, object]) -> list[str]:
    """The words of a stage. `given` are values by parameter that take the place of what is written.

    What comes from inputs and results is a value: it never becomes an option by itself. Raises ValueError.
    """
    if not given:
        return _bound(stage.run, lookup)
    kinds, options = _options(tool, given)
    words = _bound(kept(stage, tool, given), lookup)
    words[1:1] = [word for name, value in options.items() for word in _written(name, value, kinds.get(name))]
    places = {name: _value(value) for name, value in given.items() if name not in options}
    return words if tool is None or not places else _placed(tool, words, places)


def kept(stage: Stage, tool: Tool | None, given: Mapping[str, object]) -> list[Word]:
    """The words as written, but for those that a given option takes the place of."""
    kinds, options = _options(tool, given)
    return _without(stage.run, {name: kinds.get(name) for name in options})


def _options(
    tool: Tool | None, given: Mapping[str, object]
) -> tuple[dict[str, Parameter], dict[str, object]]:
    """The tool's parameters by name, and those of the given values that are no positionals."""
    kinds = {p.name: p for p in tool.parameters} if tool is not None else {}
    return kinds, {name: value for name, value in given.items() if name not in kinds or kinds[name].kind != "arg"}


def _bound(template: Sequence[Word], lookup: Lookup) -> list[str]:
    words: list[str] = []
    for word in template:
        texts = bind(word, lookup)
        loose = "--" not in words and not isinstance(word.parts[0], str)
        odd = next((text for text in texts if loose and looks_like_option(text)), None)
        if odd is not None:
            fix = f"write --opt={word.text}, or -- before it"
            raise ValueError(f"{word.text} is {odd!r}, which would be read as an option; {fix}")
        words += texts
    return words


def _without(template: Sequence[Word], names: Mapping[str, Parameter | None]) -> list[Word]:
    """The words but for these options and their values."""
    left = list(template)
    made: list[Word] = []
    while left:
        word = left.pop(0)
        if word.text == "--":
            return [*made, word, *left]
        hit = next((p for name, p in names.items() if _names(word.text, name, p)), None)
        if hit is None and not any(_names(word.text, name, p) for name, p in names.items()):
            made.append(word)
        elif left and hit is not None and hit.kind == "option" and _is_bare(word.text, hit):
            left.pop(0)
    return made


def _names(text: str, name: str, parameter: Parameter | None) -> bool:
    """Whether a word is this option, alone or with its value."""
    short = f"-{parameter.short}" if parameter is not None and parameter.short else None
    is_short = short is not None and text.startswith(short) and not text.startswith("--")
    return text == f"--{name}" or text.startswith(f"--{name}=") or is_short


def _is_bare(text: str, parameter: Parameter) -> bool:
    return text in (f"--{parameter.name}", f"-{parameter.short}")


def _written(name: str, value: object, parameter: Parameter | None) -> list[str]:
    """An option as it is called."""
    if parameter is not None and parameter.kind == "flag":
        return [f"--{name}"] if value == "true" else []
    return [f"--{name}={text}" for text in (value if isinstance(value, list) else [value])]


def _value(value: object) -> Value:
    return tuple(str(text) for text in value) if isinstance(value, list) else str(value)


def _placed(tool: Tool, words: list[str], places: Mapping[str, Value]) -> list[str]:
    """The words with these positional arguments; where the others do not fit, the gate is to say so."""
    values, problems = parse(tool, words[1:])
    missing = [p for p in problems if not any(p.startswith(f"missing {name}") for name in places)]
    return words if missing else [words[0], *canonical(tool, {**values, **places})]
