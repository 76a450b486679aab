"""`harness show --verify`: a line for the run's journal and for that of each run it began."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from harness.cli.options import Globals
from harness.cli.output import print_json
from harness.cli.place import logs
from harness.runs.list import is_owned
from harness.runs.verify import Verdict, verify
from harness.view.text import escape


def print_verdicts(said: Globals, folder: Path) -> int:
    """The verdicts on stdout; the code is the gravest of theirs."""
    found = list(verify(folder, logs(), is_owned(folder)))
    if said.json:
        print_json({"run": folder.name, "verified": not any(one.code for one in found),
                    "journals": [asdict(one) for one in found]})  # fmt: skip
    else:
        for one in found:
            print(escape(_line(one)))
    return max(one.code for one in found)


def _line(one: Verdict) -> str:
    if one.problem:
        return f"{one.run} not verified: {one.problem}{f' ({one.note})' if one.note else ''}"
    more = f"; {one.note}" if one.note else ""
    return f"{one.run} verified: {one.events} events, {one.size} bytes, SHA-256 {one.digest}{more}"
