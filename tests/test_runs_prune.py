"""Deleting runs: ended ones go, whole; live ones never; others only by name and by force (case 42)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from harness.errors import BusyError, HarnessError
from harness.events.io import IO
from harness.events.lock import take
from harness.runs.above import check_alone, staying
from harness.runs.fork import fork as fork_run
from harness.runs.fork import point, read_source
from harness.runs.index import NAME, Index
from harness.runs.list import Listed, read
from harness.runs.prune import TRASH, Wish, chosen, leftovers, remove
from harness.runs.stopping import end_here
from harness.runs.tree import empty
from tests.command import COMMAND, AtTerminal, events, harness, home_of, newest, start, waits
from tests.loop_world import Project, Ran, call, reply
from tests.loop_world import finish as done_with
from tests.past_runs import DAY, ENDED, PARKED, Killed, killed_at, past_run
from tests.run_files import add_pipeline, add_skill, calls, finish, make_project, script


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path / "p")


def begun(project: Path, *replies: object, skill: str = "work") -> Path:
    harness("run", skill, "a secret goal", "-m", script(project, *replies), cwd=project)  # type: ignore[arg-type]
    return newest(project)


def prune(project: Path, *words: str) -> tuple[int, list[str], str]:
    done = harness("runs", "prune", *words, cwd=project)
    return done.returncode, done.stdout.splitlines(), done.stderr


def names(runs: Path, wish: Wish) -> list[str]:
    with Index(runs, runs.with_name("seals")) as index:
        return [run.name for run in chosen(list(index.runs()), wish)]


def test_case_42_an_ended_run_goes_with_all_that_is_known_of_it(project: Path) -> None:
    run = begun(project, calls(["look"]), finish("x"))
    seal = home_of(project) / ".local/state/harness/logs" / f"{run.name}.sha256"
    assert seal.exists()
    code, gone, said = prune(project, run.name)
    assert (code, gone) == (0, [run.name]) and "backups" in said
    assert not run.exists() and not seal.exists() and not list(run.parent.glob(".trash*"))
    assert b"a secret goal" not in (run.parent / NAME).read_bytes()


def test_case_42_a_live_run_never_goes(project: Path) -> None:
    process = start("run", "work", "x", "-m", script(project, calls(["slow", "--x", "60"])), cwd=project)
    try:
        run = waits(lambda: newest(project) if events(newest(project), "tool.start") else None)
        for words in ((), ("--force",)):
            code, gone, said = prune(project, run.name, *words)
            assert code == 75 and not gone and "is running, pid" in said and "harness stop" in said
        assert prune(project, "--older", "0s", "--yes")[:2] == (0, []) and run.exists()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    code, _, said = prune(project, run.name)
    assert code == 2 and "stopped" in said and "--force" in said
    assert prune(project, run.name, "--force")[0] == 0 and not run.exists()


def test_case_42_a_parked_run_goes_only_by_name_and_force_or_once_it_was_stopped(project: Path) -> None:
    run = begun(project, calls(["act"]), finish("x"))
    assert prune(project, "--older", "0s", "--yes")[1] == []
    code, gone, said = prune(project, run.name)
    assert code == 2 and not gone and "needs-approval #1" in said and run.exists()
    assert harness("stop", run.name, cwd=project).returncode == 0
    assert prune(project, "--older", "0s", "--yes")[1] == [run.name]


def test_an_ended_run_with_an_unknown_outcome_is_kept_for_whoever_settles_it(project: Path) -> None:
    harness("run", "work", "x", "-m", script(project, calls(["late"])), "--allow", "late", cwd=project)
    run = newest(project)
    assert harness("stop", run.name, cwd=project).returncode == 0
    assert prune(project, "--older", "0s", "--yes")[1] == []
    assert "nobody knows" in prune(project, run.name)[2]
    assert prune(project, run.name, "--force")[0] == 0


@pytest.mark.parametrize("number", range(19))
def test_case_42_killed_half_way_the_rest_goes_next_time(tmp_path: Path, number: int) -> None:
    runs, seals = tmp_path / "runs", tmp_path / "seals"
    folder = past_run(runs, 1, ENDED)
    (folder / "ops/1/1/work").mkdir(parents=True)
    (folder / "ops/1/1/work/note").write_text("x")
    try:
        remove(read(folder), killed_at(number), seals, force=False)
    except Killed:
        whole = folder.exists() and len(list(folder.rglob("*"))) == 9
        assert whole != bool(leftovers(runs))  # either all of it under its name, or what is left as trash
    if folder.exists():
        remove(read(folder), IO(), seals, force=False)
    for left in leftovers(runs):
        empty(left, IO())
    assert list(runs.iterdir()) == []


@pytest.mark.parametrize("left", [b"", b"\0" * 90, None])
def test_a_run_whose_journal_is_empty_but_not_its_attempts_is_damaged_and_kept(
    project: Path, left: bytes | None
) -> None:
    run = begun(project, calls(["keep"]), finish("x"))
    journal = run / "events.jsonl"
    journal.unlink() if left is None else journal.write_bytes(left)
    for command in (["show", run.name], ["resume", run.name]):
        done = harness(*command, cwd=project)
        assert done.returncode == 3 and "may have had an effect" in done.stderr and "deleted" not in done.stderr
    assert "damaged" in harness("runs", cwd=project).stdout
    assert prune(project, "--older", "0s", "--yes")[1] == [] and run.exists()


def test_case_42_the_command_sweeps_what_a_killed_one_left(project: Path) -> None:
    left = project / ".harness/runs" / f"{TRASH}20260101T000000-x-aaaaaaaa"
    (left / "ops").mkdir(parents=True)
    assert prune(project, "-n")[2].startswith("1 leftover of an earlier prune would go") and left.exists()
    assert prune(project)[0] == 0 and not left.exists()


def test_what_a_tool_left_locked_goes_and_what_it_linked_to_stays(tmp_path: Path) -> None:
    folder, outside = past_run(tmp_path / "runs", 1, ENDED), tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "kept").write_text("x")
    deep = folder / "ops/1/1/work/deep"
    deep.mkdir(parents=True)
    (deep / "file").write_text("x")
    (deep / "folder").symlink_to(outside)
    (deep / "link").symlink_to(outside / "kept")
    deep.chmod(0o000)
    remove(read(folder), IO(), tmp_path / "seals", force=False)
    assert not folder.exists() and (outside / "kept").read_text() == "x"
    assert outside.stat().st_mode & 0o777 == 0o755


def test_what_lies_deeper_than_a_path_can_be_long_goes_too(tmp_path: Path) -> None:
    folder = past_run(tmp_path / "runs", 1, ENDED)
    at = Path.cwd()
    try:
        os.chdir(folder / "ops")
        for _ in range(1500):
            Path("deeper").mkdir()
            os.chdir("deeper")
        Path("file").write_text("x")
    finally:
        os.chdir(at)
    remove(read(folder), IO(), tmp_path / "seals", force=False)
    assert list((tmp_path / "runs").iterdir()) == []


def test_filters_choose_by_age_number_and_stop(tmp_path: Path) -> None:
    old = past_run(tmp_path, 1, ENDED, age=40 * DAY)
    failed = past_run(tmp_path, 2, ENDED | {"stop": "failed", "exit": 1}, age=35 * DAY)
    past_run(tmp_path, 3, PARKED, "park", age=50 * DAY)
    recent = past_run(tmp_path, 4, ENDED, age=1 * DAY)
    never = tmp_path / "20200101T000000-none-aaaaaaaa"
    never.mkdir()
    aged = read(old).age_s - 39.5 * DAY
    assert names(tmp_path, Wish()) == [recent.name, failed.name, old.name, never.name]
    assert names(tmp_path, Wish(older=aged + 20 * DAY)) == [failed.name, old.name, never.name]
    assert names(tmp_path, Wish(keep=2)) == [old.name, never.name]
    assert names(tmp_path, Wish(stop="failed")) == [failed.name]
    assert names(tmp_path, Wish(older=aged + 37 * DAY, keep=1, stop="passed")) == [old.name]
    assert names(tmp_path, Wish(named=(recent, old), keep=1)) == [old.name]


def test_children_and_forks_go_along_only_if_asked(tmp_path: Path) -> None:
    top = past_run(tmp_path, 1, ENDED)
    child = past_run(tmp_path, 2, ENDED, parent={"run": top.name, "op": 1, "depth": 1})
    below = past_run(tmp_path, 3, ENDED, parent={"run": child.name, "op": 1, "depth": 2})
    fork = past_run(tmp_path, 4, ENDED, fork={"run": top.name, "seq": 2})
    assert set(names(tmp_path, Wish())) == {top.name, fork.name}
    assert names(tmp_path, Wish(named=(top,))) == [top.name]
    assert names(tmp_path, Wish(named=(top,), relatives=frozenset({"children"}))) == [below.name, child.name, top.name]
    both = frozenset({"children", "forks"})
    assert set(names(tmp_path, Wish(named=(top,), relatives=both))) == {top.name, child.name, below.name, fork.name}
    with pytest.raises(HarnessError, match=f"part of the run {top.name}"):
        names(tmp_path, Wish(named=(child,)))
    assert names(tmp_path, Wish(named=(child,), force=True)) == [child.name]


def test_a_family_stays_together_while_one_of_it_may_not_go(tmp_path: Path) -> None:
    top = past_run(tmp_path, 1, ENDED)
    past_run(tmp_path, 2, PARKED, "park", fork={"run": top.name, "seq": 2})
    assert names(tmp_path, Wish(relatives=frozenset({"forks"}))) == []


@pytest.fixture
def forked(tmp_path: Path) -> tuple[Ran, Path, Path]:
    """A run that has ended, its pipeline's own run, and a fork that goes on from there and waits for an approval."""
    made = Project(tmp_path)
    made.tool("pay", "echo paid", "@meta effect external")
    made.stages("line", "a: {run: [pay]}")
    made.skill(tools="line pay")
    ran = made.run([reply(call("line")), reply(call("pay")), done_with()], allow=("pay",))
    assert ran.stop.name == "passed"
    source = read_source(ran.folder)
    fork = fork_run(made.world(), source, point(source, int(ran.of("tool.end")[0]["seq"])))
    assert made.resume(fork).stop.name == "needs-approval"
    return ran, ran.child(), fork


