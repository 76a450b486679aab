"""The names that logs, pods and deploys use for services."""

from __future__ import annotations

import os
import re

from oncall import recorded, records
from oncall.output import emit, plural

MOST = 500
_ENDS = re.compile(r"(?:\.(?:log|txt|out|err|jsonl|gz|\d+))+$")
_SUBJECT = re.compile(r"(?m)^[^\t]*\t[^\t]*\t([a-z0-9][\w./-]*)(?:\([^)]*\))?!?: ")


def run(logs: str | None, source: str | None) -> None:
    """List, and print one object."""
    seen: dict[str, set[str]] = {}
    inner = os.path.join(source, "logs") if source else ""
    for root in (logs, inner if os.path.isdir(inner) else None):
        for path in records.files(root)[0] if root else ():
            seen.setdefault(_ENDS.sub("", os.path.basename(path)), set()).add("logs")
    _, pods = recorded.json_object(source, "pods.json")
    items = (pods or {}).get("items")
    for item in items if isinstance(items, list) else ():
        labels = ((item.get("metadata") or {}).get("labels") or {}) if isinstance(item, dict) else {}
        name = labels.get("app.kubernetes.io/name") or labels.get("app")
        if name:
            seen.setdefault(str(name), set()).add("pods")
    _, deploys = recorded.text(source, "deploys.txt")
    for name in _SUBJECT.findall(deploys or ""):
        seen.setdefault(name, set()).add("deploys")
    emit({"summary": plural(len(seen), "service"),
          "services": [{"name": name, "seen": sorted(seen[name])} for name in sorted(seen)[:MOST]]})
