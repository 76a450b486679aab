"""The `rules` of a policy file as values: selectors, tests, examples. Whether a rule matches is said elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from harness.documents import Node
from harness.errors import near_text
from harness.policy import EFFECTS, Example, Operator, Rule, Test, Verdict
from harness.policy.hosts import normal_host, normal_place
from harness.policy.reading import Reader
from harness.policy.rules import number_of
from harness.tools.notation import shown
from harness.tools.parameter import is_spelled

KEYS = ("tool", "effect", "skill", "verdict", "where", "why", "match", "no_match")
VERDICTS = ("allow", "ask", "deny")
SOURCES = ("user", "input", "file", "tool", "skill")
EVERY = "*"


def read_rules(reader: Reader, node: Node) -> tuple[Rule, ...]:
    """Every rule of a file. Raises HarnessError with file, line and fix."""
    if not isinstance(node.value, list):
        raise reader.error("rules wants a list", "begin each rule with `- tool: NAME`", node.line)
    return tuple(_rule(reader, one) for one in node.value)


def _rule(reader: Reader, node: Node) -> Rule:
    found = reader.keys(node, "rules.", KEYS)
    if "verdict" not in found:
        raise reader.error("the rule has no verdict", f"add `verdict:` with one of {', '.join(VERDICTS)}", node.line)
    verdict = cast(Verdict, reader.word(found["verdict"], "verdict", VERDICTS))
    if verdict == "allow" and reader.narrows:
        fix = "take it out; a person writes it into the user's own policy.yaml"
        raise reader.error(f"a {reader.kind}'s policy only narrows and may not allow", fix, found["verdict"].line)
    tools = reader.one_or_more(found["tool"], "tool", _selected(reader)) if "tool" in found else (EVERY,)
    if EVERY in tools and (verdict == "allow" or len(tools) > 1):
        line = found["tool"].line if "tool" in found else node.line
        raise reader.error("`*` stands alone, and only with ask or deny", "name each tool under `tool:`", line)
    if not found.keys() & {"tool", "effect", "skill"}:
        raise reader.error("the rule says of no call", "add `tool:`, `effect:` or `skill:`", node.line)
    named = () if tools == (EVERY,) else tools
    rule = Rule(
        verdict, named,
        reader.one_or_more(found["effect"], "effect", _effect(reader)) if "effect" in found else (),
        reader.one_or_more(found["skill"], "skill", _skill(reader)) if "skill" in found else (),
        _where(reader, found["where"]) if "where" in found else (),
        reader.text(found["why"], "why") if "why" in found else "", reader.place(node.line), reader.kind,
    )  # fmt: skip
    return _with_examples(reader, rule, found)


def _selected(reader: Reader) -> Callable[[str, int], str]:
    return lambda text, line: EVERY if text == EVERY else reader.tool(text, line)


def _effect(reader: Reader) -> Callable[[str, int], str]:
    def check(text: str, line: int) -> str:
        if text not in EFFECTS:
            raise reader.error(
                f"{shown(text)} is no effect{near_text(text, EFFECTS)}", f"write one of {', '.join(EFFECTS)}", line
            )
        return text

    return check


def _skill(reader: Reader) -> Callable[[str, int], str]:
    def check(text: str, line: int) -> str:
        if not text or not text.isprintable() or EVERY in text:
            raise reader.error(f"{shown(text)} is no name of a skill", "write the skill's name", line)
        return text

    return check


def _where(reader: Reader, node: Node) -> tuple[tuple[str, Test], ...]:
    found: list[tuple[str, Test]] = []
    for option, child in reader.mapping(node, "where").items():
        if not is_spelled(option):
            fix = "write --option, or the name of a positional argument"
            raise reader.error(f"{shown(option)} is no argument", fix, node.key_lines[option])
        tests = reader.keys(child, f"where.{option}.", tuple(_READERS))
        if not tests:
            fix = f"write one of {', '.join(_READERS)}"
            raise reader.error(f"{option} has no test", fix, node.key_lines[option])
        found += [(option, _test(reader, option, word, value)) for word, value in tests.items()]
    return tuple(found)


def _test(reader: Reader, option: str, word: str, node: Node) -> Test:
    operator = cast(Operator, word)
    whole = isinstance(node.value, list)
    nodes = node.value if isinstance(node.value, list) else [node]
    name = f"where.{option}.{word}"
    if any(not isinstance(one.value, str) or (not one.value and not one.style) for one in nodes):
        raise reader.error(f"{name} wants a value", "write it after the colon", node.line)
    if not nodes and operator != "eq":
        raise reader.error(f"{name} is empty", "name one at least", node.line)
    if operator in ("max", "len_max") and whole:
        raise reader.error(f"{name} wants one number", f"write `{word}: 100`", node.line)
    if operator == "in" and not whole:
        raise reader.error(f"{name} wants a list", f"write `in: [{shown(str(node.value))}]`", node.line)
    return Test(operator, tuple(_READERS[word](reader, str(one.value), one.line) for one in nodes), whole)


def _plain(reader: Reader, text: str, line: int) -> str:
    if "\0" in text:
        raise reader.error("no argument holds a NUL", "take it out", line)
    return text


def _number(reader: Reader, text: str, line: int) -> str:
    if number_of(text) is None:
        raise reader.error(f"{shown(text)} is no finite number", "write one such as 100 or 49.99", line)
    return text


def _count(reader: Reader, text: str, line: int) -> str:
    if not (text.isascii() and text.isdecimal()) or len(text) > 12:
        raise reader.error(f"{shown(text)} is no length", "write a number such as 4000", line)
    return text


def _source(reader: Reader, text: str, line: int) -> str:
    if text in SOURCES:
        return text
    kind, colon, name = text.partition(":")
    if kind != "tool" or not colon:
        fix = f"write one of {', '.join(SOURCES)}, or tool:NAME"
        raise reader.error(f"{shown(text)} is no source{near_text(text, SOURCES)}", fix, line)
    return f"tool:{reader.tool(name, line)}"


def _host(reader: Reader, text: str, line: int) -> str:
    """The host in its normal form, with a port only if one was given; `.x.io` keeps its dot."""
    dot = "." if text.startswith(".") else ""
    try:
        place = normal_place(text.removeprefix("."))
        if dot:
            normal_host(f"x{text.partition(':')[0]}")  # an address has nothing below it
        return dot + place
    except ValueError as error:
        fix = "write a host, .x.io for any below it, or host:port"
        raise reader.error(f"{shown(text)} {error}", fix, line) from None


_READERS: Mapping[str, Callable[[Reader, str, int], str]] = {
    "eq": _plain, "in": _plain, "max": _number, "len_max": _count, "under": Reader.root, "from": _source, "host": _host,
}  # fmt: skip


def _with_examples(reader: Reader, rule: Rule, found: Mapping[str, Node]) -> Rule:
    made: list[Example] = []
    for key, matches in (("match", True), ("no_match", False)):
        if key not in found:
            continue
        node = found[key]
        if not isinstance(node.value, list) or not node.value:
            raise reader.error(f"{key} wants a list", f"write `{key}: [{{args: [WORD]}}]`", node.line)
        made += [_example(reader, rule, one, key, matches) for one in node.value]
    return replace(rule, examples=tuple(made))


def _example(reader: Reader, rule: Rule, node: Node, key: str, matches: bool) -> Example:
    found = reader.keys(node, f"{key}.", ("args", "goal", "tool", "skill"))
    if "args" not in found:
        raise reader.error(f"{key} wants args", "write `args: [WORD]`, the words of a call", node.line)
    args = tuple(str(one.value) for one in reader.items(found["args"], f"{key}.args"))
    tool = reader.tool(reader.text(found["tool"], "tool"), node.line) if "tool" in found else ""
    if not tool and len(rule.tools) != 1:
        raise reader.error(f"{key} names no tool, and the rule names not one", "add `tool:` to the example", node.line)
    skill = reader.text(found["skill"], "skill") if "skill" in found else next(iter(rule.skills), "")
    goal = str(found["goal"].value) if "goal" in found and isinstance(found["goal"].value, str) else ""
    return Example(tool or rule.tools[0], args, goal, skill, matches, node.line)
