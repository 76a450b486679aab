"""Writes the report: collect evidence, compose, put the file in place, print the answer."""

from __future__ import annotations

import argparse
import os

from oncall import evidence, report
from oncall.findings import Facts
from oncall.output import MISSING, stop, write

CONFLICT = 73


def run(options: argparse.Namespace, folder: str) -> None:
    """Write the report and print the short answer."""
    results = evidence.of_files(options.evidence) if options.evidence else evidence.of_run(folder)
    if not results:
        stop(MISSING, "no tool has found anything yet", "run search-logs or check-pods first")
    facts = Facts(results, options.note)
    why = " ".join((options.cause or report.cause(facts)).split())
    then = " ".join((options.next or report.next_command(facts)).split())
    _save(options.out, report.document(facts, why, then))
    write(report.answer(facts, why, then, options.out))


def _save(path: str, text: str) -> None:
    """Put the report in place at once, so that a reader never sees half of it."""
    aside = f"{path}.{os.getpid()}.tmp"
    try:
        with open(aside, "w", encoding="utf-8", errors="replace") as stream:
            stream.write(text)
        os.replace(aside, path)
    except OSError as error:
        stop(CONFLICT, f"cannot write {path}: {(error.strerror or '').lower()}", "choose another place with --out")
