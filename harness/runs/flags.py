"""What a person's flags say of one run: its model, its limits, calls that may run and tools that may not."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.errors import HarnessError, near_text
from harness.loop.toolset import Toolset
from harness.models.agent import FLAG, NAME
from harness.models.choice import Wishes
from harness.policy import Rule, Test
from harness.tools import Tool


@dataclass(frozen=True, slots=True)
class Options:
    """What a person's flags say of one run.

    `model` is (string, which flag or variable said it) or None; `wishes` are what the settings say of models. `source`
    says whose the goal or message is: `user` for typed words, `input` for a text from a file or a pipe, as the inputs
    that `foreign` names are. `now` resumes before a run's time, `moved` one whose folder came from another host. `sets`
    are STAGE.PARAM=VALUE, `context` files that the model is pointed to. `by` is user, or agent for its commands.
    `held` are those of `allow` and `deny` that an earlier opening said: what they name may be gone. `is_open` lets
    every tool of the skill be called at once: an evaluation measures what its order is worth.
    """

    model: tuple[str, str] | None = None
    budget: str = ""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    accept_changes: bool = False
    source: str = "user"
    foreign: tuple[str, ...] = ()
    now: bool = False
    moved: bool = False
    sets: tuple[str, ...] = ()
    context: tuple[str, ...] = ()
    by: str = "user"
    is_open: bool = False
    held: tuple[str, ...] = ()
    wishes: Wishes = field(default_factory=Wishes)

    def kept(self) -> dict[str, list[str]]:
        """What of it holds for the whole run, however often it is opened again."""
        said = {"allow": list(self.allow), "deny": list(self.deny), "open": ["tools"] if self.is_open else []}
        return {name: words for name, words in said.items() if words}

    def with_kept(self, flags: Mapping[str, Any]) -> Options:
        """The same with what was said of the run before, by kind."""
        allow, deny = ((*flags.get(name, ()), *mine) for name, mine in (("allow", self.allow), ("deny", self.deny)))
        said = (*flags.get("allow", ()), *flags.get("deny", ()))
        held = tuple(text for text in said if text not in (*self.allow, *self.deny))
        return replace(
            self, allow=tuple(dict.fromkeys(allow)), deny=tuple(dict.fromkeys(deny)), held=held,
            is_open=self.is_open or "open" in flags,
        )  # fmt: skip

    def command(self, run: str, flag: str) -> str:
        """The same resume once more, with a further flag: one that was left out would ask for something else."""
        model = () if self.model is None else (FLAG,) if self.model[0] == NAME else ("-m", self.model[0])
        given = {"--accept-changes": self.accept_changes, "--now": self.now, "--moved": self.moved, flag: True}
        limits = ("-b", self.budget) if self.budget else ()
        allow = () if FLAG in model else self.allow  # which is never said with an agent
        many = {"--allow": allow, "--deny": self.deny, "--set": self.sets}
        listed = (word for name, texts in many.items() for text in texts for word in (name, text))
        flags = (name for name, is_given in given.items() if is_given)
        return shlex.join(("harness", "resume", run, *model, *limits, *listed, *flags))

    def without_model(self) -> Options:
        """The same for a run that goes on with the model it began with."""
        return replace(self, model=None)


def rules_of(kit: Toolset, options: Options, below: Callable[[], Mapping[str, Tool]]) -> tuple[Rule, ...]:
    """`--allow 'TOOL --opt=value'` and `--deny TOOL` as rules, which hold in the runs that this one begins, too.

    `below` are all tools and workers of those, by name. Raises HarnessError for a name that is none.
    """
    names = [*options.deny, *(shlex_words(text)[0] for text in options.allow)]
    known = {**kit.workers, **kit.tools}
    if any(name not in known for name in names):
        known = {**below(), **known}
    held = {shlex_words(text)[0] for text in options.held}
    for name in names:
        if name not in known and name not in held:
            fix = f"name one of: {' '.join(known)}"
            raise HarnessError(f"{name} is no tool of this run{near_text(name, known)}", fix)
    denied = (Rule("deny", (name,), place=f"--deny {name}", source="run") for name in options.deny)
    allowed = (_held(known, text) if text in options.held else _allow(known, text) for text in options.allow)
    return (*(rule for rule in allowed if rule is not None), *denied)


def _held(known: Mapping[str, Tool], text: str) -> Rule | None:
    """What a word said before comes to today; None where it speaks of a tool or an option that is no more."""
    try:
        return _allow(known, text) if shlex_words(text)[0] in known else None
    except HarnessError:
        return None


def earlier(before: Mapping[str, Sequence[str]], rules: Sequence[Rule]) -> list[str]:
    """What a person is told of the words that let calls pass since they were said: they widen nothing silently."""
    there = {rule.place for rule in rules}
    return [
        f"allowed by an earlier word, for the whole of this run: {shlex.join(('--allow', text))}"
        + ("" if f"--allow {text!r}" in there else "; it counts for nothing: that tool or option is no more")
        for text in before.get("allow", ())
    ]


def shlex_words(text: str) -> list[str]:
    """POSIX words, nothing expanded. Raises HarnessError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        fix = "quote it as in a shell: --allow 'TOOL --opt=value'"
        raise HarnessError(f"--allow {text!r}: {error}", fix) from error
    if not words:
        raise HarnessError("--allow names no tool", "write --allow 'TOOL --opt=value'")
    return words


def _allow(known: Mapping[str, Tool], text: str) -> Rule:
    name, *words = shlex_words(text)
    tool = known[name]
    rule = Rule("allow", (name,), place=f"--allow {text!r}", source="run")
    if not tool.declared:
        return replace(rule, where=(("args", Test("eq", tuple(words), whole=True)),)) if words else rule
    given: dict[str, tuple[str, ...]] = {}
    options = {p.name: p for p in tool.parameters if p.kind != "arg"}
    for word in words:
        option, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or option not in options:
            what = f"--allow {text!r}: {word} is no option of {name}{near_text(option, options)}"
            raise HarnessError(what, "write it as --opt=value")
        given[option] = (*given.get(option, ()), value if equals else "true")
    tests = ((f"--{o}", Test("eq", values, whole=options[o].many or len(values) > 1)) for o, values in given.items())
    return replace(rule, where=tuple(tests))
