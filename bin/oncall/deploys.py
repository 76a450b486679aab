"""git's log, live or recorded → deploys."""

from __future__ import annotations

import argparse
import re
from typing import Any

from oncall import clock, recorded
from oncall.output import BAD_DATA, MISSING, clip, emit, plural, stop

FORMAT = "%cI%x09%h%x09%s"
_SERVICE = re.compile(r"([a-z0-9][\w./-]*)(?:\([^)]*\))?!?: ")


def run(options: argparse.Namespace) -> None:
    """List, and print one object."""
    place, text = recorded.text(options.source, "deploys.txt")
    if text is None and options.repo:
        place, text = options.repo, _git_log(options.repo)
    if text is None:
        emit(recorded.nothing("deploys", options.source, "deploys.txt"))
        return
    found = [_deploy(place, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    found = [one for one in found if options.service in ("all", one["service"])]
    found.sort(key=lambda one: (-one["moment"], one["line"]))
    shown = found[:max(1, min(options.limit, 100))]
    emit({
        "summary": f"{plural(len(found), 'deploy')}",
        "looked": True, "deploys_found": len(found),
        "evidence": [{"id": f"E{n}", "source": f"{place}#{one['line']}" if place != options.repo else one["version"],
                      "text": f"{clock.show(one['moment'], True)} {one['version']} {one['subject']}"}
                     for n, one in enumerate(shown, 1)],
        "deploys": [{"evidence": f"E{n}", "at": clock.show(one["moment"], True), "version": one["version"],
                     "service": one["service"], "change": one["change"]} for n, one in enumerate(shown, 1)],
    })


def _git_log(repo: str) -> str:
    import subprocess

    command = ["git", "-C", repo, "log", "-n", "500", f"--format={FORMAT}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        stop(MISSING, f"git does not answer: {error}", "check that git is installed")
    if done.returncode:
        stop(MISSING, clip(f"{repo}: {done.stderr}", 200), "name a git repository with commits")
    return done.stdout


def _deploy(place: str, number: int, line: str) -> dict[str, Any]:
    when, _, rest = line.partition("\t")
    version, tab, subject = rest.partition("\t")
    moment = clock.parse(when)
    if not tab or moment is None:
        problem = f"{place}:{number}: not TIME<tab>VERSION<tab>SUBJECT"
        stop(BAD_DATA, problem, f"record it with git log --format={FORMAT}")
    service = _SERVICE.match(subject)
    change = subject[service.end():] if service else subject
    return {"moment": moment, "line": f"L{number}", "version": version, "subject": clip(subject, 160),
            "service": service[1] if service else "", "change": clip(change, 160)}
