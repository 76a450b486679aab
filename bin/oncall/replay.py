"""Sends one request through again: to a queue over HTTP, or into the ledger of a recorded incident."""

from __future__ import annotations

import json
import os

from oncall.output import MISSING, UNAVAILABLE, emit, stop

_REFUSALS = {401: 77, 403: 77, 409: 73, 429: UNAVAILABLE, 503: UNAVAILABLE}


def run(request_id: str, queue: str | None, source: str | None) -> None:
    """Replay once for each key, and print one object."""
    key = os.environ.get("HARNESS_OP_ID") or f"by-hand/{request_id}"
    body = {"request_id": request_id, "key": key}
    where, again = _post(queue, body) if queue else _append(source or "", body)
    emit({"summary": "was replayed before" if again else "replayed", "request_id": request_id, "key": key,
          "to": where, "again": again, "evidence": [{"id": "E1", "source": where, "text": f"replay of {request_id}"}]})


def _append(source: str, body: dict[str, str]) -> tuple[str, bool]:
    """One line in the ledger, unless the key has one; the lock makes look and write one step."""
    import fcntl

    if not os.path.isdir(source):
        stop(MISSING, f"no such folder: {source}", "name a recorded incident")
    path = os.path.join(source, "replays.jsonl")
    try:
        with open(path, "a+", encoding="utf-8") as ledger:
            fcntl.flock(ledger, fcntl.LOCK_EX)
            ledger.seek(0)
            if any(_key(line) == body["key"] for line in ledger):
                return path, True
            ledger.write(json.dumps(body, ensure_ascii=False) + "\n")
    except OSError as error:
        stop(MISSING, f"cannot write {path}: {(error.strerror or '').lower()}", "check its permissions")
    return path, False


def _key(line: str) -> str | None:
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value.get("key") if isinstance(value, dict) else None


def _post(url: str, body: dict[str, str]) -> tuple[str, bool]:
    import urllib.error
    import urllib.request

    if not url.startswith(("http://", "https://")):
        stop(2, f"--queue {url} is no http or https URL", "write http://HOST:PORT/PATH")
    headers = {"Content-Type": "application/json", "Idempotency-Key": body["key"]}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return url, answer.headers.get("Idempotent-Replayed") == "true"
    except urllib.error.HTTPError as error:
        code = _REFUSALS.get(error.code, 64 if error.code < 500 else 1)
        stop(code, f"{url} answered {error.code} {error.reason}", "see the queue's own log")
    except urllib.error.URLError as error:
        refused = isinstance(error.reason, ConnectionRefusedError)
        stop(UNAVAILABLE if refused else 1, f"{url}: {error.reason}", "check that the queue is up")
    except OSError as error:
        stop(1, f"{url}: {error}; it is not known whether the request was replayed", "ask the queue by its key")
