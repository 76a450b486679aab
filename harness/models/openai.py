"""Any server that speaks chat-completions: OpenAI's own, a gateway, vLLM, llama.cpp, Ollama. One endpoint, plain HTTP.

Servers differ in what they take. The form of a request is found by asking, from the best one down, and remembered.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.models import Call, Failure, Model, ModelRef, Opening, Prompt, Replied, Reply, Stop
from harness.models.answers import Refused, refused
from harness.models.assembly import Assembly, MalformedReplyError, figures
from harness.models.chat import DIALECTS, MODES, calls_of, request, was_spoken, with_ids, written
from harness.models.endpoints import OWN_BASE, Endpoint, check_name, openai_endpoint, served, split_name
from harness.models.failures import failure
from harness.models.memory import Form, memory_file, recall, remember
from harness.models.prices import PICTURE_TOKENS
from harness.models.reading import take, timed
from harness.models.wire import BrokenExchange, Exchange, Timers

if TYPE_CHECKING:
    from pathlib import Path

    from harness.executor import Cancel
    from harness.skills import Skill

TIMERS = Timers()
STOPS: dict[str, Stop] = {
    "stop": "end", "eos": "end", "eos_token": "end", "end_turn": "end", "stop_sequence": "end",
    "tool_calls": "calls", "function_call": "calls",
    "length": "length", "max_tokens": "length", "model_length": "length",
    "content_filter": "refusal", "refusal": "refusal",
}  # fmt: skip
OTHER_MODE, OTHER_FIELDS = (400, 404, 422, 501), (400, 422)
SURELY_CUT = 4096
"""Tokens of an estimate from which too small a count means a cut prompt, whatever server it is."""


def named(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """The model `NAME[@BASE_URL]`. Raises HarnessError for a string that names none, or no base that can be used."""
    check_name("openai", name, source)
    return served("openai", name, source, split_name(name)[1] or OWN_BASE)


def opened(ref: ModelRef, how: Opening) -> Model:
    """The model; whether its server is there is seen at the first call. Raises HarnessError for a key that is none."""
    return OpenAI(openai_endpoint(ref.name, os.environ, how.keys), ref=ref, file=memory_file(os.environ))


class OpenAI:
    """One model at one endpoint. Forms are remembered in `file`."""

    def __init__(self, endpoint: Endpoint, *, ref: ModelRef, file: Path, timers: Timers = TIMERS) -> None:
        self.ref, self.endpoint, self._file, self._timers = ref, endpoint, file, timers
        self._form: Form | None = None
        self._proven = False

    @property
    def mode(self) -> str:
        """The mode of the next request, as far as is known."""
        return (self._form or recall(self._file, self.endpoint.base, self.endpoint.name) or Form()).mode

    def __call__(
        self, prompt: Prompt, *, on: Callable[[str], None], cancel: Cancel | None = None
    ) -> Reply | Failure:
        form = self._first_form()
        if isinstance(form, Failure):
            return form
        cut = self._too_long(prompt)
        if cut is not None:
            return cut
        tried: list[Form] = []
        while True:
            got = self._once(prompt, form, on, cancel)
            if isinstance(got, Reply):
                return self._learned(got, form, prompt)
            tried.append(form)
            following = None if self._proven else next_form(tried, got)
            if following is None:
                return self._given_up(got)
            form = following

    def warm(self) -> None:
        """Import what the first request needs, ahead of it."""
        import httpx2

        assert httpx2

    def close(self) -> None:
        """Nothing is kept open between requests."""

    def _first_form(self) -> Form | Failure:
        if self.endpoint.key_name and not self.endpoint.key:
            return failure("auth", f"no key for {self.endpoint.base}: set {self.endpoint.key_name}")
        if self._form is None:
            held = recall(self._file, self.endpoint.base, self.endpoint.name)
            form = self.endpoint.start() or held or Form()
            if isinstance(form, Failure):
                return form
            self._form, self._proven = form, form == held
        return self._form

    def _learned(self, reply: Reply, form: Form, prompt: Prompt) -> Reply:
        """Keep the form that worked; one in which calls come as text, twice in a row, is not it."""
        self._measured()  # a model that was loaded only for this request says now what it reads
        if not prompt.verbs:  # nothing was asked for that a server could take in one form only
            return reply
        if reply.calls_from and was_spoken_before(prompt):
            form = replace(form, mode="json")
        if form != self._form or not self._proven:
            remember(self._file, self.endpoint.base, self.endpoint.name, form)
        self._form, self._proven = form, True
        return reply

    def _given_up(self, got: Refused) -> Failure:
        """What was taken once may be refused now: the next run asks anew."""
        if self._proven and got.status in OTHER_MODE:
            remember(self._file, self.endpoint.base, self.endpoint.name, None)
        return got.failure

    def _once(
        self, prompt: Prompt, form: Form, on: Callable[[str], None], cancel: Cancel | None
    ) -> Reply | Refused:
        started = time.monotonic()
        body = json.dumps(self._body(prompt, form), ensure_ascii=False, separators=(",", ":"))
        raw = body.encode("utf-8", "replace")  # half a surrogate pair is no text, and some servers refuse it
        url = f"{self.endpoint.base}/chat/completions"
        try:
            with closing(_Dropping(Exchange(url, self._headers(), raw, self._timers, prompt.deadline, cancel))) as held:
                return self._answer(held.exchange, prompt, form, on if form.mode == "tools" else _nobody, started)
        except BrokenExchange as error:
            return Refused(failure(error.reason, self._masked(str(error))))

    def _body(self, prompt: Prompt, form: Form) -> dict[str, Any]:
        limit = "max_completion_tokens" if self.endpoint.base == OWN_BASE else "max_tokens"
        counted = {"stream_options": {"include_usage": True}} if form.counted else {}
        head = {"model": self.endpoint.name, limit: prompt.max_tokens, "stream": True, **counted}
        return head | request(prompt, form.mode)

    def _headers(self) -> dict[str, str]:
        told = {"content-type": "application/json", "accept": "text/event-stream, application/json"}
        return told | ({"authorization": f"Bearer {self.endpoint.key}"} if self.endpoint.key else {})

    def _answer(
        self, exchange: Exchange, prompt: Prompt, form: Form, on: Callable[[str], None], started: float
    ) -> Reply | Refused:
        head = exchange.head()
        if head.status // 100 != 2:
            found = refused(head.status, head.headers, b"".join(exchange.pieces()))
            return replace(found, failure=self._without_key(found.failure))
        first: list[float] = []
        whole = Assembly(on)
        try:
            broken = take(timed(exchange.pieces(), first), whole)
        except (MalformedReplyError, ValueError, RecursionError) as error:
            return Refused(failure("protocol", f"no chat-completions reply: {error}"))
        if broken is not None:
            return Refused(self._without_key(broken))
        reply = self._reply(whole, prompt, form)
        if isinstance(reply, Failure):
            return Refused(reply)
        times = [round((at - started) * 1000) for at in (time.monotonic(), *first[:1])]
        return replace(reply, ms=times[0], first_ms=times[-1], request_id=head.headers.get("x-request-id") or None)

    def _without_key(self, found: Failure) -> Failure:
        """The same where the server says the key back, in whatever field."""
        code, asked = (self._masked(word) if word else None for word in (found.code, found.request_id))
        return replace(found, message=self._masked(found.message), code=code, request_id=asked)

    def _masked(self, text: str) -> str:
        return text.replace(self.endpoint.key, "[key]") if self.endpoint.key else text

    def _reply(self, whole: Assembly, prompt: Prompt, form: Form) -> Reply | Failure:
        message = dict(whole.message)
        called = with_ids(whole.calls(), prompt)
        if called:
            message["tool_calls"] = called
        calls, spoken = calls_of(message, form.mode, prompt)
        stop = stop_of(whole, calls)
        if stop is None:
            what = "ended without a reason to stop" if whole.finish is None else f"stopped by {whole.finish!r}"
            return failure("cut" if whole.finish is None else "protocol", f"the reply {what}")
        estimate_out = math.ceil(len(json.dumps(message, ensure_ascii=False)) / 3)
        usage = figures(whole.usage, estimate(prompt, form), estimate_out)
        if not usage.estimated and self._is_cut(usage.input, estimate(prompt, form), whole):
            cut = self._cut(f"the server counted {usage.input} tokens of about {estimate(prompt, form)}")
            return replace(cut, began=True, usage=usage)
        text = message["content"] if isinstance(message.get("content"), str) else ""
        refusal = message.get("refusal") if stop == "refusal" else None
        return Reply(
            [message], DIALECTS[form.mode], str(refusal or text), calls, stop, whole.finish or "", usage,
            served=whole.served, calls_from="text" if spoken else "",
        )  # fmt: skip

    def _is_cut(self, counted: int, expected: int, whole: Assembly) -> bool:
        surely = self.endpoint.cuts or whole.fingerprint == "fp_ollama" or expected > SURELY_CUT
        return surely and counted < expected / 2

    def _too_long(self, prompt: Prompt) -> Failure | None:
        """Before it is sent: what no counting of tokens would fit into the window."""
        window = self._measured()
        if window is None or estimate(prompt, self._form or Form()) / 2 <= window:
            return None
        return self._cut(f"the prompt has at least {estimate(prompt, self._form or Form()) // 2} tokens, the window "
                         f"{window}")  # fmt: skip

    def _measured(self) -> int | None:
        """The tokens that the server reads, as it says; what is composed from now on keeps to them."""
        window = self.endpoint.window()
        if window is not None and window != self.ref.facts.window:
            self.ref = replace(self.ref, facts=replace(self.ref.facts, window=window))
        return window

    def _cut(self, what: str) -> Failure:
        said = f"{self.ref.text} does not read the whole prompt: {what}; {self.endpoint.cut_fix}"
        return failure("prompt_cut", said)


class _Dropping:
    """Whatever ends the reading of an exchange, its thread ends too."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange

    def close(self) -> None:
        self.exchange.drop()


