"""A question that a stage asks a model: the words after `harness`, read strictly. No model is chosen here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, near_text
from harness.loop.paths import hidden_reason, open_beneath
from harness.loop.reserve import MAX_TOKENS
from harness.models.choice import ROLES
from harness.prompt.form import Form, read_choices, read_schema
from harness.prompt.opening import inputs_meant

MAX_BYTES = 1 << 20
SKIPPED = '{"skipped":"no model"}'
OPTIONS = ("-f", "-i", "--system", "--role", "--schema", "--choice", "--max-tokens")
ABSENT = ("-m", "--model", "-b", "--budget", "-o", "--output")
_INPUT = re.compile(r"([a-z][a-z0-9_.-]*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Question:
    """What one reply is wanted for. `inputs` are told as data; `optional` goes on without a model."""

    text: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    system: str = ""
    form: Form = Form()  # noqa: RUF009 - it is frozen
    role: str = "strong"
    max_tokens: int = MAX_TOKENS["strong"]
    optional: bool = False

    def kept(self) -> dict[str, Any]:
        """What `run.start` holds of it beside text and inputs."""
        data: dict[str, Any] = {"role": self.role, "max_tokens": self.max_tokens}
        data |= {"choices": list(self.form.choices)} if self.form.choices else {}
        return data | ({"schema": self.form.schema} if self.form.schema is not None else {})


def form_of(kept: Mapping[str, Any]) -> Form:
    """The form that `Question.kept` holds."""
    return Form(tuple(kept.get("choices") or ()), kept.get("schema"))


def question(
    text: str, inputs: Mapping[str, str], system: str, given: Mapping[str, str], schema: str, optional: bool
) -> Question:
    """A question from its parts; `given` are values of options, `schema` the text of the file. Raises HarnessError."""
    if not text.strip():
        raise HarnessError("there is no question", "write it as the last words, or give -f FILE")
    unknown = [name for name in inputs_meant(text) if name not in inputs]
    if unknown:
        fix = f"give it: -i {unknown[0]}=VALUE"
        raise HarnessError(f"the question means ${{inputs.{unknown[0]}}}, which is not given", fix)
    if "--schema" in given and "--choice" in given:
        raise HarnessError("there is --schema and --choice", "give one of them")
    role = given.get("--role", "strong")
    if role not in ROLES:
        raise HarnessError(f"--role {role} is no role{near_text(role, ROLES)}", f"write one of {', '.join(ROLES)}")
    choices = read_choices(given["--choice"]) if "--choice" in given else ()
    form = Form(choices, read_schema(schema, given["--schema"]) if "--schema" in given else None)
    return Question(text, dict(inputs), system, form, role, _tokens(given.get("--max-tokens"), role), optional)


def _tokens(value: str | None, role: str) -> int:
    if value is None:
        return MAX_TOKENS[role]
    if not re.fullmatch(r"[1-9][0-9]{0,6}", value):
        raise HarnessError(f"--max-tokens {value} is no number of tokens", "write a whole number, such as 1000")
    return int(value)


def from_words(words: Sequence[str], project: Path) -> Question:
    """A question from the words of a stage, `prompt` first. Raises HarnessError.

    Files are read below the project. A value is taken as it is, never as the name of a file: it may come from a tool.
    """
    given: dict[str, str] = {}
    inputs: dict[str, str] = {}
    texts: list[str] = []
    optional, left = False, list(words[1:])
    while left:
        word = left.pop(0)
        if word == "--":
            texts += left
            break
        if word == "--optional":
            optional = True
        elif not word.startswith("-") or word == "-":
            texts.append(word)
        else:
            name, value = _option(word, left)
            _take(name, value, given, inputs)
    if texts and "-f" in given:
        raise HarnessError("there is a question and -f FILE", "give one of them")
    text = _file(given["-f"], project) if "-f" in given else " ".join(texts)
    system = _file(given["--system"], project) if "--system" in given else ""
    schema = _file(given["--schema"], project) if "--schema" in given else ""
    return question(text, inputs, system, given, schema, optional)


def _option(word: str, left: list[str]) -> tuple[str, str]:
    name, equals, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
    if name in ABSENT:
        raise HarnessError(f"a stage takes no {name}", "leave it out: the model and the limits are the run's")
    if name not in OPTIONS:
        raise HarnessError(f"{name} is no option{near_text(name, OPTIONS)}", f"options: {' '.join(OPTIONS)}")
    if not equals and not left:
        raise HarnessError(f"{name} has no value", "give one")
    return name, value if equals else left.pop(0)


def _take(name: str, value: str, given: dict[str, str], inputs: dict[str, str]) -> None:
    found = _INPUT.fullmatch(value) if name == "-i" else None
    if name == "-i" and found is None:
        raise HarnessError(f"-i {value[:60]} is no NAME=VALUE", "write it as -i name=value, the name in small letters")
    key, target = (found[1], inputs) if found is not None else (name, given)
    if key in target:
        raise HarnessError(f"{name} {key} is given twice" if found else f"{name} is given twice", "give it once")
    target[key] = found[2] if found is not None else value


def _file(name: str, project: Path) -> str:
    """A text file of the project. Raises HarnessError."""
    path = os.path.relpath(name, project) if Path(name).is_absolute() else os.path.normpath(name)
    hidden = "it leads out of the project" if path.startswith("..") else hidden_reason(Path(path).parts, "")
    if hidden:
        raise HarnessError(f"{name} cannot be read: {hidden}", "name a file of the project")
    try:
        with os.fdopen(open_beneath(project, path), "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise HarnessError(f"{name} cannot be read: {why}", "name a text file of the project") from error
    if len(raw) > MAX_BYTES:
        raise HarnessError(f"{name} is over 1 MiB", "name a smaller file")
    return text.removesuffix("\n")


def problems(words: Sequence[str], project: Path) -> tuple[str, ...]:
    """What is wrong with the words of a stage, as a refusal says it."""
    try:
        from_words(words, project)
    except HarnessError as error:
        return (f"{error.message}; {error.fix}",)
    return ()
