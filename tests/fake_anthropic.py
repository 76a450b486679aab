"""A server on loopback that speaks the Messages API, as strict as the real one, and that fails in every way it can.

It keeps each request, and plays a list of answers in order. What the API would refuse is a 400 that names the rule.
`python -m tests.fake_anthropic` says hello to everybody who has its key, and prints its port.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.loop_world import Project, Ran, Skipping

KEY = "sk-ant-test-0123456789"
SIZES = (1, 7, 64, 3, 1000, 2)
EFFORTS = ("low", "medium", "high", "xhigh", "max")
KNOWN = {"model", "max_tokens", "cache_control", "thinking", "output_config", "system", "tools", "messages", "stream"}
FIELDS = {
    "text": {"type", "text", "cache_control", "citations"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "image": {"type", "source", "cache_control"},
}

BARE: dict[str, dict[str, Any]] = {
    "text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}},
}  # fmt: skip

Block = dict[str, Any]
COUNTED: dict[str, Any] = {}
"""As the usage of an answer: what the server itself counts, four bytes a token, its cache of prefixes included."""
LOOK_BACK = 20
"""Blocks before a marker among which a prefix that was kept is looked for."""


@dataclass(slots=True)
class Answer:
    """What is sent: blocks as a stream, or an error of a `status`. `fault` is what goes wrong.

    It comes after `after` events, or so many before the last; of a whole reply the last three are no block's.
    """

    blocks: list[Block] = field(default_factory=list)
    stop: str = "tool_use"
    usage: dict[str, Any] = field(default_factory=lambda: {"input_tokens": 100, "output_tokens": 20})
    status: int = 200
    kind: str = ""
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    fault: str = ""
    after: int = -3
    details: dict[str, Any] | None = None


def text(words: str) -> Block:
    return {"type": "text", "text": words}


def thinks(words: str = "hm") -> Block:
    return {"type": "thinking", "thinking": words, "signature": ""}


def use(n: int, verb: str, **arguments: Any) -> Block:
    return {"type": "tool_use", "id": f"toolu_{n}", "name": verb, "input": arguments}


def runs(n: int, tool: str, *args: str) -> Block:
    return use(n, "run", tool=tool, args=list(args))


def finishes(n: int, answer: str = "done") -> Answer:
    return Answer([use(n, "finish", answer=answer)])


def fails(status: int, kind: str, code: str | None = None, **headers: str) -> Answer:
    return Answer(status=status, kind=kind, code=code, headers={k.replace("_", "-"): v for k, v in headers.items()})


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *words: Any) -> None:
        """Silent: whoever leaves a stream in its middle means to."""


class FakeAnthropic:
    """The server, between `with` and its end. `requests` are bodies, `headers` those of each, `refused` the 400s.

    A text of `masks` that was in a reply may come back as what it stands for. `pages` is what is read there without
    being a message: path → body.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.raw: list[bytes] = []
        self.times: list[float] = []
        self.refused: list[str] = []
        self.pages: dict[str, bytes] = {}
        self.let_go = threading.Event()
        self.reached = threading.Event()
        self.left = threading.Event()
        self.masks: dict[str, str] = {}
        self._issued: dict[str, str] = {}
        self._kept: set[tuple[str, ...]] = set()
        self._paused = False
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_POST(self) -> None:
                outer.answer(self)

            def do_GET(self) -> None:
                found = outer.pages.get(self.path)
                _send(self, 404 if found is None else 200, found or b"{}", {"content-type": "application/json"})

            def log_message(self, *words: Any) -> None:
                """Silent."""

        self.server = _Server(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def env(self) -> dict[str, str]:
        return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.url}

    def __enter__(self) -> FakeAnthropic:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()

    def answer(self, asked: Any) -> None:
        raw = asked.rfile.read(int(asked.headers["content-length"]))
        body = json.loads(raw)
        with self._lock:
            self.times.append(time.monotonic())
            self.raw.append(raw)
            self.requests.append(body)
            self.headers.append({name.lower(): value for name, value in asked.headers.items()})
            wrong = self.problem(asked, body)
            answer = self.answers.pop(0) if self.answers and not wrong else None
        if wrong or answer is None:
            self.refused.append(wrong or "no answer is left")
            _whole(asked, 400, _error("invalid_request_error", self.refused[-1], None), {})
        elif answer.status != 200 or answer.fault in ("html", "wrong type", "redirect"):
            _refuse(asked, answer)
        else:
            self.stream(asked, body, answer)

    def problem(self, asked: Any, body: dict[str, Any]) -> str | None:
        """The first rule of the API that a request breaks."""
        token = asked.headers.get("x-api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
        if token != KEY or not asked.headers.get("anthropic-version"):
            return "no key or no version"
        try:
            return next(self._problems(body), None)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            return f"wrong shape: {type(error).__name__} {error}"

    def _problems(self, body: dict[str, Any]) -> Iterator[str]:
        yield from (f"{key}: unknown parameter" for key in body if key not in KNOWN)
        if not isinstance(body["max_tokens"], int) or body["max_tokens"] < 1 or body["stream"] is not True:
            yield "max_tokens or stream"
        if body.get("thinking") not in (None, {"type": "adaptive", "display": "summarized"}):
            yield "thinking"
        output = body.get("output_config", {"effort": "low"})
        if not output or not set(output) <= {"effort", "format"} or output.get("effort", "low") not in EFFORTS:
            yield "output_config"
        form = output.get("format", {})
        yield from _problems_of_form(form.get("schema", {}) if set(form) <= {"type", "schema"} else {"format": 1})
        if json.dumps(body).count('"cache_control"') > 4:
            yield "more than 4 cache markers"
        wanted = {"name", "description", "input_schema"}
        yield from (f"tools: {tool.keys()}" for tool in body.get("tools", ()) if set(tool) != wanted)
        messages = body["messages"]
        if messages[0]["role"] != "user":
            yield "the first message is not the user's"
        if messages[-1]["role"] != "user" and not self._paused:
            yield "the last message is not the user's"
        for n, message in enumerate(messages):
            yield from self._problems_of(body, messages[:n], message)
        yield from _unanswered(messages)

    def _problems_of(self, body: dict[str, Any], before: list[Any], message: dict[str, Any]) -> Iterator[str]:
        if set(message) != {"role", "content"} or not isinstance(message["content"], list) or not message["content"]:
            yield "a message has other fields than role and content, or no content"
        if message["role"] == "assistant":
            made_for = self._issued.get(_json(message["content"]))
            if made_for is None:
                yield "an assistant turn is not what was sent"
            elif any(b["type"] == "thinking" for b in message["content"]) and made_for != self._prefix(body, before):
                yield "a thinking block is bound to another prefix"
            return
        for block in message["content"]:
            yield from _problems_of_block(block)

    def _prefix(self, body: dict[str, Any], before: list[Any]) -> str:
        return _json([body.get("system"), body.get("tools"), before])

    def stream(self, asked: Any, body: dict[str, Any], answer: Answer) -> None:
        """Send the events, in pieces that split lines and letters."""
        if answer.fault == "slow headers":
            self.reached.set()
            self.let_go.wait(30)
        with self._lock:
            content = [self._signed(block, len(self.requests)) for block in answer.blocks]
            prefix = self._prefix(body, body["messages"])
            self._issued |= {_json(content): prefix, self._masked(_json(content)): prefix}
            self._paused = answer.stop == "pause_turn"
            usage = self._counted(body) if answer.usage is COUNTED else answer.usage
        asked.send_response(200)
        head = {"content-type": "text/event-stream", "request-id": f"req_{len(self.requests)}", **answer.headers}
        for name, value in head.items():
            asked.send_header(name, value)
        asked.send_header("transfer-encoding", "chunked")
        asked.end_headers()
        sizes = cycle(SIZES)
        try:
            said = list(events(content, replace(answer, usage=usage), body["model"]))
            for n, event in enumerate(said):
                if n == answer.after % len(said) and answer.fault and self._fault(asked, answer):
                    return
                for piece in _pieces(event, 65_536 if len(event) > 10_000 else next(sizes)):
                    asked.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                asked.wfile.flush()
            asked.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.left.set()

    def _counted(self, body: dict[str, Any]) -> dict[str, Any]:
        """Usage: the longest prefix that is kept near a marker is read, the rest up to the last marker is written."""
        blocks, markers = _blocks(body)
        near = [n for n in range(len(blocks) + 1) if any(m - LOOK_BACK <= n <= m for m in markers)]
        read = max((n for n in near if blocks[:n] in self._kept), default=0)
        self._kept |= {blocks[:m] for m in markers}
        at = [sum(map(len, blocks[:n])) // 4 for n in (read, max(markers), len(blocks))]
        return {"cache_read_input_tokens": at[0], "cache_creation_input_tokens": at[1] - at[0],
                "input_tokens": at[2] - at[1], "output_tokens": 20}  # fmt: skip

    def _fault(self, asked: Any, answer: Answer) -> bool:
        """What goes wrong in the middle; True where nothing comes after it."""
        if answer.fault == "cut":
            asked.wfile.flush()
            asked.connection.shutdown(socket.SHUT_RDWR)
            asked.close_connection = True
            return True
        if answer.fault == "stall":
            asked.wfile.flush()
            self.reached.set()
            asked.connection.settimeout(30)
            if asked.connection.recv(1) == b"":
                self.left.set()
            return True
        if answer.fault == "no rest":
            more = _sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "more"}})
            while not self.let_go.wait(0.005):
                asked.wfile.write(b"%x\r\n%s\r\n" % (len(more), more))
                asked.wfile.flush()
            return True
        if answer.fault == "end":
            asked.wfile.write(b"0\r\n\r\n")
            return True
        said = {
            "malformed": b"event: content_block_delta\ndata: {broken\n\n",
            "error": _sse({"type": "error", "error": {"type": answer.kind, "message": "no more"}}),
            "unknown delta": _sse({"type": "content_block_delta", "index": 0, "delta": {"type": "odd_delta"}}),
        }.get(answer.fault)
        if said is not None:
            asked.wfile.write(b"%x\r\n%s\r\n" % (len(said), said))
        return False

    def _masked(self, text: str) -> str:
        for value in sorted(self.masks, key=len, reverse=True):
            text = text.replace(_json(value)[1:-1], self.masks[value])
        return text

    def _signed(self, block: Block, n: int) -> Block:
        return {**block, "signature": f"sig-{n}"} if block["type"] == "thinking" else block


