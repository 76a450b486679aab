"""The system calls of a run, and what comes of those that fail: seen and made to fail from outside, by strace.

`make torture` lets every call on the journal fail; here it is some of the writes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import journal_invariants as must
from tests.journal_disk import Recorder
from tests.journal_site import ASKING, PLAIN, Site, make_site, started
from tests.test_runs_kill import LONG, ROOT
from tests.torture_site import UNKNOWN

NAME = "20261130T000000-look-aaaaaaaa"
EVERY = 1 if LONG else 5
VICTIM = f"""
import sys
from functools import partial
from pathlib import Path
from harness.events.io import IO
from tests import journal_site

runs = Path(sys.argv[2])
journal_site.begin = partial(journal_site.begin, folder=runs / "{NAME}")
journal_site.read_site(Path(sys.argv[1])).carry(IO(), runs)
"""
EFFECT = """#!/bin/sh
# @describe Writes
# @meta effect write
# @meta repeat keyed
grep -qs "$HARNESS_OP_ID" ledger || echo "$HARNESS_OP_ID" >> ledger
echo done
"""


def why_not() -> str:
    """Why strace cannot be used here; empty when it can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    probe = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True)
    return "" if probe.returncode == 0 else f"strace cannot trace here: {probe.stderr.strip().splitlines()[-1]}"


pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def site_at(place: Path, script: str, bodies: dict[str, str] | None = None) -> Site:
    return make_site(place / "project", script, bodies)


def traced(site: Site, runs: Path, *options: str) -> tuple[int, str, str]:
    """Carry a run under strace; exit code, what was printed on stderr, and the trace."""
    trace = runs.parent / f"{runs.name}.trace"
    command = ["strace", "-f", "-y", "-s", "160", "-o", str(trace), *options]
    done = subprocess.run(
        [*command, sys.executable, "-c", VICTIM, str(site.root), str(runs)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}, cwd=ROOT, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stderr, trace.read_text()


def injected(site: Site, runs: Path, *faults: str) -> tuple[int, str, str]:
    """The same with faults in the calls on the journal."""
    calls = ",".join(dict.fromkeys(fault.split(":")[0] for fault in faults))
    options = [word for fault in faults for word in ("-e", f"inject={fault}")]
    path = str(runs / NAME / "events.jsonl")
    return traced(site, runs, "-P", path, "-e", f"trace={calls}", *options)


def syncs(trace: str) -> int:
    return len(re.findall(r"fdatasync\(\d+<[^>]*/events\.jsonl>\)", trace))


def test_l3_a_run_that_only_reads_syncs_its_journal_twice(tmp_path: Path) -> None:
    code, err, trace = traced(site_at(tmp_path, PLAIN), tmp_path / "runs", "-e", "trace=fdatasync")
    assert code == 0, err
    assert syncs(trace) == 2


def test_l3_one_sync_a_batch_of_effects_a_persons_input_a_park_and_an_end(tmp_path: Path) -> None:
    site = site_at(tmp_path, ASKING, {"alpha": EFFECT, "report": EFFECT})
    code, err, trace = traced(site, tmp_path / "runs", "-e", "trace=fdatasync")
    assert code == 0, err
    batches, inputs, parks, ends = 2, 1, 1, 1
    assert syncs(trace) == 1 + batches + inputs + parks + ends


def test_l3_the_intent_is_written_then_synced_then_the_tool_is_started(tmp_path: Path) -> None:
    site = site_at(tmp_path, PLAIN, {"report": EFFECT})
    code, err, trace = traced(site, tmp_path / "runs", "-e", "trace=write,fdatasync,execve")
    assert code == 0, err
    lines = trace.splitlines()

    def first(pattern: str, after: int = 0) -> int:
        return next(n for n, line in enumerate(lines[after:], after) if re.search(pattern, line))

    intent = first(r'write\(\d+<[^>]*/events\.jsonl>, .*\\"kind\\":\\"tool\.start\\",\\"op\\":3')
    sync, start = first(r"fdatasync\(\d+<[^>]*/events\.jsonl>", intent), first(r"execve\(.*/bin/report\"")
    assert intent < sync < start


@pytest.fixture(scope="module")
def acting(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return site_at(tmp_path_factory.mktemp("strace"), ASKING, {"report": EFFECT})


@pytest.fixture(scope="module")
def reference(acting: Site) -> bytes:
    runs = acting.root.parent / "reference"
    acting.carry(Recorder(runs), runs)
    folder = started(runs)
    assert folder is not None
    (acting.root / "ledger").unlink()
    return (folder / "events.jsonl").read_bytes()


def goes_on(site: Site, runs: Path, reference: bytes) -> None:
    """With the fault gone the run ends as the reference, or waits for a word on its effect, which happened once."""
    folder = started(runs)
    before = must.whole_events((folder / "events.jsonl").read_bytes()) if folder else []
    recorder = Recorder(runs)
    try:
        stop = site.carry(recorder, runs, recorder.heard)
        folder = started(runs)
        assert folder is not None
        must.events_stay(before, (folder / "events.jsonl").read_bytes())
        ledger = site.root / "ledger"
        done = ledger.read_text().splitlines() if ledger.exists() else []
        must.effects_happen_once(done)
        if stop.name != UNKNOWN:
            must.all_of(folder, stop, must.folded(reference))
            assert len(done) == 1
    finally:
        (site.root / "ledger").unlink(missing_ok=True)
        shutil.rmtree(runs)


def every_nth(site: Site, runs: Path, reference: bytes, fault: Callable[[int], list[str]], step: int = 1) -> int:
    """Let the 1st, 2nd … call fail until the run has no such call any more; how many did."""
    for failed, n in enumerate(range(1, 1_000, step)):
        code, err, trace = injected(site, runs, *fault(n))
        if "INJECTED" not in trace and "SIGKILL" not in trace:
            assert code == 0, err
            (site.root / "ledger").unlink()
            shutil.rmtree(runs)
            return failed
        assert code != 0 and ("JournalError" in err or code in (-9, 137)), (code, err)
        goes_on(site, runs, reference)
    raise AssertionError("there is no end of calls")


@pytest.mark.parametrize("how", ["error=EIO", "signal=KILL"])
def test_l3_every_sync_of_the_journal_fails(acting: Site, reference: bytes, tmp_path: Path, how: str) -> None:
    assert every_nth(acting, tmp_path / "runs", reference, lambda n: [f"fdatasync:{how}:when={n}"]) == 5


@pytest.mark.parametrize("how", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("cut", ["", "ftruncate:error=EIO"], ids=["cut", "not-cut"])
def test_l3_writes_to_the_journal_fail(acting: Site, reference: bytes, tmp_path: Path, how: str, cut: str) -> None:
    faults = [cut] if cut else []
    events = len(reference.splitlines())
    failed = every_nth(acting, tmp_path / "runs", reference, lambda n: [f"write:error={how}:when={n}", *faults], EVERY)
    assert failed >= events // EVERY


def test_l3_renames_into_the_run_fail(acting: Site, reference: bytes, tmp_path: Path) -> None:
    """Blobs, the answer, a message: whatever is written aside and renamed into place."""
    runs = tmp_path / "runs"
    for n in range(1, 100):
        code, err, trace = traced(acting, runs, "-e", "trace=rename", "-e", f"inject=rename:error=EIO:when={n}")
        if "INJECTED" not in trace:
            assert code == 0 and n > 3
            (acting.root / "ledger").unlink()
            return
        assert code != 0 and "JournalError" in err, (code, err)
        goes_on(acting, runs, reference)
