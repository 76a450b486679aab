"""What a provider's error means, by its status, type and code: never by its words, which may change."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from harness.models import Failure
from harness.models.failures import failure

LONGEST_S = 7 * 86_400.0
MAX_MESSAGE = 2_000

_CODES = {
    "organization_on_hold": "account", "contract_spend_limit_reached": "account",
    "enforced_spend_limit_reached": "account",
}  # fmt: skip
_STATUS = {
    401: "auth", 403: "auth", 402: "account", 404: "unknown_model", 400: "bad_request", 422: "bad_request",
    413: "overflow", 429: "rate_limited", 529: "overloaded", 408: "unavailable", 409: "unavailable",
}  # fmt: skip
_TYPES = {
    "authentication_error": "auth", "permission_error": "auth", "billing_error": "account",
    "not_found_error": "unknown_model", "invalid_request_error": "bad_request", "request_too_large": "overflow",
    "rate_limit_error": "rate_limited", "overloaded_error": "overloaded", "timeout_error": "unavailable",
    "api_error": "unavailable",
}  # fmt: skip


def reason_of(status: int | None, kind: str | None = None, code: str | None = None) -> str:
    """The reason for an HTTP status, or, inside a stream that began well (None), for the type of its error."""
    if code in _CODES:
        return _CODES[code]
    if status is None:
        return _TYPES.get(kind or "", "unavailable")
    if status == 429 and kind == "billing_error":
        return "account"
    if status // 100 == 3:
        return "redirected"
    return _STATUS.get(status, "unavailable" if status >= 500 else "protocol" if status < 400 else "bad_request")


def status_failure(
    status: int | None, kind: str | None, code: str | None, message: str, headers: Mapping[str, str]
) -> Failure:
    """The Failure of an error answer. `status` is None for an error inside a stream, which had begun."""
    reason = reason_of(status, kind, code)
    plain = failure(reason, message[:MAX_MESSAGE])
    retry = plain.retry and headers.get("x-should-retry") != "false"
    return Failure(
        reason, plain.error_class, plain.exit_code, plain.message, retry, retry_after(headers), status is None, status,
        code, headers.get("request-id") or headers.get("x-request-id"),
    )  # fmt: skip


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that the other side asks for: `retry-after-ms`, else `retry-after` in seconds or as a date."""
    ms = _number(headers.get("retry-after-ms"))
    if ms is not None:
        return min(ms / 1000, LONGEST_S)
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is None and given:
        seconds = _until(given)
    return None if seconds is None else min(seconds, LONGEST_S)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _until(date: str) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