CHILDREN = frozenset({"children"})


def test_what_a_waiting_fork_goes_on_from_stays(forked: tuple[Ran, Path, Path]) -> None:
    """Its next call of the pipeline is a copy of the one that is deleted: without that it would pay again."""
    ran, child, fork = forked
    runs = ran.folder.parent
    with pytest.raises(HarnessError, match=f"{child.name} is a call that {fork.name}, a fork, goes on from") as caught:
        names(runs, Wish(named=(ran.folder,), relatives=CHILDREN))
    assert f"harness stop {fork.name[-8:]}" in caught.value.fix
    assert names(runs, Wish(relatives=CHILDREN)) == []  # nor by itself
    assert names(runs, Wish(named=(ran.folder,))) == [ran.folder.name]  # the fork needs no line of it
    assert names(runs, Wish(named=(ran.folder,), relatives=CHILDREN, force=True)) == [child.name, ran.folder.name]


def test_an_orphaned_call_stays_too_until_the_fork_has_ended(forked: tuple[Ran, Path, Path]) -> None:
    ran, child, fork = forked
    runs = ran.folder.parent
    remove(read(ran.folder), IO(), runs.with_name("seals"), force=False)
    assert names(runs, Wish()) == []
    end_here(Project(runs.parent.parent).world(), runs.parent.parent, fork, now=False)
    assert set(names(runs, Wish())) == {fork.name, child.name}
    with Index(runs, runs.with_name("seals")) as index:
        every = list(index.runs())
    gone = [run for run in every if run.folder == child]
    assert [(run.name, other.name) for run, other in staying(every, gone)] == [(child.name, fork.name)]  # it is said


