"""kubectl's pod list → which pods are not well and why."""

from __future__ import annotations

from typing import Any

from oncall import recorded
from oncall.output import BAD_DATA, emit, plural, stop

MOST = 40


def run(source: str | None, service: str) -> None:
    """Check, and print one object."""
    path, data = recorded.json_object(source, "pods.json")
    if data is None:
        emit(recorded.nothing("pods", source, "pods.json"))
        return
    items = data.get("items")
    if not isinstance(items, list):
        stop(BAD_DATA, f"{path} holds no list of pods", "record it with kubectl get pods -A -o json")
    pods = [pod for pod in map(_pod, items) if pod and service in ("all", pod["service"])]
    unwell = sorted((pod for pod in pods if pod["reason"]), key=lambda pod: (-pod["restarts"], pod["name"]))
    emit({
        "summary": f"{len(unwell)} of {plural(len(pods), 'pod')} not well"[:40],
        "looked": True, "pods": len(pods), "unwell": len(unwell),
        "evidence": [{"id": f"E{n}", "source": f"{path}#{pod['namespace']}/{pod['name']}", "text": _sentence(pod)}
                     for n, pod in enumerate(unwell[:MOST], 1)],
        "problems": [{"evidence": f"E{n}", **pod} for n, pod in enumerate(unwell[:MOST], 1)],
    })


def _pod(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict):
        return None
    meta, status = _dict(item, "metadata"), _dict(item, "status")
    labels = _dict(meta, "labels")
    name = str(meta.get("name", ""))
    found: dict[str, Any] = {
        "name": name, "namespace": str(meta.get("namespace", "default")),
        "service": str(labels.get("app.kubernetes.io/name") or labels.get("app") or name.rsplit("-", 2)[0]),
        "reason": "", "state": "", "restarts": 0, "at": None, "limit": None, "message": ""}
    for container in _list(status, "containerStatuses") + _list(status, "initContainerStatuses"):
        _container(container, found)
    if not found["reason"]:
        found["reason"] = _phase(status)
    if found["reason"] == "OOMKilled":
        found["limit"] = _memory_limit(_dict(item, "spec"))
    return found


def _container(container: dict[str, Any], found: dict[str, Any]) -> None:
    """Why a container is not well: what it waits for, and how it ended last."""
    found["restarts"] += int(container.get("restartCount") or 0)
    waiting = _dict(_dict(container, "state"), "waiting")
    ended = _dict(_dict(container, "state"), "terminated") or _dict(_dict(container, "lastState"), "terminated")
    state = str(waiting.get("reason", ""))
    if state in ("ContainerCreating", "PodInitializing"):
        state = ""
    failed = bool(ended) and (ended.get("exitCode") or ended.get("reason") in ("OOMKilled", "Error"))
    if not state and container.get("ready") and not (failed and ended.get("reason") == "OOMKilled"):
        return
    if not state and not failed:
        return
    found["state"] = state
    found["reason"] = str(ended.get("reason")) if failed and ended.get("reason") else state
    found["at"] = ended.get("finishedAt")
    found["message"] = str(waiting.get("message") or ended.get("message") or "")[:160]


def _phase(status: dict[str, Any]) -> str:
    if status.get("phase") in ("Failed", "Pending", "Unknown"):
        conditions = _list(status, "conditions")
        blocked = next((c.get("reason") for c in conditions if c.get("status") == "False" and c.get("reason")), None)
        return str(status.get("reason") or blocked or status["phase"])
    return ""


def _memory_limit(spec: dict[str, Any]) -> str | None:
    limits = (_dict(_dict(container, "resources"), "limits").get("memory") for container in _list(spec, "containers"))
    return next((str(limit) for limit in limits if limit), None)


def _sentence(pod: dict[str, Any]) -> str:
    text = f"{pod['namespace']}/{pod['name']}: {pod['reason']}"
    if pod["state"] and pod["state"] != pod["reason"]:
        text += f", now {pod['state']}"
    if pod["restarts"]:
        text += f", {plural(pod['restarts'], 'restart')}"
    if pod["at"]:
        text += f", last at {pod['at']}"
    return text + (f", memory limit {pod['limit']}" if pod["limit"] else "")


def _dict(value: dict[str, Any], key: str) -> dict[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _list(value: dict[str, Any], key: str) -> list[dict[str, Any]]:
    inner = value.get(key)
    return [item for item in inner if isinstance(item, dict)] if isinstance(inner, list) else []
