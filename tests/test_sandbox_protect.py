"""Protected names: which they are, and that whatever happens to them in a call is put back."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from caged import as_user, users

from harness.sandbox import names, protect, record


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with an environment file, tools, skills and drafts."""
    top = tmp_path / "workspace"
    files = {
        ".git/config": "[core]\n",
        ".git/HEAD": "ref: refs/heads/main\n",
        ".git/hooks/pre-commit": "#!/bin/sh\n",
        ".git/refs/heads/main": "0" * 40,
        ".git/modules/lib/config": "[core]\n",
        ".env": "KEY=value\n",
        "bin/tool": "#!/bin/sh\n",
        "skills/s/SKILL.md": "---\n",
        "src/app/.env.local": "KEY=value\n",
        ".harness/config.yaml": "model: none\n",
        ".harness/drafts/note": "a draft\n",
        ".harness/runs/one/events.jsonl": "{}\n",
        "src/main.py": "print()\n",
    }
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (top / "bin" / "tool").chmod(0o755)
    (top / "bin" / "alias").symlink_to("tool")
    return top


def state(top: Path) -> dict[str, tuple[int, str]]:
    """Everything in a folder: mode, and content or the text of a link."""
    found = {}
    for path in sorted(top.rglob("*")):
        text = str(path.readlink()) if path.is_symlink() else path.read_text() if path.is_file() else ""
        found[str(path.relative_to(top))] = (stat.S_IMODE(path.lstat().st_mode), text)
    return found


def around(workspace: Path, act: Callable[[], object], **more: object) -> dict[str, tuple[str, bool]]:
    """Changes that were seen and put back around an act: path → what, restored."""
    roots = (workspace / "bin", workspace / "skills")
    before = protect.snapshot(workspace, roots, workspace.parent, **more)  # type: ignore[arg-type]
    act()
    changes = protect.restore(before)
    return {str(one.path.relative_to(workspace)): (one.what, one.restored) for one in changes}


def test_which_names_are_protected_and_which_hidden(workspace: Path) -> None:
    for name in (".GIT", ".Env.Example", "a/.claude", "a/b/.agents", "a/b/c/.envrc", "a/b/c/d/.env", "a/x.KEY"):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    found = names.find(workspace, [workspace / "bin", workspace / "skills", Path("/usr/bin")])
    assert {str(path.relative_to(workspace)) for path in found.protect} == {
        *(".git", ".GIT", ".env", ".Env.Example", ".harness", "bin", "skills", "src/app/.env.local"),
        *("a/.claude", "a/b/.agents", "a/b/c/.envrc"),
    }
    assert {str(path.relative_to(workspace)) for path in found.hide} == {".env", "src/app/.env.local", "a/x.KEY"}


def test_a_name_that_a_call_may_change_is_left_out(workspace: Path) -> None:
    assert around(workspace, lambda: (workspace / ".git" / "config").write_text("new"), unprotected=[".git"]) == {}
    assert (workspace / ".git" / "config").read_text() == "new"


def test_no_change_is_no_change(workspace: Path) -> None:
    def work() -> None:
        (workspace / "src" / "main.py").write_text("print(1)\n")
        (workspace / "src" / "new").write_text("new")
        (workspace / ".harness" / "drafts" / "another").write_text("a draft")
        os.utime(workspace / "bin" / "tool")
        (workspace / ".env").write_text((workspace / ".env").read_text())
        with (workspace / ".harness" / "runs" / "one" / "events.jsonl").open("a") as log:
            log.write("{}\n")

    assert around(workspace, work) == {}
    assert {path.name for path in workspace.parent.iterdir()} == {"workspace"}


def replace_by_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


