"""Prompts as chat-completions requests, and messages as calls, in the three modes. Pure.

Mode `tools` uses the provider's own calls; `json` asks for one object by a schema; `text` asks for it in words. Turns
of another mode or provider are told as what they said: whoever goes on with them must only understand them.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from harness.models import Call, Prompt, Replied, Result, Results
from harness.models.spoken import arguments, last_call, whole_call
from harness.models.turns import Picture, Raw
from harness.models.verbs import TOOLS, calls_or_finish, make_call

Mode = Literal["tools", "json", "text"]
MODES: tuple[Mode, ...] = ("tools", "json", "text")
DIALECTS = {"tools": "openai", "json": "json", "text": "text"}
SENT_BACK = ("role", "content", "tool_calls")
"""Of a message. What else a server adds (its reasoning, mostly) is kept, and refused by some when it comes back."""

Json = dict[str, Any]


def request(prompt: Prompt, mode: Mode) -> Json:
    """What the mode decides of a request: messages, and how calls are asked for."""
    body: Json = {"messages": messages(prompt, mode)}
    if not prompt.verbs:
        return body
    if mode == "tools":
        body["tools"] = [_function(tool) for tool in TOOLS]
    elif mode == "json":
        schema = {"name": "call", "schema": call_schema([offer.name for offer in prompt.offer])}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _function(tool: Json) -> Json:
    about = {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]}
    return {"type": "function", "function": about}


def call_schema(released: Sequence[str]) -> Json:
    """One branch a verb; `run` takes the released tools only, and is none where there is none."""
    return {"anyOf": [_branch(tool, released) for tool in TOOLS if tool["name"] != "run" or released]}


def _branch(tool: Json, released: Sequence[str]) -> Json:
    given = tool["input_schema"]
    if tool["name"] == "run":
        given = {**given, "properties": {**given["properties"], "tool": {"type": "string", "enum": list(released)}}}
    properties = {"name": {"type": "string", "enum": [tool["name"]]}, "arguments": given}
    return {"type": "object", "properties": properties, "required": ["name", "arguments"],
            "additionalProperties": False}  # fmt: skip


def messages(prompt: Prompt, mode: Mode) -> list[Json]:
    """System, then the turns. A result stands as its call did: beside it for a provider's call, else as said."""
    return _messages(prompt, mode, prompt.raw)


def written(prompt: Prompt, mode: Mode) -> list[Json]:
    """The same without the bytes of images: what its letters are counted of."""
    return _messages(prompt, mode, lambda sha: b"")


def _messages(prompt: Prompt, mode: Mode, raw: Raw) -> list[Json]:
    words = (prompt.spoken,) if mode != "tools" and prompt.verbs else ()
    made: list[Json] = [{"role": "system", "content": _joined((prompt.system[0], *words, prompt.system[1]))}]
    for turn in prompt.turns:
        if isinstance(turn, Replied):
            made.append(_assistant(turn, mode))
        elif isinstance(turn, Results):
            made += _results(turn, {call["id"] for call in made[-1].get("tool_calls", ())}, raw)
        else:
            made.append({"role": "user", "content": _joined(turn.texts)})
    return made


def _joined(texts: Sequence[str]) -> str:
    return "\n\n".join(text for text in texts if text)


def _results(turn: Results, called: set[str], raw: Raw) -> list[Json]:
    answered = [result for result in turn.results if result.call_id in called]
    told = [_joined(result.blocks) for result in turn.results if result.call_id not in called]
    pictures = [part for result in turn.results for picture in result.pictures for part in _picture(picture, raw)]
    words = (_joined(told), _joined(turn.said))
    content = [*_part(words[0]), *pictures, *_part(words[1])] if pictures else _joined(words)
    return [_tool(result) for result in answered] + ([{"role": "user", "content": content}] if content else [])


def _picture(picture: Picture, raw: Raw) -> list[Json]:
    """An image and whose it is: a message that answers a call has no place for one."""
    url = f"data:image/{picture.kind};base64,{b64encode(raw(picture.sha)).decode()}"
    return [*_part(picture.label), {"type": "image_url", "image_url": {"url": url}}]


