"""Results of tools → the facts a report reasons about: log groups, pods, lag, deploys, runbooks, each numbered."""

from __future__ import annotations

import os
from typing import Any

from oncall import clock
from oncall.evidence import Result

Fact = dict[str, Any]
FAILING = ("failure", "fatal")
LISTS = {"groups": "groups", "problems": "pods", "lag": "lag", "deploys": "deploys", "runbooks": "runbooks",
         "new": "new"}


class Facts:
    """All facts. `logs`: the answers about logs as wholes; `empty`: what was asked for and not recorded.

    `notes` are what its reader must know beside; `kind` is the class of the failure and `good` the batch that it was
    compared with, where somebody looked.
    """

    def __init__(self, results: list[Result], notes: list[str] | None = None) -> None:
        self.results, self.notes = results, notes or []
        self.groups: list[Fact] = []
        self.pods: list[Fact] = []
        self.lag: list[Fact] = []
        self.deploys: list[Fact] = []
        self.runbooks: list[Fact] = []
        self.new: list[Fact] = []
        self.kind = self.good = ""
        self.logs: list[Fact] = []
        self.looked: list[str] = []
        self.empty: list[str] = []
        for result in results:
            self._take(result)
        self._sort()

    def _take(self, result: Result) -> None:
        texts = {item.get("id", f"E{n}"): item for n, item in enumerate(result.items, 1)}
        for key, name in LISTS.items():
            for fact in result.data.get(key) or []:
                item = texts.get(fact.get("evidence"), {}) if isinstance(fact, dict) else None
                if item is not None:
                    known = {"id": result.name(fact.get("evidence", "")), "text": item.get("text", ""),
                             "source": item.get("source", "")}
                    getattr(self, name).append(fact | known)
        self.kind = str(result.data.get("class") or self.kind)
        self.good = str(result.data.get("good") or self.good)
        if "groups" in result.data:
            self.logs.append(result.data)
        (self.empty if result.data.get("looked") is False else self.looked).append(result.tool)

    def _sort(self) -> None:
        seen: set[tuple[str, str]] = set()
        unique = []
        for group in sorted(self.groups, key=_rank):
            if (group["source"], group["text"]) not in seen:
                seen.add((group["source"], group["text"]))
                unique.append(group)
        self.groups = unique

    @property
    def failing(self) -> list[Fact]:
        return [group for group in self.groups if group.get("grade") in FAILING]

    @property
    def lines(self) -> int:
        return max((log.get("lines", 0) for log in self.logs), default=0)

    @property
    def files(self) -> list[str]:
        return sorted({path for log in self.logs for path in log.get("files", ())})

    def path(self, full: str) -> str:
        """A path as short as it stays clear: the name alone when no other file has it."""
        name = os.path.basename(full)
        return name if sum(os.path.basename(file) == name for file in self.files) < 2 else full

    def reference(self, source: str) -> str:
        path, mark, lines = source.partition("#")
        return self.path(path) + mark + lines


def _rank(group: Fact) -> tuple[bool, float, str, str]:
    failing = group.get("grade") in FAILING
    return not failing, -group.get("weight", 1) * group.get("count", 0), group["source"], group["text"]


def dominating(facts: Facts) -> list[Fact]:
    """The failing groups that outweigh the others, at most four: each at least a tenth as heavy as the first."""
    first = facts.failing[:1]
    heavy = [group for group in facts.failing[1:] if _score(group) * 10 >= _score(first[0])]
    return first + heavy[:3]


def related(facts: Facts, main: list[Fact]) -> list[Fact]:
    """Lesser groups that occur together with the dominating ones, at most four."""
    taken = {group["id"] for group in main}
    spans = [(clock.parse(group.get("start") or ""), clock.parse(group.get("end") or "")) for group in main]
    known = [(start, end) for start, end in spans if start is not None and end is not None]
    if not known:
        return []
    low, high = min(start for start, _ in known) - 60, max(end for _, end in known) + 60
    others = [group for group in facts.groups if group["id"] not in taken and group.get("grade") != "nothing"
              and _inside(group, low, high) and group.get("count", 0) >= 2]
    return sorted(others, key=lambda group: (-group["count"], group["source"]))[:4]


def _inside(group: Fact, low: float, high: float) -> bool:
    start, end = clock.parse(group.get("start") or ""), clock.parse(group.get("end") or "")
    return start is not None and end is not None and low <= start and end <= high


def _score(group: Fact) -> float:
    return float(group.get("weight", 1) * group.get("count", 0))


def endpoint(groups: list[Fact]) -> str:
    """The address that the most lines about connections name, if at least three do."""
    counts: dict[str, int] = {}
    for group in groups:
        if group.get("endpoint"):
            counts[group["endpoint"]] = counts.get(group["endpoint"], 0) + group.get("count", 0)
    name = min(counts, key=lambda name: (-counts[name], name), default="")
    return name if counts.get(name, 0) >= 3 else ""


def onset(facts: Facts) -> float | None:
    """When the trouble began: the earliest beginning that logs, lag or pods show. Only times with a date count, and of
    those only the last day: an older log tells of another trouble."""
    times = [clock.parse(group.get("onset") or "") for group in dominating(facts)]
    times += [clock.parse(one.get("onset") or "") for one in facts.lag if one.get("trend") == "growing"]
    times = times or [clock.parse(pod.get("at") or "") for pod in facts.pods]
    known = [time for time in times if time is not None and clock.dated(time)]
    return min((time for time in known if time > max(known) - 86400), default=None)


def suspect(facts: Facts) -> Fact | None:
    """The deploy nearest before the onset, at most six hours before; one of the service in trouble goes first."""
    began = onset(facts)
    if began is None:
        return None
    services = {pod.get("service") for pod in facts.pods} | {one.get("group") for one in facts.lag
                                                            if one.get("trend") == "growing"}
    services |= {os.path.basename(group["source"]).split(".")[0] for group in dominating(facts)}
    near = []
    for deploy in facts.deploys:
        at = clock.parse(deploy.get("at") or "")
        if at is not None and began - 6 * 3600 <= at <= began + 60:
            near.append((deploy.get("service") not in services, -at, deploy["id"], deploy))
    return min(near, key=lambda one: one[:3])[3] if near else None


def runbook(facts: Facts, words: set[str], least: int) -> Fact | None:
    """The runbook section with a command that shares the most words with the trouble, title first."""
    def score(section: Fact) -> int:
        title = words & terms(section.get("title", ""))
        return 3 * len(title) + len(words & terms(section["text"])) if len(title) >= least else 0

    fitting = [section for section in facts.runbooks if section.get("command") and score(section)]
    return min(fitting, key=lambda section: (-score(section), section["source"]), default=None)


def terms(text: str) -> set[str]:
    """Its words of four letters and more, lower case."""
    return {word for word in "".join(c if c.isalnum() else " " for c in text.lower()).split() if len(word) > 3}
