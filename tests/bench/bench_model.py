"""How long the first request to a model takes, and what the adapter adds to the SDK, as ratios. No test.

The server is of this process, on loopback; each figure is of runs that alternate with its yardstick.
"""

from __future__ import annotations

import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from harness.models import Prompt, Said
from harness.models.anthropic import Anthropic, named
from harness.models.exchange import PATIENCE, client_of
from harness.models.messages import parameters
from tests.command import clean_env, home_of
from tests.run_files import make_project

ROUNDS, STREAMS = 7, 40
LARGE = 255 * 1024
ENTRY = "import sys; from harness.cli.main import main; sys.exit(main())"
SDK = "import anthropic, json, sys; anthropic.Anthropic(max_retries=0).messages.create(**json.load(open(sys.argv[1])))"
PLAIN = (
    "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[2])); "
    "c.request('POST', '/v1/chat/completions', open(sys.argv[1], 'rb').read()); c.getresponse().read()"
)


class Server:
    """Answers every request with one short reply; `seen` gets the time and the body of each."""

    def __init__(self) -> None:
        self.seen: queue.Queue[tuple[float, bytes]] = queue.Queue()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def do_POST(self) -> None:
                at = time.monotonic()
                outer.seen.put((at, self.rfile.read(int(self.headers["content-length"]))))
                body = MESSAGE if self.path.endswith("/messages") else CHAT
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
                self.wfile.flush()

            def log_message(self, *words: Any) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {e.get('type', '')}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


USAGE = {"input_tokens": 9, "output_tokens": 9}
HEAD = {"id": "m", "type": "message", "role": "assistant", "model": "x", "content": [], "usage": USAGE}
WORD = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word "}}
MESSAGE = sse(
    {"type": "message_start", "message": HEAD},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}, *[WORD] * 200,
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": USAGE}, {"type": "message_stop"},
)  # fmt: skip
CHAT = sse({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}]})


def main() -> None:
    """Print one table: yardstick, our figure, ratio, goal."""
    server = Server()
    print(f"{'what':<42}{'yardstick':>12}{'ours':>12}{'ratio':>8}{'goal':>8}")
    with tempfile.TemporaryDirectory() as folder:
        project = make_project(Path(folder) / "p")
        url = f"http://127.0.0.1:{server.port}"
        env = clean_env(home_of(project), ANTHROPIC_API_KEY="k" * 20, ANTHROPIC_BASE_URL=url)
        claude, other = "anthropic:claude-haiku-5-5", f"openai:m@{url}/v1"
        for what, model, bare, goal in (("anthropic", claude, SDK, 1.15), ("chat-completions", other, PLAIN, 7.0)):
            command = [sys.executable, "-c", ENTRY, "run", "work", "x", "-m", model]
            body = project / "body.json"
            body.write_bytes(first(server, command, project, env)[1])
            yard = [sys.executable, "-c", bare, str(body), str(server.port)]
            figures = [(first(server, yard, project, env)[0], first(server, command, project, env)[0])
                       for _ in range(ROUNDS)]  # fmt: skip
            told(f"spawn to first request, {what}", figures, goal)
    os.environ.update({"ANTHROPIC_API_KEY": "k" * 20, "ANTHROPIC_BASE_URL": url})
    told("a stream behind 255 KB, as the SDK gives it", streams(typed), 1.05)
    told("the same, its events taken undecoded", streams(raw), None)


def first(server: Server, command: list[str], cwd: Path, env: dict[str, str]) -> tuple[float, bytes]:
    """Seconds from the spawn to the first request, and its body; the process is waited for."""
    began = time.monotonic()
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    at, body = server.seen.get(timeout=60)
    process.wait()
    return at - began, body


def streams(alone: Callable[[dict[str, Any]], None]) -> list[tuple[float, float]]:
    """Pairs of (the SDK alone, the adapter), each reading the events of one reply to its end."""
    ref = named("claude-haiku-5-5", "bench")
    prompt = Prompt(("rules", "skill"), (Said(("x" * LARGE,)),), (), max_tokens=1000)
    model, params = Anthropic(ref), parameters(prompt, ref)
    ways: tuple[Callable[[], object], ...] = (lambda: alone(params), lambda: model(prompt, on=lambda _: None))
    for way in ways:
        way()
    return [(taken(ways[0]), taken(ways[1])) for _ in range(STREAMS)]


def typed(params: dict[str, Any]) -> None:
    """As its documentation reads a stream: each event of a class of its own."""
    for _ in client_of(PATIENCE).messages.create(stream=True, **params):
        pass


def raw(params: dict[str, Any]) -> None:
    """The least that can be done with the SDK, which the adapter stands on: no thread, no limit of time."""
    import anthropic

    stream = client_of(PATIENCE).messages.create(stream=True, **params)
    for event in anthropic.Stream.raw_events(stream.response):
        if event.data:
            json.loads(event.data)


def taken(way: Callable[[], object]) -> float:
    began = time.perf_counter()
    way()
    return time.perf_counter() - began


def told(what: str, figures: list[tuple[float, float]], goal: float | None) -> None:
    yard, ours = (statistics.median(pair[n] for pair in figures) for n in (0, 1))
    wanted = f"{goal}x" if goal is not None else ""
    print(f"{what:<42}{yard * 1000:>9.1f} ms{ours * 1000:>9.1f} ms{ours / yard:>7.2f}x{wanted:>8}", flush=True)


if __name__ == "__main__":
    main()
