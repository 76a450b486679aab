"""A small real model in a child process that can only choose from what is offered: a demonstration, no adviser.

The child ends when we do, and takes nobody down with it. What it may choose is a grammar made from the brief.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.errors import HarnessError, NoModelError
from harness.models import LOCAL, Call, Failure, Model, ModelRef, Opening, Prompt, Replied, Reply, Usage
from harness.models.brief import Brief, Choice
from harness.models.child import Child, Gone
from harness.models.decoding import count_in, shares
from harness.models.failures import failure
from harness.models.verbs import proposal
from harness.models.weights import INSTALL, LIBRARY, find, has_library

if TYPE_CHECKING:
    from pathlib import Path

    from harness.executor import Cancel
    from harness.skills import Skill

CHILD = (sys.executable, "-I", "-m", "harness.models.llama")
MAX_TOKENS, TEMPERATURE, CONTEXT = 48, 0.7, 2048
FREE_TEXT = {"type": "string", "minLength": 1, "maxLength": 64}
SAME, UNUSABLE = 4, 4
"""So many equal choices, or unusable outputs, in a row are the end."""
QUOTED = 300
FINISH = "finish"


class Local:
    """Weights in a child, whose argv is `command`: started ahead by `warm`, and after its first death started again."""

    def __init__(self, weights: Path, *, ref: ModelRef, command: tuple[str, ...] = CHILD) -> None:
        self.ref, self.weights, self.command = ref, weights, command
        self._child: Child | None = None
        self._asking = threading.Lock()
        self._restarted = self._closed = False

    def __call__(
        self, prompt: Prompt, *, on: Callable[[str], None], cancel: Cancel | None = None
    ) -> Reply | Failure:
        brief = prompt.brief
        assert brief is not None, "the loop composes one for this scheme"
        if not brief.choices:
            return failure("stuck", "there is nothing left to choose")
        order = {
            "prompt": brief.text, "schema": schema(brief), "max_tokens": MAX_TOKENS, "temperature": TEMPERATURE,
            "seed": brief.seed,
        }  # fmt: skip
        started = time.monotonic()
        said = self._ask(order, _stops(prompt.deadline, cancel))
        if isinstance(said, Failure):
            return said
        if "error" in said:
            return failure("bad_request", f"{self.ref.text}: {said['error']}")
        ms = round((time.monotonic() - started) * 1000)
        made = replace(_reply(brief, said, prompt.turn), usage=_usage(said), ms=ms, served=self.ref.text)
        return _stuck(prompt, made) or made

    def _ask(self, order: Mapping[str, Any], stops: Callable[[], bool]) -> dict[str, Any] | Failure:
        """The child's answer; a child that died is started anew, once."""
        with self._asking:
            while True:
                try:
                    said = self._ready().ask(order, stops)
                except Gone as gone:
                    self._drop()
                    if self._closed:
                        return failure("cancelled", "the model was closed")
                    if gone.final:
                        return failure("unknown_model", f"{self.ref.text} cannot be loaded: {gone}")
                    if self._restarted:
                        return failure("local_aborted", f"the child of {self.ref.text} ended: {gone}")
                    self._restarted = True
                    continue
                if said is None:
                    self._drop()
                    return failure("cancelled", "the request was dropped")
                return said

    def _ready(self) -> Child:
        if self._child is None:
            threads = max(1, (os.cpu_count() or 1) - 1)
            self._child = Child(self.command, {"model": str(self.weights), "threads": threads, "context": CONTEXT})
        return self._child

    def _drop(self) -> None:
        if self._child is not None:
            self._child.close()
        self._child = None

    def warm(self) -> None:
        """Start the child, which loads the weights while other things go on."""
        with self._asking:
            self._closed = False
            self._ready()

    def close(self) -> None:
        """End the child. A request that waits for it comes back as cancelled."""
        self._closed = True
        if (child := self._child) is not None:
            child.kill()
        with self._asking:
            self._drop()


