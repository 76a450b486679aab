"""What an HTTP status or an error object of a chat-completions server means: one reason of the table of failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.models import Failure
from harness.models.failures import failure
from harness.models.spoken import parsed
from harness.models.status import MAX_MESSAGE, retry_after

REASONS = {401: "auth", 402: "account", 403: "auth", 404: "unknown_model", 413: "overflow", 429: "rate_limited",
           408: "unavailable", 409: "unavailable", 529: "overloaded"}  # fmt: skip
CODES = {
    "insufficient_quota": "account", "billing_not_active": "account", "invalid_api_key": "auth",
    "model_not_found": "unknown_model", "context_length_exceeded": "overflow",
    "exceed_context_size_error": "overflow", "rate_limit_exceeded": "rate_limited", "overloaded_error": "overloaded",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that a server refused. `body` is what it said, for whoever looks for the field it means."""

    failure: Failure
    status: int = 0
    code: str = ""
    body: str = ""


def refused(status: int, headers: Mapping[str, str], body: bytes) -> Refused:
    """By status and code, never by the words."""
    text = body.decode("utf-8", "replace")
    error = error_of(parsed(text))
    code = code_of(error)
    message = str(error.get("message") or "").strip() or _first_words(text)
    where = f"HTTP {status}" + (f" to {headers['location']}" if status // 100 == 3 and "location" in headers else "")
    said = f"{where}: {message[:MAX_MESSAGE]}" if message else where
    found = failure(_reason(status, code), said, retry_after(headers))
    found = replace(found, status=status, code=code or None, request_id=headers.get("x-request-id"))
    if headers.get("x-should-retry", "").lower() == "false":
        found = replace(found, retry=False)
    return Refused(found, status, code, text)


def broken_off(error: Mapping[str, Any]) -> Failure:
    """An error object in the middle of a stream, or in place of a reply."""
    code = code_of(error)
    status = error.get("code") if isinstance(error.get("code"), int) else error.get("status")
    reason = CODES.get(code) or (_reason(status, code) if isinstance(status, int) and status >= 300 else "unavailable")
    found = failure(reason, str(error.get("message") or error or "the server broke off")[:MAX_MESSAGE])
    return replace(found, status=status if isinstance(status, int) else None, code=code or None)


def _reason(status: int, code: str) -> str:
    if code in CODES and status in (400, 403, 404, 422, 429):
        return CODES[code]
    if status in REASONS:
        return REASONS[status]
    if status // 100 == 3:
        return "redirected"
    return "unavailable" if status >= 500 else "bad_request"


def error_of(body: Any) -> Mapping[str, Any]:
    """The error object of a body, in the forms that servers give it; empty where there is none."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    if not isinstance(body, Mapping):
        return {}
    found = body.get("error", body if body.get("object") == "error" else None)
    if isinstance(found, Mapping):
        return found
    if found is None and "choices" not in body:
        found = body.get("detail") or body.get("message")
    return {"message": found} if isinstance(found, str) else {"message": str(found)} if found else {}


def code_of(error: Mapping[str, Any]) -> str:
    """The code, or the type where the code says nothing."""
    found = [error.get(key) for key in ("code", "type")]
    known = [value for value in found if isinstance(value, str)]
    return next((value for value in known if value in CODES), known[0] if known else "")


def _first_words(text: str) -> str:
    """Of a body that holds no error object: its first line, unless it is a page for a browser."""
    line = text.strip().split("\n", 1)[0].strip()
    return "" if line.startswith("<") else line[:200]
