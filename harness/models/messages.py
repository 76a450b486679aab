"""The Messages format of Anthropic: a prompt as the parameters of a request, the events of a stream as a reply.

Pure. What a request holds depends on the prompt and the model alone, so that an earlier request stays its prefix.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any

from harness.models import Call, Failure, ModelRef, Prompt, Replied, Reply, Results, Said, Stop, Turn, Usage
from harness.models.decoding import count_in, decoded, paired, unambiguous
from harness.models.failures import failure
from harness.models.status import status_failure
from harness.models.turns import Picture, Raw
from harness.models.verbs import TOOLS, calls_or_finish, make_call
from harness.models.wanted import narrowed

STOPS: dict[str, Stop] = {
    "tool_use": "calls", "end_turn": "end", "stop_sequence": "end", "max_tokens": "length", "pause_turn": "pause",
    "refusal": "refusal", "model_context_window_exceeded": "overflow",
}  # fmt: skip
_JOINED = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


def parameters(prompt: Prompt, ref: ModelRef, ttl: str = "5m", effort: str | None = None) -> dict[str, Any]:
    """The parameters of a request. `ttl` is how long the provider keeps the prefix, `effort` low to max."""
    marker = {"type": "ephemeral"} if ttl == "5m" else {"type": "ephemeral", "ttl": ttl}
    found: dict[str, Any] = {"model": ref.name, "max_tokens": prompt.max_tokens, "cache_control": marker}
    if ref.facts.thinking:
        found["thinking"] = {"type": "adaptive", "display": "summarized"}
    system = [_text(text) for text in prompt.system if text.strip()]
    if system:
        system[-1]["cache_control"] = marker
        found["system"] = system
    if prompt.verbs:
        found["tools"] = list(TOOLS)
    form = narrowed(prompt.schema) if prompt.schema is not None else None
    output: dict[str, Any] = {"effort": effort} if effort is not None else {}
    output |= {"format": {"type": "json_schema", "schema": form}} if form is not None else {}
    if output:
        found["output_config"] = output
    found["messages"] = [message for turn in prompt.turns if (message := encode(turn, prompt.raw))["content"]]
    return found


def encode(turn: Turn, raw: Raw) -> dict[str, Any]:
    """One turn as a message. An empty text is left out: the API refuses it, even where it came from there.

    `raw` reads the bytes of an image by its SHA-256.
    """
    if isinstance(turn, Replied):
        return {"role": "assistant", "content": [block for block in turn.content if not _is_empty(block)]}
    if isinstance(turn, Said):
        return {"role": "user", "content": _texts(turn.texts)}
    return {"role": "user", "content": [*_results(turn, raw), *_texts(turn.said)]}


def _results(turn: Results, raw: Raw) -> list[dict[str, Any]]:
    found = []
    for result in turn.results:
        content = [*(_picture(picture, raw) for picture in result.pictures), *_texts(result.blocks)]
        block = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
        found.append(block | ({"is_error": True} if result.failed else {}))
    return found


def _picture(picture: Picture, raw: Raw) -> dict[str, Any]:
    data = b64encode(raw(picture.sha)).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": f"image/{picture.kind}", "data": data}}


def _texts(texts: tuple[str, ...]) -> list[dict[str, Any]]:
    return [_text(text) for text in texts if text.strip()]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _is_empty(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and not str(block.get("text", "")).strip()


class Malformed(ValueError):
    """The stream is not what the format says."""


class Assembly:
    """A reply that is being put together: it exists only once `feed` has taken the provider's own end marker."""

    def __init__(self, on: Callable[[str], None]) -> None:
        self.on, self.ended = on, False
        self._blocks: list[dict[str, Any]] = []
        self._pieces: list[dict[str, list[str]]] = []
        self._open: set[int] = set()
        self._usage: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._stop: dict[str, Any] = {}

    def feed(self, data: str) -> Failure | None:
        """Take one event; a Failure is the provider's own error. Raises Malformed for what is no event of the format.

        Blocks, fields and events that nobody knew when this was written are taken as they are; a part of a block is
        not, since nobody can tell what it would add up to.
        """
        try:
            event = decoded(data)
            take = _TAKES.get(event["type"])
            return take(self, event) if take is not None else None
        except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
            raise Malformed(f"{type(error).__name__}: {error}"[:200]) from error

    def reply(self, ms: int, first_ms: int | None, request_id: str | None) -> Reply | Failure:
        """What came in, as a reply. Raises Malformed where an argument is no JSON, or blocks are left open."""
        raw = str(self._stop.get("stop_reason"))
        stop = STOPS.get(raw)
        if stop is None:
            return failure("protocol", f"the reply stopped for a reason that means nothing here: {raw[:100]}")
        is_whole = stop in ("calls", "end", "pause")
        if self._open and is_whole:
            raise Malformed("the message ended inside a block")
        content = [self._block(n, is_whole) for n in range(len(self._blocks))]
        text = "".join(str(block.get("text", "")) for block in content if block.get("type") == "text")
        calls = tuple(_call(block) for block in content if block.get("type") == "tool_use") if is_whole else ()
        if len({call.id for call in calls}) < len(calls):
            raise Malformed("two calls have one id")
        if is_whole:
            stop = "calls" if calls else "end" if stop == "calls" else stop
        return Reply(
            content, "anthropic", text, calls_or_finish(text, calls) if stop == "end" else calls, stop, raw,
            usage_of(self._usage), ms, first_ms, str(self._message.get("model", "")), request_id,
            detail=self._details(),
        )  # fmt: skip

    def _details(self) -> dict[str, Any]:
        said = self._stop.get("stop_details")
        return said if isinstance(said, dict) else {}

    def _block(self, n: int, is_whole: bool) -> dict[str, Any]:
        block, pieces = dict(self._blocks[n]), self._pieces[n]
        for key, texts in pieces.items():
            if key != "partial_json":
                block[key] = paired(str(block.get(key) or "") + "".join(texts))
        if "partial_json" in pieces and is_whole:
            try:
                block["input"] = decoded("".join(pieces["partial_json"]) or "{}", unambiguous)
            except ValueError as error:
                raise Malformed(f"the arguments of a call are no JSON: {error}"[:200]) from error
        made: dict[str, Any] = _mended(block)
        return made

    def _begin(self, event: Mapping[str, Any]) -> None:
        self._message = dict(event["message"])
        self._use(self._message.get("usage") or {})

    def _open_block(self, event: Mapping[str, Any]) -> None:
        if event["index"] != len(self._blocks):
            raise Malformed("the blocks are out of order")
        self._blocks.append(dict(event["content_block"]))
        self._pieces.append({})
        self._open.add(event["index"])

    def _grow(self, event: Mapping[str, Any]) -> None:
        n, delta = event["index"], event["delta"]
        kind = delta["type"]
        if n not in self._open:
            raise Malformed("a part of a block that is not open")
        if kind in _JOINED:
            piece = delta[_JOINED[kind]]
            self._pieces[n].setdefault(_JOINED[kind], []).append(piece + "")
            if kind == "text_delta":
                self.on(paired(piece))
        elif kind == "signature_delta":
            self._blocks[n]["signature"] = delta["signature"]
        elif kind == "citations_delta":
            cited = self._blocks[n].get("citations") or []
            cited.append(delta["citation"])
            self._blocks[n]["citations"] = cited
        else:
            raise Malformed(f"unknown kind of delta: {kind}")

    def _shut(self, event: Mapping[str, Any]) -> None:
        self._open.remove(event["index"])

    def _change(self, event: Mapping[str, Any]) -> None:
        self._stop |= {key: value for key, value in event["delta"].items() if value is not None}
        self._use(event.get("usage") or {})

    def _use(self, usage: Mapping[str, Any]) -> None:
        self._usage |= {key: value for key, value in usage.items() if value is not None}

    def _end(self, event: Mapping[str, Any]) -> None:
        if not self._message:
            raise Malformed("the message ended before it began")
        self.ended = True

    def _error(self, event: Mapping[str, Any]) -> Failure:
        error = event["error"]
        details = error.get("details")
        code = details.get("error_code") if isinstance(details, dict) else None
        return status_failure(None, error.get("type"), code, f"{error.get('type')}: {error.get('message')}", {})


