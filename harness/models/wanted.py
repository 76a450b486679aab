"""The form that a reply must have, as a provider takes it: only what it can hold a model to. Pure.

Every reply is judged by the whole form afterwards, so what is left out here is still asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TAKEN = ("type", "enum", "const", "description", "title")


def narrowed(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """A JSON schema of an object in which nothing else may stand; None for one that cannot be said so."""
    return _part(schema) if schema.get("type") == "object" else None


def _part(schema: Any) -> dict[str, Any] | None:
    if not isinstance(schema, Mapping) or isinstance(schema.get("type"), list):
        return None
    found: dict[str, Any] = {key: schema[key] for key in _TAKEN if key in schema}
    if "anyOf" in schema:
        found["anyOf"] = [_part(option) for option in schema["anyOf"]]
    if "items" in schema:
        found["items"] = _part(schema["items"])
    if schema.get("type") == "object":
        named = {name: _part(item) for name, item in (schema.get("properties") or {}).items()}
        if not named or isinstance(schema.get("additionalProperties"), Mapping):
            return None
        found |= {"properties": named, "required": list(schema.get("required", ())), "additionalProperties": False}
        if None in named.values():
            return None
    return None if None in found.get("anyOf", ()) or found.get("items", ...) is None else found
