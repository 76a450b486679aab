"""Arguments and argv, both ways: what a call says, what is wrong with it (all at once), and what is spawned for it.

Values stay the texts as given; types are checked, not converted. Sizes are bounded elsewhere.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence

from harness.errors import nearest
from harness.tools import Parameter, Tool, Value
from harness.tools.meta import spelled
from harness.tools.notation import expected, is_number, parse_duration, shown
from harness.tools.usage import faults, help_text, refusal, schema, usage

__all__ = [
    "canonical",
    "check_inputs",
    "faults",
    "help_text",
    "looks_like_option",
    "parse",
    "parse_duration",
    "refusal",
    "schema",
    "usage",
    "wants_help",
]
FREE = "args"
"""The one field of a tool that declares no arguments."""
_OPTION = re.compile(r"-(?!\d)(?=.)", re.DOTALL)


def looks_like_option(text: str) -> bool:
    """Whether some parser would take a word for an option: a dash that is not a number's, and not alone."""
    return _OPTION.match(text) is not None


def parse(tool: Tool, args: Sequence[str]) -> tuple[dict[str, Value], list[str]]:
    """The values by parameter name, defaults filled in, and every problem. With problems the values are incomplete.

    A flag is always there (False, or a count of 0), so is a repeatable (an empty tuple); an option or positional that
    was not given and has no default is not.
    """
    problems = _not_text(args)
    if not tool.declared:
        return {FREE: tuple(args)}, problems
    reader = _Reader(tool.parameters)
    reader.read(args)
    texts = reader.texts()
    problems += reader.problems
    values: dict[str, Value] = {}
    for parameter in tool.parameters:
        given = texts.get(parameter.name, [])
        value, wrong = _value(parameter, given, spelled(parameter))
        if value is not None:
            values[parameter.name] = value
        if given or parameter.name not in reader.spoilt:
            problems += wrong
    return values, problems


def canonical(tool: Tool, values: Mapping[str, Value]) -> tuple[str, ...]:
    """The one argv for these values: what is shown, approved, compared and spawned. Without the tool's own name."""
    if not tool.declared:
        return _texts(values.get(FREE, ()))
    words: list[str] = []
    rest: list[str] = []
    gap = False
    for parameter in tool.parameters:
        value = values.get(parameter.name, parameter.default)
        if isinstance(value, int):
            words += [f"--{parameter.name}"] * value
        elif parameter.kind != "arg":
            words += (word for text in _texts(value) for word in _option(parameter.name, text))
        else:
            gap = gap or value is None  # a later default must not slip into the place of a missing one
            rest += () if gap else _texts(value)
    if any(text.startswith("-") for text in rest):
        words.append("--")
    return (*words, *rest)


def wants_help(tool: Tool, args: Sequence[str]) -> bool:
    """Whether the call asks for `--help` (or an undeclared `-h`), which a header answers without a process."""
    if not tool.header:
        return False
    options = args[: args.index("--")] if "--" in args else args
    if not tool.declared:
        return "--help" in options or list(args) == ["-h"]
    return "--help" in options or ("-h" in options and all(parameter.short != "h" for parameter in tool.parameters))


def check_inputs(parameters: Sequence[Parameter], given: Mapping[str, str]) -> tuple[dict[str, Value], list[str]]:
    """A skill's inputs, given as name → text, as `parse` gives a tool's arguments. A repeatable takes a JSON list."""
    names = [parameter.name for parameter in parameters]
    problems = _not_text(list(given.values()))
    problems += [f"unknown input {shown(name)}{_near(name, names)}" for name in given if name not in names]
    values: dict[str, Value] = {}
    for parameter in parameters:
        texts: list[str] | None = [given[parameter.name]] if parameter.name in given else []
        if parameter.many and texts:
            texts = _json_texts(texts[0])
        if texts is None:
            problems.append(f'{parameter.name} takes a JSON list of texts, such as ["a","b"]')
            continue
        value, wrong = _value(parameter, texts, parameter.name)
        if value is not None:
            values[parameter.name] = value
        problems += wrong
    return values, problems