_TAKES: dict[str, Callable[[Assembly, dict[str, Any]], Failure | None]] = {
    "message_start": Assembly._begin, "message_delta": Assembly._change, "message_stop": Assembly._end,
    "content_block_start": Assembly._open_block, "content_block_delta": Assembly._grow,
    "content_block_stop": Assembly._shut, "error": Assembly._error,
}  # fmt: skip


def usage_of(said: Mapping[str, Any]) -> Usage:
    """Tokens as the provider counts them; cached and written ones are part of all input. Never below zero."""
    details, split = said.get("output_tokens_details"), said.get("cache_creation")
    cached, written = count_in(said, "cache_read_input_tokens") or 0, count_in(said, "cache_creation_input_tokens") or 0
    hour = count_in(split, "ephemeral_1h_input_tokens") or 0
    counted = count_in(said, "input_tokens"), count_in(said, "output_tokens")
    total, out = (counted[0] or 0) + cached + written, counted[1] or 0
    thinking = count_in(details, "thinking_tokens") or 0
    return Usage(total, out, cached, written, min(hour, written), thinking, None not in counted)


def _call(block: Mapping[str, Any]) -> Call:
    if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str):
        raise Malformed("a call has no id or no name")
    return make_call(block["id"], block["name"], block.get("input"))


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return paired(value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    return {paired(key): _mended(item) for key, item in value.items()} if isinstance(value, dict) else value
