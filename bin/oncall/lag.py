"""An answer of the Prometheus HTTP API → which series grow, since when, by how much."""

from __future__ import annotations

import math
from typing import Any

from oncall import clock, recorded
from oncall.output import BAD_DATA, emit, stop

MOST = 30
_GROUP = ("consumergroup", "consumer_group", "group", "job", "service")


def run(source: str | None, service: str) -> None:
    """Check, and print one object."""
    path, data = recorded.json_object(source, "lag.json")
    if data is None:
        emit(recorded.nothing("lag", source, "lag.json"))
        return
    series = [one for one in map(_series, _results(path, data)) if one and _names(one, service)]
    series.sort(key=lambda one: (one["trend"] != "growing", -one["last"], one["group"], one["topic"]))
    growing = sum(1 for one in series if one["trend"] == "growing")
    shown = series[:MOST]
    emit({
        "summary": f"{growing} of {len(series)} series growing"[:40],
        "looked": True, "series": len(series), "growing": growing,
        "evidence": [{"id": f"E{n}", "source": f"{path}#{one['group']}/{one['topic']}", "text": _sentence(one)}
                     for n, one in enumerate(shown, 1)],
        "lag": [{"evidence": f"E{n}", **one} for n, one in enumerate(shown, 1)],
    })


def _results(path: str, data: dict[str, object]) -> list[Any]:
    if data.get("status") == "error":
        stop(BAD_DATA, f"{path}: the API answered {data.get('errorType')}: {data.get('error')}", "correct the query")
    inner = data.get("data")
    results = inner.get("result") if isinstance(inner, dict) else None
    if not isinstance(results, list):
        stop(BAD_DATA, f"{path} is no answer of the Prometheus HTTP API", "record /api/v1/query_range")
    return results


def _series(item: Any) -> dict[str, Any] | None:
    if not isinstance(item, dict):
        return None
    metric = item.get("metric") if isinstance(item.get("metric"), dict) else {}
    points = item.get("values") or [item.get("value")]
    numbers = [(float(p[0]), float(p[1])) for p in points if isinstance(p, list) and len(p) == 2 and _finite(p)]
    if not numbers:
        return None
    values = [value for _, value in numbers]
    base = _median(values[: max(1, len(values) // 4)])
    trend = _trend(values, base)
    return {
        "group": str(next((metric[key] for key in _GROUP if metric.get(key)), metric.get("__name__", "series"))),
        "topic": str(metric.get("topic") or metric.get("queue") or "-"), "trend": trend, "first": values[0],
        "last": values[-1], "most": max(values), "to": clock.show(numbers[-1][0], True),
        "onset": clock.show(_onset(numbers, base), True) if trend != "steady" else None}


def _finite(point: list[Any]) -> bool:
    try:
        return all(math.isfinite(float(number)) for number in point)
    except (TypeError, ValueError):
        return False


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _trend(values: list[float], base: float) -> str:
    """growing: ends far over where it started; recovered: was far over it and came back; steady otherwise."""
    far = base * 3 + 100
    if values[-1] > far and values[-1] >= max(values) * 0.5:
        return "growing"
    return "recovered" if max(values) > far else "steady"


def _onset(points: list[tuple[float, float]], base: float) -> float:
    """When it left its usual level: the first of the last unbroken stretch over it that leads to the peak."""
    peak = max(range(len(points)), key=lambda index: points[index][1])
    usual = base * 1.5 + 20
    start = peak
    while start > 0 and points[start - 1][1] > usual:
        start -= 1
    return points[start][0]


def _names(one: dict[str, Any], service: str) -> bool:
    return service == "all" or service in (one["group"], one["topic"])


def _sentence(one: dict[str, Any]) -> str:
    text = f"{one['group']} on {one['topic']}: lag {one['first']:,.0f} → {one['last']:,.0f}, {one['trend']}"
    return text + (f" since {one['onset']}" if one["onset"] else "")