def test_what_a_waiting_fork_goes_on_from_is_not_redacted(forked: tuple[Ran, Path, Path]) -> None:
    ran, child, _ = forked
    with Index(ran.folder.parent, ran.folder.parent.with_name("seals")) as index:
        every = list(index.runs())
    meant = [run for run in every if run.folder in (child, ran.folder)]
    with pytest.raises(HarnessError, match="a fork, goes on from"):
        check_alone(every, meant, ran.folder, force=False)
    check_alone(every, meant, ran.folder, force=True)


def test_a_run_that_was_gone_on_with_meanwhile_stays(tmp_path: Path) -> None:
    folder = past_run(tmp_path, 1, ENDED)
    listed: Listed = read(folder)
    held = take(folder, IO(), 0.0)
    with pytest.raises(BusyError):
        remove(listed, IO(), tmp_path, force=False)
    os.close(held)
    other = past_run(tmp_path, 2)
    with pytest.raises(BusyError, match="gone on with"):
        remove(read(other), IO(), tmp_path, force=False)
    assert folder.exists() and other.exists()


def test_children_left_behind_are_named_and_are_runs_of_their_own_then(project: Path) -> None:
    add_pipeline(project, "both", "  a: {run: [look]}\n")
    add_skill(project, "joint", "both")
    run = begun(project, calls(["both"]), finish("x"), skill="joint")
    [child] = [path for path in run.parent.glob("2*") if path != run]
    code, gone, said = prune(project, run.name)
    assert (code, gone) == (0, [run.name]) and child.name[-8:] in said and "--with children" in said
    assert f"(part of {run.name[-8:]}, which is gone)" in harness("runs", cwd=project).stdout
    [row] = json.loads(harness("runs", "--json", cwd=project).stdout)["runs"]
    assert (row["run"], row["parent"]) == (child.name, run.name)
    done = harness("resume", child.name, cwd=project)
    assert done.returncode == 2 and "which is gone" in done.stderr
    assert prune(project, "--older", "0s", "--yes")[1] == [child.name]


