"""A chat-completions server on loopback, as strict as the real ones, that plays a list of answers. Also a program.

`kind` is openai, no-tools (vLLM without a parser), ollama (drops the front of a long prompt, says what it can do),
text-calls (writes its calls as text) or no-usage.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]
KNOWN = {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "tools",
         "response_format"}  # fmt: skip


@dataclass(slots=True)
class Play:
    """One answer: a message in chunks, or a fault. `chunk` is bytes a write; `raw` is sent as it stands."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    finish: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    deltas: Sequence[Json] | None = None
    chunk: int = 1 << 20
    whole: bool = False
    usage: Json | None = None
    ids: Sequence[str | None] | None = None
    silent: bool = False
    stall_head: float = 0.0
    stall_body: float = 0.0
    cut: bool = False
    closed: bool = False


def call(verb: str, **arguments: Any) -> tuple[str, Any]:
    return verb, arguments


class FakeOpenAI:
    """Keeps every request (path, headers, body) and answers chats with the plays in order."""

    def __init__(self, plays: Sequence[Play], kind: str = "openai", window: int = 4096, counts: bool = True) -> None:
        self.plays, self.kind, self.window, self.counts = list(plays), kind, window, counts
        self.requests: list[tuple[str, dict[str, str], Json]] = []
        self.models: list[str] = ["m"]
        self.loaded: list[str] = []
        self.able: list[str] = ["completion", "tools"]
        self.loads = False
        """Whether a chat loads its model, as a real one does."""
        self.gone = threading.Event()
        """Set once a client left before its answer was over."""
        self.port = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def chats(self) -> list[Json]:
        """The bodies of the chats that were not refused, and those that were."""
        return [body for path, _, body in self.requests if path.endswith("/chat/completions")]

    @contextmanager
    def serving(self) -> Iterator[FakeOpenAI]:
        server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        server.daemon_threads = True
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()

    def refusal(self, body: Json) -> tuple[int, str] | None:
        """What a real server would refuse: (status, message)."""
        unknown = set(body) - KNOWN
        if unknown:
            return 400, f"Unrecognized request arguments: {sorted(unknown)}"
        if self.kind == "no-tools" and "tools" in body:
            return 400, '"auto" tool choice requires --enable-auto-tool-choice'
        if not self.counts and "stream_options" in body:
            return 400, "Extra inputs are not permitted: stream_options"
        wrong = _wrong_messages(body["messages"], "tools" in body)
        return (400, wrong) if wrong else None

    def tokens(self, body: Json) -> int:
        """What this server reads: four letters a token, the front dropped where it is an Ollama."""
        sizes = [_size(m.get("content")) // 4 + 4 for m in body["messages"]]
        if self.kind != "ollama":
            return sum(sizes)
        while len(sizes) > 2 and sum(sizes) > self.window:
            del sizes[1]
        return min(sum(sizes), self.window)


def _wrong_messages(messages: list[Json], tools: bool) -> str:
    """The first rule of the order of messages that is broken."""
    open_ids: list[str] = []
    if messages[0]["role"] != "system" or any(m["role"] == "system" for m in messages[1:]):
        return "one system message, at the start"
    for message in messages:
        role, content = message["role"], message.get("content")
        if role == "tool":
            if message.get("tool_call_id") not in open_ids:
                return "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            return f"tool_call_ids did not have response messages: {open_ids}"
        if role in ("user", "system") and not (isinstance(content, str) and content):
            wrong = _wrong_parts(content) if role == "user" else "no text"
            if wrong:
                return f"content of {role}: {wrong}"
        if role == "assistant":
            extra = set(message) - {"role", "content", "tool_calls"}
            if extra:
                return f"unknown fields of a message: {sorted(extra)}"
            if "tool_calls" in message and not tools:
                return "tool_calls where no tools are given"
            wrong = _wrong_calls(message.get("tool_calls", []))
            if wrong or (content is None and not message.get("tool_calls")):
                return wrong or "content is null"
            open_ids = [made["id"] for made in message.get("tool_calls", [])]
    return f"tool_call_ids did not have response messages: {open_ids}" if open_ids else ""


def _wrong_parts(content: Any) -> str:
    """What is wrong with a message of parts: texts, and images with their bytes in the URL."""
    if not isinstance(content, list) or not content:
        return "must be a text or parts"
    for part in content:
        if part["type"] == "text" and set(part) == {"type", "text"} and part["text"]:
            continue
        url = part.get("image_url", {}).get("url", "")
        if part["type"] != "image_url" or not url.startswith(("data:image/png;base64,", "data:image/jpeg;base64,")):
            return f"no such part: {str(part)[:100]}"
        b64decode(url.partition(",")[2], validate=True)
    return ""


def _size(content: Any) -> int:
    """Letters of a message; an image counts as so many as its tokens are."""
    if isinstance(content, list):
        return sum(len(part["text"]) if part["type"] == "text" else 4 * 1600 for part in content)
    return len(str(content or ""))


def _wrong_calls(calls: list[Json]) -> str:
    for made in calls:
        if not made.get("id") or made.get("type") != "function" or "index" in made:
            return "a tool call without id or type, or with an index"
        arguments = made["function"]["arguments"]
        if not isinstance(arguments, str):
            return "arguments must be a string"
        try:
            if not isinstance(json.loads(arguments), dict):
                return "invalid tool call arguments"
        except ValueError:
            return "invalid tool call arguments"
    return "the same id twice" if len({made["id"] for made in calls}) < len(calls) else ""


def _handler(fake: FakeOpenAI) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            fake.requests.append((self.path, dict(self.headers), {}))
            listed = {"/api/tags": fake.models, "/api/ps": fake.loaded}.get(self.path)
            if fake.kind != "ollama" or listed is None:
                return self._json(404, {"error": "not found"})
            return self._json(200, {"models": [{"name": n, "context_length": fake.window} for n in listed]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            fake.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            if self.path == "/api/show" and fake.kind == "ollama":
                if body["model"] not in fake.models:
                    return self._json(404, {"error": f"model '{body['model']}' not found"})
                return self._json(200, {"capabilities": fake.able})
            if not self.path.endswith("/chat/completions"):
                return self._json(404, {"detail": "Not Found"})
            refused = fake.refusal(body)
            if refused:
                error = {"message": refused[1], "type": "invalid_request_error", "param": None, "code": None}
                return self._json(refused[0], {"error": error})
            if not fake.plays:
                return self._json(500, {"error": {"message": "no play is left"}})
            fake.loaded += [body["model"]] if fake.loads and body["model"] not in fake.loaded else []
            return self._play(fake.plays.pop(0), body)

        def _json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
            self._send(status, "application/json", json.dumps(value).encode(), headers or {})

        def _send(self, status: int, kind: str, raw: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {"content-type": kind, "content-length": str(len(raw)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        def _play(self, play: Play, body: Json) -> None:
            time.sleep(play.stall_head)
            if play.closed:
                self.close_connection = True
                return None
            if play.status // 100 != 2:
                error = {"error": {"message": play.text or "no", "code": play.finish}}
                return self._json(play.status, error, play.headers)
            if play.whole:
                return self._json(play.status, _whole(play, fake, body), play.headers)
            raw = play.raw if play.raw is not None else _events(play, fake, body)
            kind = {"content-type": "text/event-stream", "transfer-encoding": "chunked", **play.headers}
            try:
                self.send_response(play.status)
                for name, value in kind.items():
                    self.send_header(name, value)
                self.end_headers()
                self._write(raw, play)
            except OSError:
                fake.gone.set()
            self.close_connection = True
            return None

        def _write(self, raw: bytes, play: Play) -> None:
            for at in range(0, len(raw), play.chunk):
                piece = raw[at : at + play.chunk]
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            until = time.monotonic() + play.stall_body
            while time.monotonic() < until:  # a client that leaves is noticed by writing to it
                time.sleep(0.02)
                if play.silent:
                    continue
                self.wfile.write(b"7\r\n: here\n\r\n")
            if not play.cut:
                self.wfile.write(b"0\r\n\r\n")

    return Handler


def _usage(play: Play, fake: FakeOpenAI, body: Json) -> Json | None:
    if fake.kind == "no-usage":
        return None
    return play.usage or {"prompt_tokens": fake.tokens(body), "completion_tokens": 7,
                          "prompt_tokens_details": {"cached_tokens": 3}}  # fmt: skip


def _spoken(play: Play, fake: FakeOpenAI, body: Json) -> tuple[str, list[Json]]:
    """Text and calls as this kind of server gives them in the mode it is asked in."""
    if play.calls and (fake.kind == "text-calls" or "tools" not in body):
        return json.dumps({"name": play.calls[0][0], "arguments": play.calls[0][1]}), []
    ids = play.ids or [f"id-{len(fake.requests)}-{i}" for i in range(len(play.calls))]
    made = []
    for (verb, given), name in zip(play.calls, ids, strict=True):
        text = given if isinstance(given, str) else json.dumps(given)
        made.append({**({"id": name} if name is not None else {}), "type": "function",
                     "function": {"name": verb, "arguments": text}})  # fmt: skip
    return play.text, made


def _whole(play: Play, fake: FakeOpenAI, body: Json) -> Json:
    text, calls = _spoken(play, fake, body)
    message = {"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}
    finish = play.finish or ("tool_calls" if calls else "stop")
    return {"model": "served-m", "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": _usage(play, fake, body)}  # fmt: skip


def _events(play: Play, fake: FakeOpenAI, body: Json) -> bytes:
    text, calls = _spoken(play, fake, body)
    deltas: list[Json] = [{"role": "assistant", "content": text}] if text else [{"role": "assistant", "content": None}]
    for i, made in enumerate(calls):
        given = made["function"]["arguments"]
        head = {**made, "index": i, "function": {**made["function"], "arguments": ""}}
        deltas.append({"tool_calls": [head]})
        half = len(given) // 2
        for part in (given[:half], given[half:]):
            deltas.append({"tool_calls": [{"index": i, "function": {"arguments": part}}]})
    finish = play.finish or ("tool_calls" if calls else "stop")
    about = {"model": "served-m", "object": "chat.completion.chunk"}
    deltas = deltas if play.deltas is None else list(play.deltas)
    chunks = [{**about, "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({**about, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = _usage(play, fake, body)
    if usage and "stream_options" in body:
        chunks.append({**about, "choices": [], "usage": usage})
    lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks]
    return ("".join([": hello\n\n", *lines, "data: [DONE]\n\n"])).encode()


if __name__ == "__main__":
    with FakeOpenAI([Play("hello")] * 1000, *sys.argv[1:2]).serving() as running:
        print(running.port, flush=True)
        threading.Event().wait()
