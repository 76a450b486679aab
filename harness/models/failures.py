"""Reasons a request can fail for, and what each means for the run. The one table: no adapter invents a reason."""

from __future__ import annotations

from harness.models import Failure

REASONS: dict[str, tuple[str, int, bool]] = {  # reason → error class, exit code of a run that ends by it, retried
    "auth": ("NEEDS_AUTH", 4, False),
    "account": ("NEEDS_AUTH", 4, False),
    "unknown_model": ("MISCONFIGURED", 2, False),
    "redirected": ("MISCONFIGURED", 2, False),
    "prompt_cut": ("MISCONFIGURED", 2, False),
    "bad_request": ("INVALID_INPUT", 3, False),
    "overflow": ("OVER_BUDGET", 6, False),
    "rate_limited": ("RETRYABLE", 75, True),
    "overloaded": ("RETRYABLE", 75, True),
    "unavailable": ("RETRYABLE", 75, True),
    "cut": ("RETRYABLE", 75, True),
    "protocol": ("RETRYABLE", 75, True),
    "timeout": ("TIMEOUT", 75, True),
    "cancelled": ("TIMEOUT", 124, False),
    "script_mismatch": ("FAILED", 1, False),
    "pipeline": ("FAILED", 1, False),
    "stuck": ("FAILED", 8, False),
    "local_aborted": ("RETRYABLE", 75, False),
    "turn": ("RETRYABLE", 75, False),
}
UNASKED = ("cancelled", "script_mismatch", "turn", "pipeline")
"""Those that no provider gives: no script names them, and whoever replays meets them anew, or not."""


def failure(reason: str, message: str, retry_after: float | None = None) -> Failure:
    """A Failure of a known reason; `retry_after` is in seconds."""
    error_class, exit_code, retry = REASONS[reason]
    return Failure(reason, error_class, exit_code, message, retry, retry_after)