def _part(text: str) -> list[Json]:
    return [{"type": "text", "text": text}] if text else []


def _tool(result: Result) -> Json:
    return {"role": "tool", "tool_call_id": result.call_id, "content": _joined(result.blocks)}


def _assistant(turn: Replied, mode: Mode) -> Json:
    message = _message(turn)
    called = message.get("tool_calls")
    if not called:
        return {"role": "assistant", "content": _text(message)}
    if mode == "tools":
        return {**message, "tool_calls": [_readable(call) for call in called]}
    spoken = [json.dumps(_spoken(call), ensure_ascii=False) for call in called]
    return {"role": "assistant", "content": _joined((_text(message), *spoken))}


def _text(message: Json) -> str:
    return message["content"] if isinstance(message.get("content"), str) else ""


def _spoken(call: Json) -> Json:
    function = call["function"]
    return {"name": function["name"], "arguments": arguments(function["arguments"])}


def _readable(call: Json) -> Json:
    """As it came. Servers that read the arguments again fail for good on what is no object: that is told as one."""
    given = call["function"]["arguments"]
    if isinstance(arguments(given), Mapping) and given.strip():
        return call
    text = json.dumps({"unreadable": given} if given.strip() else {}, ensure_ascii=False)
    return {**call, "function": {**call["function"], "arguments": text}}


def _message(turn: Replied) -> Json:
    """A reply of any provider as a message of this one."""
    blocks = [block for block in turn.content if isinstance(block, dict)]
    if turn.dialect in DIALECTS.values():
        return {key: value for key, value in blocks[0].items() if key in SENT_BACK} if blocks else {}
    text = _joined([str(block["text"]) for block in blocks if block.get("type") == "text"])
    called = [_function_call(block) for block in blocks if block.get("type") == "tool_use"]
    if not text and not called:
        text = json.dumps(turn.content, ensure_ascii=False) if turn.content else ""
    return {"role": "assistant", "content": text, **({"tool_calls": called} if called else {})}


def _function_call(block: Json) -> Json:
    given = json.dumps(block.get("input") or {}, ensure_ascii=False)
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": given}}


def calls_of(message: Json, mode: Mode, prompt: Prompt) -> tuple[tuple[Call, ...], bool]:
    """The calls of a message whose ids are its own, and whether one came as plain text where it should not have."""
    if message.get("tool_calls"):
        return tuple(_call(call) for call in message["tool_calls"]), False
    text, names = _text(message), [*(offer.name for offer in prompt.offer), *prompt.waiting]
    found = (whole_call if mode == "tools" else last_call)(text, names) if prompt.verbs else None
    if found is None:
        return calls_or_finish(text, ()), False
    return (make_call(f"call_{prompt.turn}_1", *found),), mode == "tools"


def _call(call: Json) -> Call:
    function = call["function"]
    given = arguments(function["arguments"])
    made = make_call(call["id"], function["name"], given)
    if isinstance(given, str) and made.verb in {tool["name"] for tool in TOOLS}:
        return Call(made.id, made.verb, {}, f"the arguments of {made.verb} are not a JSON object: {given[:200]!r}")
    return made


def was_spoken(turn: Replied, prompt: Prompt) -> bool:
    """Whether an earlier reply in mode `tools` held its call as plain text."""
    return turn.dialect == "openai" and calls_of(_message(turn), "tools", prompt)[1]


def with_ids(calls: Sequence[Json], prompt: Prompt) -> list[Json]:
    """Calls with an id each that no other call of the conversation has."""
    taken = {r.call_id for turn in prompt.turns if isinstance(turn, Results) for r in turn.results}
    made = []
    for i, call in enumerate(calls, 1):
        name = call.get("id")
        if not isinstance(name, str) or not name or name in taken:
            name = next(n for n in _names(prompt.turn, i) if n not in taken)
        taken.add(name)
        made.append({**call, "id": name})
    return made


def _names(turn: int, i: int) -> Any:
    yield f"call_{turn}_{i}"
    yield from (f"call_{turn}_{i}_{again}" for again in range(2, 1000))
