"""A fold of a run's events into the turns a model is given. Turns are only ever appended.

The same events give the same turns, in the process that wrote them and in one that reads them again: what a request
held is composed anew at its `model.start`, from the state as it was then.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from harness.events.state import Operation, State
from harness.models import Ended, Offer, Part, Prompt, Replied, Results, Said, Turn
from harness.models.body import Growing, turn_bytes, turn_pictures
from harness.models.turns import Raw
from harness.prompt.compile import RECENT, Compiled, Past, Spoken, Story, View, compiled, own_words
from harness.prompt.labels import of_speaker
from harness.prompt.observation import error_class, neutral, output
from harness.prompt.opening import flat, opening, parts, system_parts
from harness.prompt.results import Call, answers, said
from harness.prompt.texts import (
    CONTINUE,
    SPOKEN,
    Frame,
    Release,
    changes,
    marked,
    system,
    task_block,
)

FIRST_RATE = 3
"""Bytes that are counted as one token before a provider has told its own count."""
_UNANSWERED = frozenset({"script_mismatch", "cancelled"})
"""Reasons of failed requests that no answer brought: they do not count as one."""


class Transcript:
    """The turns so far, and what the next user turn will hold.

    `release` says what may be called in a state, `fresh` which operations' results stand in it; both must depend on
    the state alone. `blob` reads a blob reference to its text, `raw` the bytes of one by their SHA-256.
    """

    def __init__(
        self, frame: Frame, release: Callable[[State], Release], blob: Callable[[object], str],
        fresh: Callable[[State], Collection[int]], raw: Raw,
    ) -> None:  # fmt: skip
        self.frame, self.release, self.blob, self.fresh, self.raw = frame, release, blob, fresh, raw
        self.turns: list[Turn] = []
        self.earlier: list[Replied] = []
        self._opening: Compiled | None = None
        self._first_parts: tuple[Part, ...] = ()
        self._said: list[Spoken] = []
        self._judged: Mapping[str, Any] | None = None
        self._past: list[Past] = []
        self._own: deque[tuple[int, str]] = deque(maxlen=RECENT)
        self._system = system(frame)
        self._rules = system_parts(self._system)
        self._body = Growing(self._system, frame.verbs)
        self._told: Release | None = None
        self._calls: tuple[Call, ...] = ()
        self._paused = False
        self._notes: list[str] = []
        self._words: list[tuple[str, str]] = []
        self._verify: Mapping[str, Any] | None = None
        self._replies = self._failed = 0
        self._ended: dict[str, int] = {}
        self._composed: tuple[int, Release, Turn | None] | None = None

    @property
    def skill(self) -> str:
        """The skill's own text, as the second system block holds it."""
        return self._system[1]

    def apply(self, event: Mapping[str, Any], state: State) -> None:
        """Take one event; `state` is the state before it."""
        kind, data = event["kind"], event["data"]
        if kind == "model.start":
            self._freeze(state)
        elif kind == "model.reply":
            self._reply(data, state)
        elif kind == "model.fail":
            self._failed += data.get("reason") not in _UNANSWERED
        elif kind == "note":
            self._notes.append(said(data["text"], self.blob))
        elif kind == "user.say":
            self._say(data, state)
        elif kind == "verify":
            self._verify = self._judged = data
        elif kind == "context":
            self._begin_anew(self.compiled(state, data["limit"], data["n"]), state)

    def prompt(self, state: State) -> Prompt:
        """What a request in this state holds. Raises ValueError while a call of the newest reply is open."""
        release = self.release(state)
        pending = self._pending(state, release)
        self._composed = (state.seq, release, pending)
        turns = (*self.turns, pending) if pending is not None else tuple(self.turns)
        made = Prompt(
            system=self._system,
            turns=turns,
            offer=tuple(self.frame.catalogue.get(name) or Offer(name, name, "") for name in release.callable),
            waiting=tuple(release.waiting),
            turn=self._replies + 1,
            failed=self._failed,
            ended=self._results(state),
            earlier=tuple(self.earlier),
            context=state.context,
            verbs=self.frame.verbs,
            schema=self.frame.form.schema,
            max_tokens=self.frame.max_tokens,
            mark=self.frame.mark,
            parts=(*self._rules, *self._first_parts),
            spoken=SPOKEN if self.frame.verbs else "",
        )
        size, digest = self._body.measured(self.turns, pending)
        new, pictures = self._unanswered(turns), sum(map(turn_pictures, turns))
        return replace(
            made, bytes=size, body=digest, new_bytes=sum(map(turn_bytes, new)), raw=self.raw,
            pictures=pictures, new_pictures=sum(map(turn_pictures, new)),
        )  # fmt: skip

    def _unanswered(self, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        """The turns since the newest reply."""
        last = next((n for n in range(len(turns), 0, -1) if isinstance(turns[n - 1], Replied)), 0)
        return turns[last:]

    def compiled(self, state: State, limit: int, n: int) -> Compiled:
        """The first turn of context `n`, whose first request may hold `limit` tokens. Changes nothing.

        Raises ValueError while a call of the newest reply is open.
        """
        if any(not state.ops[call.op].closed for call in self._calls):
            raise ValueError("a call of the newest reply is open")
        story = Story(tuple(self._said), self._judged, tuple(self._past), dict(self._own), tuple(self._notes))
        view = View(self.frame, state, story, self.release(state), self.fresh(state), self.blob, n)
        empty, _ = Growing(self._system, self.frame.verbs).measured([], Said(()))
        return compiled(view, limit * FIRST_RATE, empty)

    def digest_of(self, first: Compiled) -> str:
        """SHA-256 of a request that holds this turn alone."""
        return Growing(self._system, self.frame.verbs).measured([], Said(first.texts))[1]

    @property
    def has_replies(self) -> bool:
        """Whether this context holds a reply: the beginning of a context alone has nothing to lose."""
        return any(isinstance(turn, Replied) for turn in self.turns)

    @property
    def is_paused(self) -> bool:
        """Whether the newest reply asked to be sent again as it is."""
        return self._paused

    def _begin_anew(self, first: Compiled, state: State) -> None:
        """Leave the turns behind; the opening of the new context stands for them."""
        self._ended.update(self._closed(state))
        self.earlier += [turn for turn in self.turns if isinstance(turn, Replied)]
        self.turns, self._body, self._composed = [], Growing(self._system, self.frame.verbs), None
        self._opening, self._told = first, self.release(state)
        self._calls, self._verify, self._paused = (), None, False
        self._notes, self._words = [], []

    def _reply(self, data: Mapping[str, Any], state: State) -> None:
        if data.get("provider"):  # the caller is the model: no request went out, yet the turns are the same
            self._freeze(state)
        self.turns.append(Replied(data["dialect"], self._plain(data["content"])))
        named = self._plain(data["calls"])
        self._calls = tuple(Call(c["op"], c["id"], c["verb"], bool(c.get("implicit"))) for c in named)
        self._paused = data.get("stop") == "pause"
        self._replies += 1
        self._verify = None
        self._remember(data["turn"], named)

    def _remember(self, turn: int, calls: list[Mapping[str, Any]]) -> None:
        """What a later context needs to know of the newest reply."""
        newest = self.turns[-1]
        assert isinstance(newest, Replied)
        words = own_words(newest.content, calls, self.blob)
        self._own.append((turn, words))
        self._past.append(Past(turn, tuple(call["op"] for call in calls), len(words.encode("utf-8", "replace"))))

    def _plain(self, value: Any) -> Any:
        return json.loads(self.blob(value)) if isinstance(value, Mapping) else value

    def _say(self, data: Mapping[str, Any], state: State) -> None:
        asked = state.open_ops.get(data.get("answers") or 0)
        by = of_speaker(str(data.get("by", "user")), self.frame)
        self._said.append(Spoken(data["text"], asked.n if asked is not None and asked.verb == "ask" else 0, by))
        if asked is None or asked.verb != "ask":  # the answer to an `ask` is the result of that call
            self._words.append((said(data["text"], self.blob), by))

    def _freeze(self, state: State) -> None:
        known = self._composed  # the same state gives the same turn: a request is journaled right after it is composed
        if known is None or known[0] != state.seq:
            release = self.release(state)
            known = (state.seq, release, self._pending(state, release))
        _, release, pending = known
        if pending is None:
            return
        self.turns.append(pending)
        self._told = release
        self._ended.update(self._closed(state))
        self._calls, self._verify, self._paused = (), None, False
        self._notes, self._words = [], []

    def _pending(self, state: State, release: Release) -> Turn | None:
        """The user turn that is owed; None when the last one still stands unanswered and nothing came since."""
        if not self.turns:
            return Said(self._first(state, release))
        if isinstance(self.turns[-1], Replied) and not self._paused:
            return self._answer(state, release)
        if self._notes or self._words:
            return Said((*self._news(release), *self._blocks()))
        return None

    def _first(self, state: State, release: Release) -> tuple[str, ...]:
        if self._opening is not None:
            self._first_parts = self._opening.parts
            return (*self._opening.texts, *self._news(release), *self._blocks())
        start = state.start
        goal = said(start.get("goal") or "", self.blob)
        notes = [marked(neutral(note, self.frame.mark), self.frame.mark) for note in self._notes]
        named = opening(self.frame, goal, start.get("inputs") or {}, release, self.blob)
        self._first_parts = parts(named)
        return (*flat(named), *notes, *self._blocks())

    def _answer(self, state: State, release: Release) -> Turn:
        """Results first, in call order; what is now callable and the notes in the last one; then a person's words."""
        results = answers(self._calls, state, self.frame, self.blob, self._verify)
        news, words = self._news(release), self._blocks()
        if not results:
            return Said((*(news or (marked(CONTINUE, self.frame.mark),)), *words))
        if self._calls[0].implicit:  # the reply held no call that a result could answer
            return Said((*results[0].blocks, *news, *words))
        end = results[-1]
        return Results((*results[:-1], replace(end, blocks=(*end.blocks, *news))), words)

    def _news(self, release: Release) -> tuple[str, ...]:
        told = changes(self.frame, self._told, release) if self._told is not None else ""
        notes = [marked(neutral(note, self.frame.mark), self.frame.mark) for note in self._notes]
        text = "\n".join(line for line in (told, *notes) if line)
        return (text,) if text else ()

    def _blocks(self) -> tuple[str, ...]:
        mark = self.frame.mark
        return tuple(task_block(neutral(words, mark), mark, by) for words, by in self._words)

    def _closed(self, state: State) -> dict[str, int]:
        """Name → operation for the calls of the newest reply, by tool, or by verb where no tool runs."""
        return {state.ops[call.op].tool or call.verb: call.op for call in self._calls if call.verb != "finish"}

    def _results(self, state: State) -> dict[str, Ended]:
        ended = {**self._ended, **self._closed(state)}
        return {name: self._result(state.ops[n], n < state.since_end) for name, n in ended.items()}

    def _result(self, op: Operation, before: bool) -> Ended:
        out = (op.result or {}).get("out")
        return Ended(error_class(op), lambda: self._why(op), lambda: output(out, self.blob).text, before)

    def _why(self, op: Operation) -> str:
        """Why a call failed: the reasons of its refusal, or the last line it wrote on stderr."""
        if op.error or op.code:
            return op.error or "; ".join(op.reasons)
        result = op.result or {}
        if result.get("why") or error_class(op) == "OK":
            return str(result.get("why") or "")
        lines = output(result.get("err"), self.blob).text.strip().splitlines()
        return lines[-1] if lines else ""
