"""The child of the local adapter: one JSON line in, one out, until standard input ends. Run as a program only.

First `{"model": FILE, "threads": N, "context": N}`, answered `{"ready": true}`; then
`{"id", "prompt", "schema", "max_tokens", "temperature", "seed"}`, answered `{"id", "text", "finish", "usage"}`.
What cannot be done is answered `{"id"?, "error": text}`. Everything else that is printed goes to standard error.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import sys
import threading
from typing import Any, TextIO

HASTY = {"whitespace_flexible": False}
"""Without it a small model may fill its tokens with blanks that the grammar allows."""


def main() -> int:
    """Serve until standard input ends; 1 when the weights cannot be loaded."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(orders,), daemon=True).start()
    try:
        server = _load(orders.get())
    except Exception as error:  # noqa: BLE001 - whatever the library raises is told to the parent
        _say(out, {"error": _reason(error)})
        return 1
    _say(out, {"ready": True})
    while True:
        order = orders.get()
        _say(out, {"id": order.get("id"), **_complete(server, order)})


def _read(orders: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Take orders; with the parent gone, leave at once, whatever the library is doing."""
    for line in sys.stdin.buffer:
        orders.put(json.loads(line))
    os._exit(0)


def _load(order: dict[str, Any]) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = order["model"]
    params.n_ctx, params.n_parallel, params.n_gpu_layers = order["context"], 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    # The library listens on a loopback port whether we want it or not: nobody has its key, and little answers there.
    params.port, params.api_keys = 0, [secrets.token_hex(24)]
    params.ui, params.server_tools, params.endpoint_slots, params.verbosity = False, [], False, -1
    return xllamacpp.Server(params)


def _complete(server: Any, order: dict[str, Any]) -> dict[str, Any]:
    asked = {"prompt": order["prompt"], "n_predict": order["max_tokens"], "temperature": order["temperature"]}
    asked |= {"seed": order["seed"], "json_schema": {"x-guidance": HASTY, **order["schema"]}}
    try:
        made = server.handle_completions(asked)
        choice, usage = made["choices"][0], made["usage"]
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
        counted = {"input": usage["prompt_tokens"], "out": usage["completion_tokens"], "cached": cached}
        return {"text": choice["text"], "finish": choice["finish_reason"], "usage": counted}
    except Exception as error:  # noqa: BLE001 - as above
        return {"error": _reason(error)}


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip(": ")


def _say(out: TextIO, value: dict[str, Any]) -> None:
    out.write(json.dumps(value) + "\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
