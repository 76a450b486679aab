"""The four verbs: the bytes that are sent, and the form of a call."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from harness.models import Call
from harness.models.verbs import VERBS, calls_or_finish, check_call, make_call, tools_json


def test_the_tools_array_is_pinned_to_the_byte() -> None:
    raw = tools_json().encode()
    assert len(raw) == 1335
    assert sha256(raw).hexdigest().startswith("54c8d2d30740")
    assert VERBS == ("read", "run", "ask", "finish")


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("read", {"path": "x"}),
        ("read", {"path": "x", "lines": "1-2"}),
        ("run", {"tool": "x", "args": []}),
        ("ask", {"question": "x", "options": ["a"]}),
        ("finish", {"answer": ""}),
    ],
)
def test_a_well_formed_call(verb: str, arguments: dict[str, Any]) -> None:
    assert check_call(verb, arguments) is None


@pytest.mark.parametrize(
    ("verb", "arguments", "says"),
    [
        ("raed", {}, ["unknown verb 'raed'", "near: read", "verbs: read, run, ask, finish"]),
        ("run", None, ["the arguments of run must be an object"]),
        ("run", "ls -l", ["the arguments of run must be an object"]),
        ("run", {}, ["missing tool", "missing args"]),
        ("run", {"tool": 3, "args": "a b", "arg": []}, ["tool must be text", "args must be a list", "near: args"]),
        ("run", {"tool": "x", "args": ["a", 1, None]}, ["args[1] must be text", "args[2] must be text"]),
        ("run", {"tool": " ", "args": []}, ["tool is empty"]),
        ("read", {"path": "", "lines": 5}, ["path is empty", "lines must be text"]),
        ("finish", {"answer": {"a": 1}}, ["answer must be text"]),
    ],
)
def test_every_broken_rule_is_named(verb: str, arguments: object, says: list[str]) -> None:
    error = check_call(verb, arguments)
    assert error is not None
    assert [part for part in says if part not in error] == []
    assert make_call("c1", verb, arguments).error == error


def test_text_without_a_call_is_an_implicit_finish() -> None:
    assert calls_or_finish("The cause.", ()) == (Call("", "finish", {"answer": "The cause."}, None, True),)
    one = (make_call("c1", "read", {"path": "x"}),)
    assert calls_or_finish("I read.", one) == one
    assert calls_or_finish(" \n", ()) == ()
