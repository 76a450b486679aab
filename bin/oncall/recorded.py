"""A recorded incident: a folder with what the live commands printed (pods.json, lag.json, deploys.txt, …)."""

from __future__ import annotations

import os

from oncall.output import BAD_DATA, MISSING, stop

MOST_BYTES = 64 << 20


def text(source: str | None, name: str) -> tuple[str, str | None]:
    """The path of one recorded file, and its text: None without a source or when it was not recorded."""
    if not source:
        return "", None
    if not os.path.isdir(source):
        stop(MISSING, f"no such folder: {source}", "name a folder that holds pods.json, lag.json, logs/ and the like")
    path = os.path.join(source, name)
    if not os.path.isfile(path):
        return path, None
    try:
        with open(path, encoding="utf-8") as stream:
            return path, stream.read(MOST_BYTES)
    except UnicodeDecodeError:
        stop(BAD_DATA, f"{path} is not UTF-8 text", "record it again")
    except OSError as error:
        stop(MISSING, f"cannot read {path}: {(error.strerror or '').lower()}", "check its permissions")


def json_object(source: str | None, name: str) -> tuple[str, dict[str, object] | None]:
    """The same for a file that holds one JSON object."""
    path, content = text(source, name)
    if content is None:
        return path, None
    import json

    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        stop(BAD_DATA, f"{path} is not JSON: {error}", "record it again")
    if not isinstance(value, dict):
        stop(BAD_DATA, f"{path} holds no JSON object", "record it again")
    return path, value


def nothing(what: str, source: str | None, name: str) -> dict[str, object]:
    """The answer when there was nothing to look at: a success that says so."""
    why = f"{source} holds no {name}" if source else "no --source given"
    return {"summary": f"no {what} recorded", "looked": False, "why": why, "evidence": []}