def serving(monkeypatch: Any) -> Iterator[Any]:
    """For a fixture: a function that begins a server with these answers, and points the SDK of this process to it."""
    made: list[FakeAnthropic] = []

    def begin(*answers: Answer) -> FakeAnthropic:
        made.append(FakeAnthropic(*answers))
        for name, value in made[-1].env.items():
            monkeypatch.setenv(name, value)
        return made[-1].__enter__()

    yield begin
    for fake in made:
        fake.__exit__()


def events(content: list[Block], answer: Answer, model: str) -> Iterator[bytes]:
    """The events of a reply, each text in small deltas."""
    usage = {**answer.usage, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    yield _sse({"type": "message_start", "message": message})
    yield b": a comment\n\nevent: ping\ndata: {\"type\": \"ping\"}\n\n"
    for n, block in enumerate(content):
        yield from _block_events(n, block)
    delta = {"stop_reason": answer.stop, "stop_sequence": None, "stop_details": answer.details}
    yield _sse({"type": "message_delta", "delta": delta, "usage": {"output_tokens": answer.usage["output_tokens"]}})
    yield _sse({"type": "an_event_of_tomorrow", "x": 1})
    yield _sse({"type": "message_stop"})


def _block_events(n: int, block: Block) -> Iterator[bytes]:
    kind = block["type"]
    yield _sse({"type": "content_block_start", "index": n, "content_block": {**block, **BARE.get(kind, {})}})
    parts: list[Block] = []
    if kind == "text":
        size = max(4, len(block["text"]) // 50)
        parts = [{"type": "text_delta", "text": part} for part in _cut(block["text"], size)]
    elif kind == "thinking":
        parts = [{"type": "thinking_delta", "thinking": part} for part in _cut(block["thinking"], 3)]
        parts += [{"type": "signature_delta", "signature": block["signature"]}]
    elif kind == "tool_use":
        said = json.dumps(block["input"]) if block["input"] else ""
        pieces = ("", *_cut(said, max(5, len(said) // 9)))
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    for part in parts:
        yield _sse({"type": "content_block_delta", "index": n, "delta": part})
    yield _sse({"type": "content_block_stop", "index": n})


def _blocks(body: dict[str, Any]) -> tuple[tuple[str, ...], list[int]]:
    """All that a cache keeps, in its order, and after how many blocks a marker stands."""
    said = [(message["role"], block) for message in body["messages"] for block in message["content"]]
    blocks = [*body.get("tools", ()), *body.get("system", ()), *said]
    first = len(body.get("tools", ()))
    marked = [first + n for n, block in enumerate(body.get("system", ()), 1) if "cache_control" in block]
    return tuple(map(_json, blocks)), marked + ([len(blocks)] if "cache_control" in body else [])


def _problems_of_form(schema: Any) -> Iterator[str]:
    known = {"type", "enum", "const", "anyOf", "items", "properties", "required", "additionalProperties", "description"}
    yield from (f"output_config: {key}" for key in schema if key not in known)
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        yield "output_config: additionalProperties must be false"
    below = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *filter(None, [schema.get("items")])]
    yield from (problem for part in below for problem in _problems_of_form(part))


def _problems_of_block(block: Block) -> Iterator[str]:
    known = FIELDS.get(block["type"])
    if known is None or not set(block) <= known:
        yield f"a block of the user's: {block['type']} {sorted(block)}"
    if block["type"] == "text" and not block["text"].strip():
        yield "text content blocks must be non-empty"
    if block["type"] == "image":
        yield from _problems_of_image(block["source"])
    for part in block.get("content") or () if block["type"] == "tool_result" else ():
        yield from _problems_of_block(part)


def _problems_of_image(source: dict[str, Any]) -> Iterator[str]:
    """An image is what its kind says, and not too large."""
    raw = b64decode(source["data"], validate=True)
    first = {"image/png": b"\x89PNG\r\n", "image/jpeg": b"\xff\xd8\xff"}.get(source["media_type"])
    if set(source) != {"type", "media_type", "data"} or source["type"] != "base64" or first is None:
        yield f"image.source: {sorted(source)} {source['media_type']}"
    elif not raw.startswith(first) or len(raw) > 5 * 1024 * 1024:
        yield "Could not process image"


def _unanswered(messages: list[dict[str, Any]]) -> Iterator[str]:
    """Calls without a result in the very next turn, and results that answer nothing or come late."""
    merged: list[tuple[str, list[Block]]] = []
    for message in messages:
        if merged and merged[-1][0] == message["role"]:
            merged[-1][1].extend(message["content"])
        else:
            merged.append((message["role"], list(message["content"])))
    for n, (role, content) in enumerate(merged):
        calls = [block["id"] for block in content if block["type"] == "tool_use"] if role == "assistant" else []
        there = [block.get("tool_use_id") for block in merged[n + 1][1]] if n + 1 < len(merged) else []
        if calls != there[: len(calls)]:
            yield f"calls {calls} are answered by {there}"
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        asked = [b["id"] for b in merged[n - 1][1] if b["type"] == "tool_use"] if role == "user" and n else []
        if results != asked:
            yield f"results {results} of calls {asked}"


def _refuse(asked: Any, answer: Answer) -> None:
    if answer.fault == "html":
        page = b"<html><h1>Bad Gateway</h1></html>"
        _send(asked, answer.status, page, {"content-type": "text/html", **answer.headers})
    elif answer.fault == "wrong type":
        _whole(asked, 200, {"type": "message", "content": answer.blocks}, answer.headers)
    elif answer.fault == "redirect":
        _send(asked, 302, b"", {"content-type": "text/html", **answer.headers})
    else:
        _whole(asked, answer.status, _error(answer.kind, f"what {KEY} wanted", answer.code), answer.headers)


def _error(kind: str, message: str, code: str | None) -> dict[str, Any]:
    details = {"details": {"error_code": code}} if code else {}
    return {"type": "error", "error": {"type": kind, "message": message, **details}}


def _whole(asked: Any, status: int, body: object, headers: dict[str, str]) -> None:
    head = {"content-type": "application/json", "request-id": "req_e", **headers}
    _send(asked, status, json.dumps(body).encode(), head)


def _send(asked: Any, status: int, body: bytes, headers: dict[str, str]) -> None:
    asked.send_response(status)
    for name, value in headers.items():
        asked.send_header(name, value)
    asked.send_header("content-length", str(len(body)))
    asked.end_headers()
    asked.wfile.write(body)
    asked.wfile.flush()


def _sse(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def _cut(words: str, size: int) -> list[str]:
    return [words[at : at + size] for at in range(0, len(words), size)]


def _json(value: object) -> str:
    return json.dumps(value)


def looking_and_touching(place: Path) -> Project:
    """A project of a read and a write that leaves a mark, on a clock that jumps over pauses."""
    made = Project(place)
    made.clock = Skipping()
    made.tool("look", "echo looked")
    made.tool("touch", 'echo touched >> "$PWD/effects"', "@meta effect write")
    made.skill(tools="look touch")
    return made


def failures(ran: Ran) -> list[str]:
    """The reasons of the requests that failed, in order."""
    return [event["data"]["reason"] for event in ran.of("model.fail")]


if __name__ == "__main__":
    with FakeAnthropic(*[Answer([text("hello")], "end_turn", COUNTED)] * 1000) as running:
        print(running.url.rpartition(":")[2], flush=True)
        threading.Event().wait()