ACTS: dict[str, tuple[Callable[[Path], object], dict[str, str]]] = {
    "changed": (lambda top: (top / "bin/tool").write_text("evil"), {"bin/tool": "changed"}),
    "changed, same size and time": (
        lambda top: ((top / ".env").write_text("KEY=VALUE\n"), os.utime(top / ".env", ns=(1, 1))),
        {".env": "changed"},
    ),
    "created": (lambda top: (top / "skills/evil").mkdir(), {"skills/evil": "created"}),
    "created deep": (
        lambda top: ((top / "new/.claude/x").mkdir(parents=True), (top / "new/.claude/x/y").write_text("evil")),
        {"new/.claude": "created"},
    ),
    "created in a module": (
        lambda top: (
            (top / ".git/modules/lib/hooks").mkdir(),
            (top / ".git/modules/lib/hooks/post-checkout").write_text("evil"),
        ),
        {".git/modules/lib/hooks": "created"},
    ),
    "deleted": (lambda top: (top / "skills/s/SKILL.md").unlink(), {"skills/s/SKILL.md": "deleted"}),
    "deleted with all above": (lambda top: shutil.rmtree(top / "src"), {"src/app/.env.local": "deleted"}),
    "the whole root deleted": (
        lambda top: shutil.rmtree(top / "skills"),
        {"skills": "deleted", "skills/s": "deleted", "skills/s/SKILL.md": "deleted"},
    ),
    "replaced by a link": (lambda top: replace_by_link(top / ".git/config"), {".git/config": "replaced"}),
    "a link that leads elsewhere": (lambda top: replace_by_link(top / "bin/alias"), {"bin/alias": "changed"}),
    "a folder replaced by a file": (
        lambda top: (shutil.rmtree(top / ".git/hooks"), (top / ".git/hooks").write_text("evil")),
        {".git/hooks": "replaced", ".git/hooks/pre-commit": "deleted"},
    ),
    "mode of a file": (lambda top: (top / "bin/tool").chmod(0o4777), {"bin/tool": "mode"}),
    "mode of a folder": (lambda top: (top / ".git/hooks").chmod(0o777), {".git/hooks": "mode"}),
    "renamed": (
        lambda top: (top / ".git/hooks").rename(top / ".git/info"),
        {
            ".git/hooks": "deleted",
            ".git/hooks/pre-commit": "deleted",
            ".git/info": "created",
        },
    ),
}


@pytest.mark.parametrize("name", ACTS)
def test_what_changed_is_put_back(workspace: Path, name: str) -> None:
    act, expected = ACTS[name]
    before = state(workspace)
    assert around(workspace, lambda: act(workspace)) == {path: (what, True) for path, what in expected.items()}
    lost = {"new"} if name == "created deep" else set()  # an ordinary folder stays
    after = {path: found for path, found in state(workspace).items() if path not in lost}
    gone = {"src/main.py"} if name == "deleted with all above" else set()
    assert after == {path: found for path, found in before.items() if path not in gone}


def test_a_parent_that_became_a_link_does_not_lead_the_restorer_away(workspace: Path) -> None:
    elsewhere = workspace.parent / "elsewhere"
    elsewhere.mkdir()

    def act() -> None:
        shutil.rmtree(workspace / "src" / "app")
        (workspace / "src" / "app").symlink_to(elsewhere)

    assert around(workspace, act) == {"src/app/.env.local": ("deleted", True)}
    assert list(elsewhere.iterdir()) == []
    assert (workspace / "src" / "app" / ".env.local").read_text() == "KEY=value\n"


def test_the_tools_version_is_kept(workspace: Path) -> None:
    before = protect.snapshot(workspace, [workspace / "bin"], workspace.parent)
    (workspace / "bin" / "tool").write_text("evil")
    [change] = protect.restore(before)
    assert change.kept is not None
    assert change.kept.read_text() == "evil"
    assert change.kept.parent.parent == workspace.parent


def test_commits_and_other_runs_are_only_reported(workspace: Path) -> None:
    def act() -> None:
        (workspace / ".git" / "refs" / "heads" / "main").write_text("1" * 40)
        (workspace / ".git" / "HEAD").write_text("ref: refs/heads/other\n")
        (workspace / ".harness" / "runs" / "one" / "events.jsonl").write_text("")

    assert around(workspace, act) == {
        ".git/refs": ("moved", False),
        ".git/HEAD": ("moved", False),
        ".harness/runs/one/events.jsonl": ("moved", False),
    }
    assert (workspace / ".git" / "HEAD").read_text() == "ref: refs/heads/other\n"


def fill(folder: Path, count: int) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / str(number)).touch()