class _Reader:
    """Reads words left to right into texts by parameter. `spoilt` are names whose value was already complained of."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.options = {parameter.name: parameter for parameter in parameters if parameter.kind != "arg"}
        self.shorts = {parameter.short: parameter for parameter in self.options.values() if parameter.short}
        self.args = [parameter for parameter in parameters if parameter.kind == "arg"]
        self.given: dict[str, list[str]] = {}
        self.rest: list[str] = []
        self.spoilt: set[str] = set()
        self.unknown = False
        self.problems: list[str] = []

    def read(self, args: Sequence[str]) -> None:
        queue = deque(args)
        while queue:
            word = queue.popleft()
            if word == "--":
                self.rest += queue
                return
            if word.startswith("--"):
                self._long(word, queue)
            elif word.startswith("-") and word != "-":
                self._short(word, queue)
            else:
                self.rest.append(word)

    def texts(self) -> dict[str, list[str]]:
        """The texts by name, positional ones in the places of their parameters."""
        left = deque(self.rest)
        for parameter in self.args:
            if left:
                self.given[parameter.name] = list(left) if parameter.many else [left.popleft()]
                if parameter.many:
                    left.clear()
        if not self.unknown:  # what follows an unknown option may have been meant as its value
            self.problems += [f"surplus argument {shown(text)}" for text in left]
        return self.given

    def _long(self, word: str, queue: deque[str]) -> None:
        name, has_value, value = word[2:].partition("=")
        parameter = self.options.get(name)
        if parameter is None:
            self._unknown(word.partition("=")[0], name, bool(has_value), queue)
        elif parameter.kind == "flag" and has_value:
            self.problems.append(f"--{name} is a flag and takes no value")
        else:
            self._take(parameter, value if has_value else None, queue)

    def _short(self, word: str, queue: deque[str]) -> None:
        letters = word[1:]
        parameter = self.shorts.get(letters[0])
        if parameter is None:
            self._unknown(word, "", True, queue)
        elif parameter.kind == "option":
            self._take(parameter, letters[1:] or None, queue)
        elif any(letter not in self.shorts or self.shorts[letter].kind != "flag" for letter in letters):
            self.problems.append(f"-{letters[0]} is a flag and takes no value, as in {shown(word)}")
        else:
            for letter in letters:
                self._take(self.shorts[letter], None, queue)

    def _take(self, parameter: Parameter, value: str | None, queue: deque[str]) -> None:
        if value is None and parameter.kind == "option":
            value = self._following(parameter, queue)
        elif value is None:
            value = ""
        if value is None:
            self.spoilt.add(parameter.name)
        else:
            self.given.setdefault(parameter.name, []).append(value)

    def _following(self, parameter: Parameter, queue: deque[str]) -> str | None:
        if not queue:
            self.problems.append(f"--{parameter.name} has no value")
            return None
        word = queue[0]
        negative = parameter.notation in ("INT", "NUM") and is_number(word)
        if word == "-" or not word.startswith("-") or negative:
            return queue.popleft()
        written = f"--{parameter.name}={shown(word)}"
        self.problems.append(f"--{parameter.name} has no value; if it starts with -, write {written}")
        if not self._declared(word):
            queue.popleft()
        return None

    def _declared(self, word: str) -> bool:
        name = word[2:].partition("=")[0]
        return word == "--" or (name in self.options if word.startswith("--") else word[1:2] in self.shorts)

    def _unknown(self, word: str, name: str, has_value: bool, queue: deque[str]) -> None:
        self.unknown = True
        close = nearest(name, self.options)
        hint = f" (nearest: {', '.join('--' + other for other in close)})" if close else ""
        if is_number(word) and self.args:
            hint = " (a value that starts with - goes after --)"
        self.problems.append(f"unknown option {shown(word)}{hint}")
        meant_value = self.options[close[0]].kind == "option" if close else not self.args
        if not has_value and meant_value and queue and not queue[0].startswith("-"):
            queue.popleft()


def _flag(parameter: Parameter, count: int) -> tuple[Value, list[str]]:
    if parameter.many:
        return count, []
    return count > 0, [f"--{parameter.name} is given {count} times"] if count > 1 else []


def _value(parameter: Parameter, texts: list[str], label: str) -> tuple[Value | None, list[str]]:
    """The value, and what is wrong with it; `label` is the parameter's name as the caller writes it."""
    if parameter.kind == "flag":
        return _flag(parameter, len(texts))
    if not texts:
        if parameter.required:
            return None, [_missing(parameter, label)]
        return () if parameter.many else parameter.default, []
    problems = [f"{label} is given {len(texts)} times"] if len(texts) > 1 and not parameter.many else []
    for text in texts:
        if wrong := _wrong(parameter, text, label):
            problems.append(wrong)
    return tuple(texts) if parameter.many else texts[0], problems


def _wrong(parameter: Parameter, text: str, label: str) -> str | None:
    if parameter.required and not text:
        return f"empty {label}"
    if parameter.choices and text not in parameter.choices:
        hint = _near(text, parameter.choices) or f" (one of: {', '.join(parameter.choices)})"
        return f"unknown value {shown(text)} of {label}{hint}"
    want = expected(parameter.notation, text)
    return f"{label}: {shown(text)} is not {want}" if want else None


def _missing(parameter: Parameter, label: str) -> str:
    notation = f" <{parameter.notation}>" if parameter.notation else ""
    return f"missing {label}{notation}{': ' + parameter.text if parameter.text else ''}"


def _near(word: str, known: Sequence[str]) -> str:
    close = nearest(word, known)
    return f" (nearest: {', '.join(close)})" if close else ""


def _not_text(args: Sequence[str]) -> list[str]:
    """Words that no process could be given: a NUL ends an argument, a lone surrogate has no bytes."""
    return [
        f"{shown(word)} holds {'a NUL' if nul else 'a character that is no text'}"
        for word in args
        if (nul := "\0" in word) or any("\ud800" <= letter <= "\udfff" for letter in word)
    ]


def _json_texts(text: str) -> list[str] | None:
    try:
        made = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(made, list) or not all(isinstance(item, str) for item in made):
        return None
    return made


def _texts(value: Value | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (str(value),)


def _option(name: str, text: str) -> tuple[str, ...]:
    return (f"--{name}={text}",) if text.startswith("-") else (f"--{name}", text)
