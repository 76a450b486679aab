"""An evaluation as text: one row a measure, one column an arm, so that it fits a narrow terminal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.evals.trial import Trial
from harness.events.spending import MONEY
from harness.view.text import columns, count, dollars, duration, one_line, plural, wrap
from harness.view.text import width as width_of

Row = Mapping[str, Any]
NONE = "-"


def table_lines(tables: Mapping[str, Row], width: int | None) -> list[str]:
    """The measures of all arms as aligned lines, arm below arm where there is no room for them side by side."""
    lines = columns(measures(tables), None, ("", *tables))
    if width is None or len(tables) == 1 or max(map(width_of, lines)) <= width:
        return columns(measures(tables), width, ("", *tables))
    return [line for arm in tables for line in (*table_lines({arm: tables[arm]}, width), "")][:-1]


def measures(tables: Mapping[str, Row]) -> list[list[str]]:
    """Each measure that some arm has, as its name and a cell an arm."""
    arms = list(tables.values())
    rows = [[name, *(shown(row) for row in arms)] for name, shown in MEASURES]
    kinds = sorted({kind for row in arms for kind in row["refusals"]})
    rows += [[f"  {kind}", *(str(row["refusals"].get(kind, 0)) for row in arms)] for kind in kinds]
    return [row for row in rows if any(cell != NONE for cell in row[1:])]


def _rate(row: Row) -> str:
    return f"{row['passed']}/{row['trials']} {_percent(row['rate'])}".rstrip()


def interval(row: Row) -> str:
    """Where the rate surely is."""
    return " to ".join(map(_percent, row["interval"])) if row["interval"] else NONE


def _percent(share: float | None) -> str:
    return NONE if share is None else f"{100 * share:.0f} %"


def _spread(name: str, shown: Callable[[float], str]) -> Callable[[Row], str]:
    def cell(row: Row) -> str:
        return ", p95 ".join(map(shown, row[name])) if row[name] else NONE

    return cell


def _number(value: float) -> str:
    return count(round(value)) if value >= 1000 else f"{value:g}" if value == int(value) else f"{value:.1f}"


def usd(value: float) -> str:
    """An amount that is known."""
    return dollars(round(value * MONEY))


def _of(name: str) -> Callable[[Row], str]:
    return lambda row: _percent(row[name])


MEASURES: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("passed", _rate),
    ("  95 % interval", interval),
    ("all trials pass", lambda row: NONE if row["all_k"] is None else f"{_percent(row['all_k'])} of {row['k']}"),
    ("turns", _spread("turns", _number)),
    ("calls", _spread("calls", _number)),
    ("tokens", _spread("tokens", _number)),
    ("cost", _spread("usd", usd)),
    ("cost a pass", lambda row: NONE if row["usd_per_pass"] is None else usd(row["usd_per_pass"])),
    ("unpriced requests", lambda row: str(row["unpriced"] or NONE)),
    ("active time", _spread("active_s", duration)),
    ("waiting time", _spread("waiting_s", duration)),
    ("first action after", _spread("first_action_s", duration)),
    ("calls of valid form", _of("valid_calls")),
    ("tool errors", _of("tool_errors")),
    ("repairs", lambda row: str(row["repairs"])),
    ("passed after trouble", _of("recovered")),
    ("escalations", lambda row: str(row["escalations"])),
    ("unsupported statements", _of("unsupported")),
    ("refusals", lambda row: str(sum(row["refusals"].values()))),
)


def trial_line(trial: Trial, made: int = 0, wanted: int = 0) -> str:
    """One trial that has ended, with the first of what is wrong with it, and how many of all are made."""
    first, *more = _wrong(trial) or [""]
    count_of = f"{made}/{wanted}  " if wanted else ""
    return f"{count_of}{_head(trial)}  {first}{f' (and {len(more)} more)' if more else ''}".rstrip()


def _head(trial: Trial) -> str:
    state = "void" if trial.void else "passed" if trial.passed else "failed"
    took = duration(trial.figures.seconds)
    return f"{state}  {trial.arm}  {trial.case} #{trial.number}  {took}"


def _wrong(trial: Trial) -> list[str]:
    wrong = [trial.void] if trial.void else [f"{c.name}: {c.why}" for c in trial.checks if not c.ok]
    return [one_line(reason) for reason in wrong]


def failures(trials: Sequence[Trial], show: str, width: int | None) -> list[str]:
    """Each trial that did not pass, why, a reason a line, and how to look at it."""
    lines = []
    for trial in trials:
        if not trial.passed:
            lines += [_head(trial), *(line for why in _wrong(trial) for line in wrap(why, width or 10_000, "  "))]
            lines.append(f"  {show}{trial.run}")
    return lines


def comparison_lines(found: Mapping[str, Any], before: str) -> list[str]:
    """What changed against another evaluation, and whether that is more than noise."""
    better, worse = found["better"], found["worse"]
    verdict = "more than noise" if found["is_real"] else "within noise"
    lines = [f"against {before}: {plural(found['cases'], 'case')} in both"]
    lines += [f"  pass only now: {', '.join(better) or 'none'}; only then: {', '.join(worse) or 'none'}"]
    lines += [f"  passing: {verdict} (McNemar, exact, p = {found['p']:.3g})"]
    for name, cost in found["costs"].items():
        if cost["mean"] is not None:
            lines.append(f"  {name}: {_difference(cost)}")
    if found["unpaired"]:
        lines.append(f"  not compared, for they are not the same in both: {', '.join(found['unpaired'])}")
    return [one_line(line) if line[0] != " " else f"  {one_line(line.strip())}" for line in lines]


def _difference(cost: Mapping[str, Any]) -> str:
    if cost["interval"] is None:
        return f"{cost['mean']:+.4g} a case; too few cases to tell noise by"
    low, high = cost["interval"]
    verdict = "more than noise" if cost["is_real"] else "within noise"
    return f"{cost['mean']:+.4g} a case ({low:+.4g} to {high:+.4g}): {verdict}"


def report(found: Mapping[str, Any], trials: Sequence[Trial], runs: str, width: int | None) -> list[str]:
    """The whole of an evaluation: what was tried, the table, what failed, what changed, and what it comes to."""
    what = f"{found['skill']}  {plural(len(found['cases']), 'case')} × {found['k']}  {found['model']}"
    lines = [f"{what}  suite {found['suite'][:12]}{' (frozen)' if found['frozen'] else ''}", ""]
    lines += table_lines(found["tables"], width)
    if bad := failures(trials, f"harness show {runs}/", width):
        lines += ["", *bad]
    if "compared" in found:
        lines += ["", *comparison_lines(found["compared"], found["compared"]["eval"])]
    return [*lines, "", verdict(found)]


def verdict(found: Mapping[str, Any]) -> str:
    """The last line: whether the bar was met, and what is missing."""
    arm = next(iter(found["tables"]))
    row, void = found["tables"][arm], sum(bool(trial["void"]) for trial in found["trials"])
    missing = found["wanted"] - len(found["trials"])
    left = f"; {plural(missing, 'trial')} not made" if missing else ""
    left += f"; {plural(void, 'trial')} count for nothing" if void else ""
    met = row["rate"] is not None and row["rate"] >= found["bar"]
    word = "meets the bar" if met and not left else "is under the bar" if not met else "cannot be judged yet"
    return f"{arm} {word} of {100 * found['bar']:g} %{left}  {found['eval']}"
