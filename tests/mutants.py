"""Faults put into a copy of the package, one at a time: `python tests/mutants.py [NAME …]`.

A test is named for each that must fail with it. Exit 1 when one of them passes, or when the copy without a fault does
not pass. What makes no difference that a run could show is in `EQUIVALENT`, with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("harness", "tests", "skills", "bin", "wiki", "pyproject.toml", "Makefile", "AGENTS.md", "README.md")


@dataclass(frozen=True, slots=True)
class Mutant:
    """`edits` are (file below harness/, text that is there once, what stands there instead)."""

    name: str
    killer: str
    edits: tuple[tuple[str, str, str], ...]


def one(name: str, killer: str, file: str, old: str, new: str) -> Mutant:
    return Mutant(name, f"tests/{killer}", ((file, old, new),))


SETTLE = "test_loop_settle.py::test_"
CASE_7 = "test_runs_disk.py::test_case_7_a_failed_sync_before_an_effect_starts_nothing"
MUTANTS = (
    one(
        "no intent",
        CASE_7,
        "loop/act.py",
        '        run.append("tool.start", data, op.n)\n\n    def _prepare',
        '        op.attempt, op.attempt_open, op.level = attempt, True, str(data["level"])\n\n    def _prepare',
    ),
    Mutant(
        "intent after spawn",
        f"tests/{CASE_7}",
        (
            (
                "loop/act.py",
                '        run.append("tool.start", data, op.n)\n\n    def _prepare',
                (
                    '        op.attempt, op.level = attempt, str(data["level"])\n'
                    "        self.late = [*getattr(self, 'late', []), (data, op.n)]\n\n    def _prepare"
                ),
            ),
            (
                "loop/act.py",
                "            self._launch(op, extra or Extra())\n",
                (
                    "            self._launch(op, extra or Extra())\n"
                    '        for data, n in self.__dict__.pop("late", []):\n'
                    '            self.run.append("tool.start", data, n)\n'
                ),
            ),
        ),
    ),
    one(
        "S1 gone",
        CASE_7,
        "loop/act.py",
        "        if any(is_child(self.run, op) or not is_harmless(op) for op in ops):\n            self.run.log.sync()\n",
        "",
    ),
    one(
        "S2 gone, an approval",
        "test_runs_crash.py::test_l1_a_word_that_was_taken_is_on_the_disk",
        "loop/gate.py",
        '    run.append("decide", data, op.n)\n    run.log.sync()\n',
        '    run.append("decide", data, op.n)\n',
    ),
    one(
        "S2 gone, an answer",
        "test_runs_crash.py::test_l1_a_word_that_was_taken_is_on_the_disk",
        "loop/inbox.py",
        '    run.append("user.say", data | {"inbox": name})\n    run.log.sync()\n',
        '    run.append("user.say", data | {"inbox": name})\n',
    ),
    one(
        "S2 gone, a settlement",
        "test_runs_crash.py::test_l1_a_settlement_that_was_taken_is_on_the_disk",
        "loop/inbox.py",
        '    run.append("tool.end", data | {"inbox": name}, n)\n    run.log.sync()\n',
        '    run.append("tool.end", data | {"inbox": name}, n)\n',
    ),
    one(
        "S2 gone, an amendment",
        "test_runs_crash.py::test_l1_an_amendment_that_was_taken_is_on_the_disk",
        "loop/amend.py",
        "    run.log.sync()\n",
        "",
    ),
    one(
        "blind retry",
        f"{SETTLE}case_15_what_may_not_be_repeated_parks",
        "events/attempts.py",
        '    return op.repeat == "opaque" or op.tries >= MAX_TRIES\n',
        "    return False\n",
    ),
    one(
        "new id an attempt",
        f"{SETTLE}case_15_what_may_run_twice_runs_again_under_its_id",
        "loop/act.py",
        '    op_id = f"{run.name}/{op.n}"\n',
        '    op_id = f"{run.name}/{op.n}/{attempt}"\n',
    ),
    one(
        "rc trusted across boots",
        f"{SETTLE}case_19_after_a_reboot_the_files_are_hints",
        "loop/settle.py",
        "    if op.attempt_boot != run.state.boot:\n",
        "    if False:\n",
    ),
    one(
        "lock not looked at",
        "test_executor_evidence.py::test_a_tool_is_alive_however_it_hides",
        "executor/evidence.py",
        "    return not all(_free(fd) for fd in (files.out, files.err) if fd >= 0)\n",
        "    return False\n",
    ),
    one(
        "environment not looked at",
        "test_executor_evidence.py::test_a_tool_is_alive_however_it_hides",
        "executor/evidence.py",
        "    found = survivors(op_id)\n",
        "    found: list[int] = []\n",
    ),
    one(
        "started ignored",
        f"{SETTLE}case_14_a_kill_before_the_spawn_is_no_start",
        "loop/settle.py",
        "    elif found.started:\n",
        "    elif True:\n",
    ),
    one(
        "headerless exit trusted",
        f"{SETTLE}case_21_an_exit_without_a_header_says_nothing",
        "loop/result.py",
        "    if code and not tool.header:\n",
        "    if False:\n",
    ),
    one(
        "tail kept",
        "test_events_scan.py::test_case_2_a_torn_end_is_saved_cut_off_and_told",
        "events/log.py",
        "        if found.torn:\n",
        "        if False:\n",
    ),
    one(
        "bad middle line skipped",
        "test_events_scan.py::test_case_3_damage_is_refused_with_its_place_and_nothing_changes",
        "events/scan.py",
        "        if event is None or _misfit(event, last):\n            return\n",
        "        if event is None:\n            start = end + 1\n            continue\n",
    ),
    one(
        "short write ignored",
        "test_events_log.py::test_case_7_a_failed_or_short_write_leaves_no_half_line_and_nothing_follows",
        "events/log.py",
        "        if written != len(line):\n",
        "        if False:\n",
    ),
    one(
        "failed sync repeated",
        "test_runs_disk.py::test_case_7_every_action_of_a_run_fails_once",
        "events/log.py",
        '            with self.guarded("the journal cannot be synced"):\n                self.io.sync(self._fd)\n',
        '            with self.guarded("the journal cannot be synced"):\n                try:\n'
        "                    self.io.sync(self._fd)\n                except OSError:\n"
        "                    self.io.sync(self._fd)\n",
    ),
    Mutant(
        "blob after event",
        "tests/test_runs_crash.py::test_l1_no_blob_is_named_before_it_exists",
        (
            (
                "events/log.py",
                "                self.io.put(folder / name, raw)\n",
                "                self.late = [*getattr(self, 'late', []), (folder / name, raw)]\n",
            ),
            (
                "events/log.py",
                "            self._write(line)\n            self._seq",
                (
                    "            self._write(line)\n"
                    '            for path, raw in self.__dict__.pop("late", []):\n'
                    "                self.io.put(path, raw)\n            self._seq"
                ),
            ),
        ),
    ),
    one(
        "a sealed end cut as a torn tail",
        "test_cage_seal.py::test_a_sealed_end_that_is_gone_is_no_torn_tail",
        "events/log.py",
        "            check(raw[: found.good])\n",
        "",
    ),
    one(
        "inbox not deduplicated",
        "test_loop_people.py::test_a_message_that_is_delivered_twice_acts_once",
        "loop/inbox.py",
        "        elif path.stem not in run.state.inbox:\n",
        "        else:\n",
    ),
    one(
        "no digest check at spawn",
        "test_loop_people.py::test_a_tool_that_changed_after_its_approval_is_asked_again",
        "loop/batch.py",
        "    if op.digest and not call_digest(",
        "    if False and not call_digest(",
    ),
    one(
        "unknown price 0",
        "test_events_fold.py::test_a_lost_request_stays_counted_in_full",
        "events/spending.py",
        "        state.spent.unpriced += 1\n",
        "        pass\n",
    ),
    one(
        "reservation dropped",
        "test_events_fold.py::test_a_lost_request_stays_counted_in_full",
        "events/spending.py",
        "    if state.reserved is not None:\n",
        "    if False:\n",
    ),
    one(
        "cut-off gone",
        "test_graph_fresh.py::test_early_cut_off_stops_a_change_where_a_result_stays_the_same",
        "graph/fresh.py",
        "held.ok and held.result == receipt.result and",
        "held.ok and held.op == receipt.op and",
    ),
    one(
        "age propagates",
        "test_graph_fresh.py::test_age_does_not_travel",
        "graph/fresh.py",
        "    return held is not None and held.ok and",
        "    young = receipt.ttl is None or ground.now - receipt.at <= receipt.ttl\n"
        "    return young and held is not None and held.ok and",
    ),
    one(
        "last writer wins",
        "test_pipeline_merge.py::test_two_stages_write_different_values",
        "pipeline/merge.py",
        "        if other != value:\n"
        '            raise Conflict(f"operations {first} and {n} wrote different values of {name}")\n',
        "        value = other\n",
    ),
    one(
        "last writer wins, a file",
        "test_pipeline_merge.py::test_two_calls_of_one_reply_make_one_file",
        "loop/clash.py",
        "            if made.get(path, sha) != sha:\n",
        "            if False:\n",
    ),
    one(
        "strikes off in workers",
        "test_loop_stops.py::test_no_progress_two_levels_down",
        "events/fold.py",
        "    state.strikes = 0 if state.progress else",
        '    state.strikes = 0 if state.progress or state.start.get("parent") else',
    ),
    one(
        "a resume proves no blob",
        "test_events_scan.py::test_case_6_a_new_owner_proves_the_blobs_before_it_and_a_query_proves_none",
        "events/scan.py",
        '"user.say", "resume")',
        '"user.say")',
    ),
    one(
        "a query proves a blob",
        "test_events_scan.py::test_case_6_a_new_owner_proves_the_blobs_before_it_and_a_query_proves_none",
        "events/scan.py",
        ' and data.get("role") != "query":',
        ":",
    ),
    one(
        "a killed shim's wrapper is believed",
        "test_executor_shim.py::test_the_exit_of_what_stands_before_a_killed_shim_is_not_the_tools",
        "executor/shim.py",
        "    return -code if code < 0 else signal_of(code) or int(signal.SIGKILL)\n",
        "    return -code if code < 0 else code\n",
    ),
    one(
        "nobody rests beside an unknown outcome",
        f"{SETTLE}a_query_that_must_rest_is_waited_for_before_another_operation_is_left_to_a_person",
        "loop/settle.py",
        "    if any(wants_query(op) and op not in resting for",
        "    if any(is_unknown(op) or (wants_query(op) and op not in resting) for",
    ),
)

EQUIVALENT = {
    "results synced": "a sync after each tool.end only costs time: what is lost is settled by the same evidence",
}


def mutated(mutant: Mutant, root: Path) -> None:
    """Put the fault into the package below `root`. Raises ValueError when its text is not there exactly once."""
    for file, old, new in mutant.edits:
        path = root / "harness" / file
        text = path.read_text()
        if text.count(old) != 1:
            raise ValueError(f"mutant {mutant.name!r}: its text is {text.count(old)} times in harness/{file}")
        path.write_text(text.replace(old, new))


def copy_to(place: Path) -> Path:
    root = place / "copy"
    root.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
        else:
            shutil.copy2(source, root / name)
    return root


def passes(root: Path, tests: Sequence[str], place: Path) -> tuple[bool, str]:
    """Whether these tests pass with the package below `root`; and the end of what they printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"--basetemp={place / 'tmp'}"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*command, *tests], cwd=root, env=env, capture_output=True, text=True, timeout=1_800)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"pytest could not run {' '.join(tests)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode == 0, done.stdout[-3000:]


def survives(mutant: Mutant) -> str:
    """Empty when the named test kills it; else why not."""
    with TemporaryDirectory(prefix="mutant-") as place:
        root = copy_to(Path(place))
        mutated(mutant, root)
        alive, _ = passes(root, [mutant.killer], Path(place))
    return f"{mutant.killer} passes with it" if alive else ""


def main(names: Sequence[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    killers = sorted({mutant.killer for mutant in chosen})
    with TemporaryDirectory(prefix="mutant-") as place:
        fine, told = passes(copy_to(Path(place)), killers, Path(place))
    if not fine:
        print(f"without any fault a test fails already:\n{told}")
        return 1
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(survives, chosen))
    for mutant, why in zip(chosen, found, strict=True):
        print(f"{'SURVIVED' if why else 'killed  '}  {mutant.name}{': ' + why if why else ''}")
    for name, reason in EQUIVALENT.items():
        print(f"left out  {name}: {reason}")
    return int(any(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
