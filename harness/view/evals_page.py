"""An evaluation as one HTML file: text alone, without a script, readable in light and dark. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from harness.evals.trial import Trial
from harness.view.evals import comparison_lines, measures, verdict
from harness.view.text import duration, one_line, plural

WHY = "checks that failed"
STYLE = """
:root{color-scheme:light dark;--line:#8884;--dim:#777;--good:#1a7f37;--bad:#cf222e;--wait:#9a6700}
@media(prefers-color-scheme:dark){:root{--dim:#999;--good:#4ac26b;--bad:#ff7b72;--wait:#d4a72c}}
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .5rem}.dim{color:var(--dim)}
table{border-collapse:collapse;display:block;overflow-x:auto}
th,td{text-align:left;padding:.25rem .8rem .25rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td{font-variant-numeric:tabular-nums}code{font:13px ui-monospace,monospace;white-space:nowrap}td.why{min-width:16rem}
.passed{color:var(--good)}.failed{color:var(--bad)}.void{color:var(--wait)}
"""


def page(found: Mapping[str, Any], trials: Sequence[Trial]) -> str:
    """The whole page; every word of a run, a case or a model is escaped text."""
    digest = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'"
    title = f"{found['skill']}: {verdict(found)}"
    return "\n".join([
        '<!doctype html>', '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{_text(found['skill'])}</h1><p>{_text(verdict(found))}</p>", f'<p class="dim">{_text(_about(found))}</p>',
        "<h2>Figures</h2>", _table(("", *found["tables"]), map(_cells, measures(found["tables"]))),
        *_compared(found), "<h2>Trials</h2>",
        _table(("state", "arm", "case", "time", "calls", WHY, "run"), map(_trial, trials)),
        "</body></html>", "",
    ])  # fmt: skip


def _about(found: Mapping[str, Any]) -> str:
    cases = f"{plural(len(found['cases']), 'case')} × {found['k']} trials"
    return f"{cases} · {found['model']} · suite {found['suite'][:12]}{' (frozen)' if found['frozen'] else ''}"


def _compared(found: Mapping[str, Any]) -> list[str]:
    if "compared" not in found:
        return []
    lines = comparison_lines(found["compared"], found["compared"]["eval"])
    return ["<h2>Against another evaluation</h2>", *(f"<p>{_text(line)}</p>" for line in lines)]


def _trial(trial: Trial) -> list[str]:
    state = "void" if trial.void else "passed" if trial.passed else "failed"
    wrong = trial.void or "; ".join(f"{check.name}: {check.why}" for check in trial.checks if not check.ok)
    words = (trial.arm, f"{trial.case} #{trial.number}", duration(trial.figures.seconds), str(len(trial.figures.calls)))
    return [f'<span class="{state}">{state}</span>', *map(_text, (*words, wrong)), f"<code>{_text(trial.run)}</code>"]


def _cells(row: Sequence[str]) -> list[str]:
    return [_text(cell) for cell in row]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells of `rows` are HTML already."""
    head = "".join(f"<th>{_text(word)}</th>" for word in header)
    wide = header.index(WHY) if WHY in header else None
    kinds = [' class="why"' if n == wide else "" for n in range(len(header))]
    lines = ("".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=False)) for row in rows)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _text(text: str) -> str:
    """As it is read, on one line, with nothing that moves or hides."""
    return escape(one_line(text))
