"""Whose words a run has heard: the user's own, and that somebody else spoke."""

from __future__ import annotations

from typing import Any

import pytest

from tests.prompt_events import Tape


def heard(**start: Any) -> tuple[list[Any], bool]:
    state = Tape(goal="do it", inputs={"log": "a log", "pods": ["x", "y"]}, **start).state
    return state.said, state.foreign


def test_a_typed_goal_and_typed_inputs_are_the_users_words() -> None:
    assert heard() == (["do it", "a log", "x", "y"], False)


def test_what_a_file_or_a_pipe_brought_is_nobodys() -> None:
    assert heard(foreign=["log"]) == (["do it", "x", "y"], True)
    assert heard(by="input") == (["a log", "x", "y"], True)


def test_what_a_model_or_an_agent_wrote_is_nobodys() -> None:
    assert heard(parent={"run": "r", "op": 1, "depth": 1}, by="model") == ([], True)
    assert heard(model={"ref": "agent"}, by="input") == ([], True)


@pytest.mark.parametrize(
    ("by", "is_users"), [("user", True), ("user:ann", True), ("channel:ann", True), ("input", False)]
)
def test_a_message_is_the_users_where_a_person_of_this_machine_said_it(by: str, is_users: bool) -> None:
    tape = Tape(goal="go")
    tape.add("user.say", {"text": "to ann", "by": by})
    assert (tape.state.said, tape.state.foreign) == (["go", "to ann"] if is_users else ["go"], not is_users)