def named(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """The model of `local:NAME`. Raises HarnessError for no name."""
    if not name:
        raise HarnessError("local: names no model", "write local:NAME", source)
    return ModelRef(LOCAL, name, source)


def opened(ref: ModelRef, how: Opening) -> Model:
    """The model itself. Raises HarnessError for weights that cannot be used.

    Where the library is not installed that is a NoModelError (exit 4); it is not imported here.
    """
    path = find(ref.name, how.folder)
    if not has_library():
        raise NoModelError(f"local: needs the library {LIBRARY}", INSTALL, ref.source)
    return Local(path, ref=ref)


def schema(brief: Brief) -> dict[str, Any]:
    """What may be said: one branch for each choice, each argument one of its values."""
    return {"anyOf": [_branch(choice) for choice in brief.choices]}


def _branch(choice: Choice) -> dict[str, Any]:
    blanks = {b.name: {"enum": list(b.values)} if b.values else FREE_TEXT for b in choice.blanks}
    return _object({"tool": {"const": choice.tool}, "args": _object(blanks)})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    names = list(properties)
    return {"type": "object", "properties": dict(properties), "required": names, "additionalProperties": False}


def _stops(deadline: float | None, cancel: Cancel | None) -> Callable[[], bool]:
    def stops() -> bool:
        over = deadline is not None and time.monotonic() >= deadline
        return over or (cancel is not None and cancel.level > 0)

    return stops


def _reply(brief: Brief, said: Mapping[str, Any], turn: int) -> Reply:
    """The choice as a call; an output that is none of those offered is a reply without a call."""
    chosen = _chosen(brief, said.get("text"))
    if chosen is None:
        content = [{"type": "text", "text": str(said.get("text"))[:QUOTED]}]
        return Reply(content, "anthropic", "", (), "end", demonstration=True)
    choice, given = chosen
    if choice.tool == FINISH and brief.answer is not None:
        made = proposal(turn, FINISH, {"answer": _answer(brief.answer, given)}, "")
    else:
        made = proposal(turn, "run", {"tool": choice.tool, "args": list(choice.argv(given))}, "")
    return replace(made, demonstration=True)


def _chosen(brief: Brief, text: object) -> tuple[Choice, dict[str, str]] | None:
    """The choice an output names, with its arguments: judged here again, whatever the grammar let through."""
    try:
        value: Any = json.loads(str(text))
        choice = next(c for c in brief.choices if c.tool == value["tool"])
        given = {blank.name: value["args"][blank.name] for blank in choice.blanks}
        extra = len(value["args"]) - len(given)
    except (ValueError, TypeError, KeyError, StopIteration, RecursionError):
        return None
    if extra or not all(isinstance(word, str) for word in given.values()):
        return None
    inside = all(given[b.name] in b.values if b.values else 1 <= len(given[b.name]) <= 64 for b in choice.blanks)
    return (choice, given) if inside else None


def _answer(found: str, given: Mapping[str, str]) -> str:
    words = " ".join("".join(given.values()).split())[:QUOTED]
    return f'{found}\n\nThe model\'s own words: "{words}"\n' if words else f"{found}\n"


def _usage(said: Mapping[str, Any]) -> Usage | None:
    counted = said.get("usage")
    if not isinstance(counted, Mapping):
        return None
    found = [count_in(counted, key) or 0 for key in ("input", "out", "cached")]
    return Usage(found[0], found[1], *shares(found[0], found[2], 0))


def _stuck(prompt: Prompt, made: Reply) -> Failure | None:
    """The end of a row of equal choices, or of outputs that are no choice: told from the turns alone."""
    before = [turn.content for turn in prompt.turns if isinstance(turn, Replied)]
    if not made.calls:
        row = _row(before, lambda content: not _call_in(content))
        return failure("stuck", f"{UNUSABLE} outputs in a row were none of the choices") if row >= UNUSABLE else None
    [call] = made.calls
    row = _row(before, lambda content: _call_in(content) == (call.verb, dict(call.arguments)))
    return failure("stuck", f"it chose the same {SAME} times in a row: {_shown(call)}") if row >= SAME else None


def _row(before: list[list[Any]], like: Callable[[list[Any]], bool]) -> int:
    """How many replies of a kind there are in a row, the newest of all counted in."""
    count = 1
    for content in reversed(before):
        if not like(content):
            break
        count += 1
    return count


def _call_in(content: list[Any]) -> tuple[str, dict[str, Any]] | None:
    block = next((b for b in content if isinstance(b, dict) and b.get("type") == "tool_use"), None)
    return None if block is None else (str(block["name"]), dict(block["input"]))


def _shown(call: Call) -> str:
    words = call.arguments.get("args") or ()
    return " ".join([str(call.arguments.get("tool", call.verb)), *map(str, words)])