def test_it_asks_before_it_chooses_by_itself_and_says_the_flag_where_nobody_is(project: Path) -> None:
    run = begun(project, calls(["look"]), finish("x"))
    code, gone, said = prune(project, "--older", "0s")
    assert code == 5 and not gone and "Delete 1 run" in said and "--yes" in said and run.exists()
    for answer, left in (("\r", True), ("y\r", False)):
        terminal = AtTerminal(*COMMAND, "runs", "prune", "--older", "0s", cwd=project)
        terminal.until("[n] no")
        terminal.keys(answer)
        code, seen = terminal.end()
        assert code == 0 and run.exists() == left and "no run fits" not in seen, seen


def test_dry_run_default_choice_json_and_bad_words(project: Path) -> None:
    run = begun(project, calls(["look"]), finish("x"))
    assert prune(project)[:2] == (0, []) and "no run fits" in prune(project)[2]
    assert prune(project, "--older", "0s", "-n")[:2] == (0, [run.name]) and run.exists()
    body = json.loads(harness("runs", "prune", run.name, "--json", cwd=project).stdout)
    assert body == {"pruned": [run.name], "done": True, "leftovers": 0, "left_behind": []} and not run.exists()
    wrong = (("--with", "childs"), ("--stop", "pased"), ("--older", "x"), ("--keep", "-1"), ("--force",), ("last",))
    for words in wrong:
        code, _, said = prune(project, *words)
        assert code == 2 and "fix:" in said, words


def test_a_stop_that_is_none_is_named_with_the_option_that_was_typed(project: Path) -> None:
    code, gone, said = prune(project, "--stop", "failde", "-n")
    assert (code, gone) == (2, []) and "--stop failde" in said and "near: failed" in said and "--status" not in said


def test_an_ended_child_of_a_run_that_stays_goes_with_a_warning(project: Path) -> None:
    add_pipeline(project, "both", "  a: {run: [keep]}\n")
    add_skill(project, "piped", "both act")
    top = begun(project, calls(["both"]), calls(["act"]), finish("x"), skill="piped")
    child = next(path for path in top.parent.glob("2*") if "-both-" in path.name)
    assert prune(project, child.name)[0] == 2
    code, gone, said = prune(project, child.name, "--force")
    assert (code, gone) == (0, [child.name])
    assert f"warning: {top.name} stays: gone on with, a second call of what {child.name} did is refused" in said


def test_a_run_that_works_for_one_which_goes_on_goes_only_with_it(project: Path) -> None:
    """Deleted alone it would be begun again under its name, and do again what it did."""
    add_pipeline(project, "both", "  a: {run: [keep]}\n  b: {run: [act], needs: [a]}\n")
    add_skill(project, "piped", "both")
    top = begun(project, calls(["both"]), finish("x"), skill="piped")
    child = next(path for path in top.parent.glob("2*") if "-both-" in path.name)
    code, gone, said = prune(project, child.name, "--force")
    assert (code, gone) == (2, []) and f"works for {top.name}" in said
    fix = said.rsplit("fix: harness runs prune ", 1)[1].split()
    assert prune(project, *fix)[1] == [child.name, top.name]