def _nobody(text: str) -> None:
    """Calls in words are not for the person's eyes."""


def stop_of(whole: Assembly, calls: Sequence[Call]) -> Stop | None:
    """Why a reply stopped; None where its end does not let anybody act on it. Whole calls win over the reason given."""
    found = STOPS.get(whole.finish or "")
    if found == "refusal" or (whole.message.get("refusal") and whole.finish is not None):
        return "refusal"
    real = [call for call in calls if not call.implicit]
    if whole.finish is None or not real:
        return "end" if found == "calls" else found
    cut_off = found == "length" and any(call.error for call in real)
    return "length" if cut_off else "calls"


def estimate(prompt: Prompt, form: Form) -> int:
    """Tokens of a prompt, rather too many: three letters each. Letters, for bytes of other scripts count double."""
    asked = len(json.dumps(written(prompt, form.mode), ensure_ascii=False))
    return math.ceil(asked / 3) + PICTURE_TOKENS * prompt.pictures


def was_spoken_before(prompt: Prompt) -> bool:
    """Whether the newest reply held its call as text."""
    replies = [turn for turn in prompt.turns if isinstance(turn, Replied)]
    return bool(replies) and was_spoken(replies[-1], prompt)


def next_form(tried: Sequence[Form], got: Refused) -> Form | None:
    """What to try after a refusal: without the field it names, else a lower mode, at last without counting."""
    last = tried[-1]
    if got.status not in OTHER_MODE or got.failure.reason in ("overflow", "account", "auth"):
        return None
    if got.status == 404 and (last.mode != "tools" or got.code == "model_not_found"):
        return None
    plain = got.status in OTHER_FIELDS and any(word in got.body for word in ("stream_options", "include_usage"))
    if plain and last.counted:
        return replace(last, counted=False)
    lower = MODES[MODES.index(tried[0].mode) :]
    kinds = (last.counted, False) if got.status in OTHER_FIELDS else (last.counted,)
    every = [Form(mode, counted) for counted in kinds for mode in lower]
    return next((form for form in every if form not in tried), None)