def test_a_flood_of_protected_names_hides_no_other_change(workspace: Path) -> None:
    hook = workspace / ".git" / "hooks" / "post-commit"
    flood = [workspace / ".agents", workspace / ".git" / "hooks"]

    def act() -> None:
        fill(flood[0], record.MAX_ENTRIES + 1)
        fill(flood[1], 100)
        hook.write_text("evil")

    changes = around(workspace, act)
    assert not hook.exists() and not flood[0].exists()
    assert {".agents", ".git/hooks/post-commit"} < changes.keys() and len(changes) == 102
    assert set(changes.values()) == {("created", True)}


def test_a_protected_folder_too_full_to_look_at_loses_nothing(workspace: Path) -> None:
    full = workspace / ".claude"
    fill(full, record.MAX_ENTRIES + 1)
    changes = around(workspace, lambda: ((full / "0").unlink(), (workspace / ".env").write_text("evil")))
    assert changes == {".env": ("changed", True)}
    assert len(list(full.iterdir())) == record.MAX_ENTRIES


def test_a_deep_tree_under_a_protected_name_goes_as_a_whole(workspace: Path) -> None:
    def dig(top: Path) -> None:
        at = os.open(top, os.O_RDONLY)
        for _ in range(1500):
            os.mkdir("d", dir_fd=at)
            below = os.open("d", os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        os.close(at)

    (workspace / ".claude").mkdir()
    assert around(workspace, lambda: dig(workspace / ".claude")) == {".claude/d": ("created", True)}
    dig(workspace / ".claude")
    assert around(workspace, lambda: (workspace / ".env").write_text("evil")) == {".env": ("changed", True)}
    subprocess.run(["rm", "-rf", *map(str, workspace.parent.iterdir())], check=True)  # too deep for who cleans up


def test_what_is_too_large_to_copy_is_seen_but_not_put_back(workspace: Path) -> None:
    large = workspace / "bin" / "large"
    with large.open("wb") as file:
        file.truncate(record.MAX_FILE + 1)

    def act() -> None:
        with large.open("r+b") as file:
            file.write(b"evil")

    assert around(workspace, act) == {"bin/large": ("changed", False)}


def test_a_second_call_copies_nothing_again(workspace: Path) -> None:
    os.utime(workspace / ".env")
    known = record.copies()
    protect.snapshot(workspace, [], workspace.parent)
    time.sleep(0.06)  # until what was just written counts as settled
    protect.snapshot(workspace, [], workspace.parent)
    end = known.end
    protect.snapshot(workspace, [], workspace.parent)
    assert known.end == end


def test_the_folder_of_the_interpreter_is_protected_where_it_lies_in_the_workspace() -> None:
    here = Path(sys.executable).parent
    assert here in names.own_roots(here.parent, [])
    assert here not in names.own_roots(here / "deeper", [])


CLOSED = """
import tempfile
from pathlib import Path
from harness.sandbox import protect
with tempfile.TemporaryDirectory() as folder:
    top = Path(folder).resolve() / "workspace"
    hooks = top / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("as it was")
    (top / "sub").mkdir()
    (top / "sub" / ".env").write_text("as it was")
    before = protect.snapshot(top, [], top.parent)
    (hooks / "pre-commit").write_text("evil")
    (top / "sub" / ".env").write_text("evil")
    for path in (hooks / "pre-commit", hooks, top / ".git", top / "sub"):
        path.chmod(0)
    changes = [one.restored for one in protect.restore(before)]
    print(json.dumps([changes, (hooks / "pre-commit").read_text(), (top / "sub" / ".env").read_text()]))
"""


@pytest.mark.parametrize("user", users())
def test_what_was_closed_to_its_owner_is_put_back_too(user: str) -> None:
    changes, *texts = as_user(user, CLOSED)
    assert all(changes)
    assert len(changes) >= 3
    assert texts == ["as it was", "as it was"]


def test_a_full_disk_does_not_keep_the_tools_version_in_place(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        hooks = disk / "workspace" / ".git" / "hooks"
        hooks.mkdir(parents=True)
        hook = hooks / "pre-commit"
        hook.write_text("as it was\n" * 1000)

        def fill() -> None:
            hook.write_text("evil")
            with suppress(OSError), (hooks / "filler").open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))

        changes = around(disk / "workspace", fill)
        assert changes == {".git/hooks/filler": ("created", True), ".git/hooks/pre-commit": ("changed", True)}
        assert hook.read_text() == "as it was\n" * 1000
    finally:
        subprocess.run(["umount", str(disk)], check=True)
