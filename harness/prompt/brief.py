"""What a small model chooses from: the offer of this moment, its arguments as lists of values, and a short prompt.

Pure. What is offered here is a part of what is released; what may run is decided elsewhere, as for every model.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256

from harness.events.state import Operation, Receipt
from harness.graph import Graph
from harness.graph.fresh import Ground, fresh_receipt, holders, is_fresh, unmet
from harness.models import Prompt
from harness.models.brief import Blank, Brief, Choice
from harness.prompt.observation import clean, cut, error_class, output
from harness.prompt.opening import part
from harness.tools import Parameter, Tool
from harness.tools.arguments import canonical
from harness.tools.notation import expected

SYSTEM = "You work through a task one step at a time. Reply with the next step as one JSON object."
FINISH = "finish"
GOAL_SHOWN, LINE_SHOWN, ABOUT_SHOWN, OFFER_SHOWN = 400, 120, 80, 120
OFFERS_SHOWN, DONE_BYTES = 20, 1800
"""With these a prompt fits into a window of 2,048 tokens; lines of logs come near to a token for two bytes."""
MOST_VALUES, LONGEST_VALUE = 32, 64
READ_FOR_VALUES = 8 * 1024
"""Characters of one earlier result in which values are looked for."""
ANSWER_SHOWN = 16 * 1024
_WORD = re.compile(r"[A-Za-z0-9/~](?:[\w./:@+=~-]*[\w/])?")


@dataclass(frozen=True, slots=True)
class Moment:
    """What there is to go by: the state on its ground, and what the names of the skill mean.

    `available` are the names in the skill's order, `goal` the person's words, `run` names the run, `turn` is 1 + the
    replies so far; `text` reads a value of an event.
    """

    ground: Ground
    tools: Mapping[str, Tool]
    available: tuple[str, ...]
    graph: Graph
    requires: tuple[str, ...]
    goal: str
    run: str
    turn: int
    text: Callable[[object], str]


def with_brief(prompt: Prompt, at: Moment) -> Prompt:
    """The prompt with what a model that only chooses is given beside the turns; its text is one of its parts."""
    made = brief(at)
    return replace(prompt, brief=made, parts=(*prompt.parts, part("brief@2", made.text)))


def brief(at: Moment) -> Brief:
    """The offer in an order that the seed shuffles, because small models prefer a place in a list."""
    seed = int.from_bytes(sha256(f"{at.run}:{at.turn}".encode()).digest()[:4], "big") >> 1
    choices = [choice for name in at.available if (choice := _choice(at, name)) is not None]
    dice = random.Random(seed)
    if len(choices) > OFFERS_SHOWN:
        choices = dice.sample(choices, OFFERS_SHOWN)
    answer = _answer(at) if _may_finish(at) else None
    if answer is not None:
        choices.append(Choice(FINISH, (Blank("words"),), lambda given: ()))
    dice.shuffle(choices)
    return Brief(_prompt(at, choices), tuple(choices), answer, seed)


def _may_finish(at: Moment) -> bool:
    return all(fresh_receipt(at.ground, name) is not None for name in at.requires)


def _choice(at: Moment, name: str) -> Choice | None:
    """A tool as something to choose; None when it waits, is done, or has an argument that nothing is known for."""
    if unmet(at.ground, at.graph, name, None) or (fresh_receipt(at.ground, name) and not _is_waited_for(at, name)):
        return None
    tool = at.tools.get(name)
    if tool is None:  # a worker: its goal is the run's
        return Choice(name, (), lambda given: (at.goal,))
    fixed = _inputs_of(at, tool)
    blanks = tuple(_blank(at, tool, p) for p in tool.parameters if p.required and p.name not in fixed)
    if len(blanks) == 1:
        blanks = (_without_done(at, name, blanks[0]),)
    if any(blank is None for blank in blanks):
        return None
    return Choice(name, tuple(b for b in blanks if b is not None), partial(_argv, tool, fixed))


def _without_done(at: Moment, name: str, blank: Blank | None) -> Blank | None:
    """The only argument to fill in without the values that a fresh result is for: they would bring it again."""
    if blank is None or not blank.values:
        return blank
    fresh = [receipt for receipt in holders(at.ground, name) if is_fresh(at.ground, receipt)]
    done = {value for r in fresh for value in at.ground.values(r.tool, r.argv).get(blank.name, ())}
    left = tuple(value for value in blank.values if value not in done)
    return Blank(blank.name, left) if left else None


def _is_waited_for(at: Moment, name: str) -> bool:
    """Whether another call of a tool with a fresh result may serve: one that is not done needs it by a value."""
    tool = at.tools.get(name)
    own = {p.name for p in tool.parameters if p.required} if tool is not None else set()
    undone = [other for other in at.available if fresh_receipt(at.ground, other) is None]
    needs = [need for other in undone for need in at.graph.needs(other) if need.name == name]
    return any(set(need.options) & own for need in needs)


def _inputs_of(at: Moment, tool: Tool) -> dict[str, str]:
    """Arguments that nobody has to choose: the run has an input of that name."""
    given = {name: value for name, value in at.ground.state.inputs.items() if isinstance(value, str)}
    return {p.name: given[p.name] for p in tool.parameters if p.name in given and _fits(p, given[p.name])}


def _argv(tool: Tool, fixed: Mapping[str, str], given: Mapping[str, str]) -> tuple[str, ...]:
    many = {p.name for p in tool.parameters if p.many}
    values = {name: (text,) if name in many else text for name, text in {**fixed, **given}.items()}
    return canonical(tool, values)


def _blank(at: Moment, tool: Tool, parameter: Parameter) -> Blank | None:
    """A required argument with the values it may have; None when a need leaves it none."""
    held = _held_values(at, tool.name, parameter.name)
    if held is not None:
        fitting = [value for value in held if _fits(parameter, value)]
        return Blank(parameter.name, tuple(fitting[:MOST_VALUES])) if fitting else None
    if parameter.choices:
        return Blank(parameter.name, parameter.choices)
    fitting = [word for word in _words(at) if _fits(parameter, word)]
    return Blank(parameter.name, tuple(dict.fromkeys(fitting))[:MOST_VALUES])


def _held_values(at: Moment, tool: str, option: str) -> list[str] | None:
    """The values that a need `x(--option)` leaves: those that a success of x carries. None without such a need."""
    needs = [need for need in at.graph.needs(tool) if option in need.options]
    if not needs:
        return None
    found: list[str] = []
    for need in needs:
        receipts = holders(at.ground, need.name)
        good = receipts if need.kind == "once" else [r for r in receipts if is_fresh(at.ground, r)]
        found += [value for r in good for value in at.ground.values(r.tool, r.argv).get(option, ())]
    return list(dict.fromkeys(found))


def _fits(parameter: Parameter, word: str) -> bool:
    allowed = not parameter.choices or word in parameter.choices
    return bool(word) and allowed and not expected(parameter.notation, word)


def _words(at: Moment) -> Iterable[str]:
    """The words a value can be taken from: earlier results, newest first, then inputs, then the goal.

    Not what a result repeats of its own call: that makes nothing known.
    """
    ops = [op for op in reversed(_closed(at)) if error_class(op) == "OK"]
    texts = [(_result(at, op)[:READ_FOR_VALUES], set(_WORD.findall(" ".join(op.argv or ())))) for op in ops]
    given = [value for value in at.ground.state.inputs.values() if isinstance(value, str)]
    for text, said in (*texts, *((text, set[str]()) for text in (*given, at.goal))):
        yield from (word for word in _WORD.findall(text) if len(word) <= LONGEST_VALUE and word not in said)


def _closed(at: Moment) -> list[Operation]:
    return [op for op in at.ground.state.ops.values() if op.verb == "run" and op.closed]


def _result(at: Moment, op: Operation) -> str:
    seen = output((op.result or {}).get("out"), at.text)
    return "" if seen.binary else clean(seen.text)


def _prompt(at: Moment, choices: Sequence[Choice]) -> str:
    """ChatML. Goal and results are cut short; the task stands last, where a small model still sees it."""
    done = _newest(_done_line(at, op) for op in reversed(_closed(at)))
    lines = ["Done so far:", *done] if done else []
    lines += ["Choose one of:", *(_offer_line(at, choice) for choice in choices)]
    lines.append(f"Task: {_plain(at.goal, GOAL_SHOWN) or 'Do what the tools are for.'}")
    said = "\n".join(lines)
    return f"<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n{said}<|im_end|>\n<|im_start|>assistant\n"


def _newest(lines: Iterable[str]) -> list[str]:
    """As many of the lines, which come newest first, as there is room for; the oldest of them first."""
    kept: list[str] = []
    room = DONE_BYTES
    for line in lines:
        room -= len(line.encode())
        if room < 0:
            break
        kept.append(line)
    return kept[::-1]


def _offer_line(at: Moment, choice: Choice) -> str:
    """A choice, what it is for, and the values it may have where these are few."""
    line = f"- {choice.tool}: {_about(at, choice.tool)}"
    for blank in choice.blanks:
        values = f"; {blank.name}: {_plain(', '.join(blank.values), OFFER_SHOWN)}" if blank.values else ""
        line += values if len(line) + len(values) < OFFER_SHOWN else ""
    return line


def _about(at: Moment, name: str) -> str:
    if name == FINISH:
        return "say in a few words what was found"
    tool = at.tools.get(name)
    return _plain(tool.describe if tool is not None else "a helper for the whole task", ABOUT_SHOWN)


def _done_line(at: Moment, op: Operation) -> str:
    called = _plain(" ".join((op.tool, *(op.argv or ()))), LINE_SHOWN)
    why = "; ".join(op.reasons) if op.code else _result(at, op)
    return f"op {op.n} {called}: {error_class(op)}: {_plain(why, LINE_SHOWN)}".rstrip(": ")


def _plain(text: str, most: int) -> str:
    """One line without anything that the template would take for its own."""
    return " ".join(clean(text[: 8 * most]).replace("<|", "< |").split())[:most]


def _answer(at: Moment) -> str:
    """What the required tools printed, and one line a receipt. No word of it is the model's."""
    required = [r for name in at.requires if (r := fresh_receipt(at.ground, name)) is not None]
    texts = [_result(at, at.ground.state.ops[r.op]).strip() for r in required]
    found = [cut(text, ANSWER_SHOWN, f"op:{r.op}") for r, text in zip(required, texts, strict=True) if text]
    lines = [_receipt_line(at, r) for r in sorted(at.ground.state.slots.values(), key=lambda r: r.op)]
    return "\n\n".join([*found, "\n".join(["Operations:", *lines] if lines else ["No operation."])])


def _receipt_line(at: Moment, receipt: Receipt) -> str:
    standing = receipt.error_class if not receipt.ok else "fresh" if is_fresh(at.ground, receipt) else "stale"
    op = at.ground.state.ops[receipt.op]
    first = _plain(_result(at, op).strip().split("\n", 1)[0], LINE_SHOWN)
    return f"- [op {receipt.op}] {' '.join((receipt.tool, *receipt.argv))} ({standing}){': ' + first if first else ''}"
