"""The cases of a skill or a folder, with the digests that say whether two evaluations had the same ones."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from harness.errors import HarnessError, near_text
from harness.evals.case import SPLITS, SUITES, Case, read_case
from harness.evals.workspace import check_plain
from harness.tools.regular import read_regular

CASES, FIXTURES, SCRIPTS, RUBRICS, FROZEN = "cases", "fixtures", "scripts", "rubrics", "frozen"
MAX_FILE = 1 << 30


@dataclass(frozen=True, slots=True)
class Suite:
    """Cases in the order of their names, below `folder`; `frozen` is the digest that a person fixed, or empty."""

    folder: Path
    cases: tuple[Case, ...]
    frozen: str = ""

    def fixture(self, case: Case) -> Path | None:
        return self.folder / FIXTURES / case.fixture if case.fixture else None

    def script(self, case: Case) -> Path | None:
        return self.folder / SCRIPTS / case.script if case.script else None

    def rubric(self, case: Case) -> Path | None:
        return self.folder / RUBRICS / case.rubric if case.rubric else None

    def parts(self, case: Case) -> list[Path]:
        """The files and folders that a case names."""
        return [path for path in (self.fixture(case), self.script(case), self.rubric(case)) if path is not None]


def read_suite(folder: Path, anew: bool = False) -> Suite:
    """All cases of a suite's folder. Raises HarnessError (exit 2) for none, a bad one, or a frozen one that changed.

    `anew`: it is to be frozen as it is, whatever it was.
    """
    paths = sorted((folder / CASES).glob("*.yaml")) if (folder / CASES).is_dir() else []
    if not paths:
        fix = "write one: goal:, inputs: and what is expected:"
        raise HarnessError("there are no cases", fix, str(folder / CASES))
    suite = Suite(folder, tuple(map(read_case, paths)), "" if anew else _frozen(folder))
    for case in suite.cases:
        for path in suite.parts(case):
            if not path.exists():
                raise HarnessError(f"case {case.name} names what is not there", "make it", str(path))
            if path.resolve() != folder.resolve() / path.relative_to(folder):
                raise HarnessError(f"case {case.name} names a link", "put the file itself there", str(path))
        if (fixture := suite.fixture(case)) is not None:
            check_plain(fixture, folder)
    return suite


def _frozen(folder: Path) -> str:
    path = folder / FROZEN
    if not path.exists():
        return ""
    said, now = path.read_text(encoding="utf-8").strip(), digest_of(folder)
    if said != now:
        fix = f"put it back, or freeze it as it is: harness eval {folder.parent.name} --freeze"
        raise HarnessError(f"the suite is frozen at {said[:12]} and is {now[:12]} now", fix, str(path))
    return said


def chosen(suite: Suite, glob: str | None, suites: Sequence[str], split: str | None) -> tuple[Case, ...]:
    """The cases that a person means. Raises HarnessError where there are none."""
    for flag, words, known in (("--suite", suites, SUITES), ("--split", (split,) if split else (), SPLITS)):
        for word in words:
            if word not in known:
                raise HarnessError(f"{flag} {word} is none{near_text(word, known)}", f"use {', '.join(known)}")
    found = [case for case in suite.cases if glob is None or fnmatchcase(case.name, glob)]
    found = [case for case in found if not suites or case.suite in suites]
    found = [case for case in found if split is None or case.split == split]
    if not found:
        names = [case.name for case in suite.cases]
        near = near_text(glob, names) if glob else ""
        raise HarnessError(f"no case fits{near}", f"there are: {' '.join(names)}", str(suite.folder / CASES))
    return tuple(found)


def digest_of(folder: Path) -> str:
    """SHA-256 over the names and bytes of all that a suite's result follows from."""
    parts = (folder / name for name in (CASES, FIXTURES, SCRIPTS, RUBRICS))
    return _digest(folder, (path for part in parts for path in _files(part)))


def case_digest(suite: Suite, case: Case) -> str:
    """The same of one case: two evaluations that agree in it had the same case."""
    return _digest(suite.folder, [case.file, *(path for one in suite.parts(case) for path in _files(one))])


def _files(path: Path) -> Iterator[Path]:
    """All files below a folder, links as themselves; of a file, itself."""
    if not path.is_dir() or path.is_symlink():
        yield from [path] if path.exists() or path.is_symlink() else []
        return
    for at, folders, names in os.walk(path):
        folders.sort()
        yield from (Path(at) / name for name in sorted([*names, *(f for f in folders if (Path(at) / f).is_symlink())]))


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_FILE)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HarnessError(f"a file of the suite cannot be read: {reason}", "take it out", str(path)) from error


def _digest(folder: Path, paths: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for path in sorted(set(paths)):
        held = os.fsencode(path.readlink()) if path.is_symlink() else _bytes(path)
        name = os.fsencode(os.path.relpath(path, folder))
        whole.update(b"%d %d\n" % (len(name), len(held)) + name + held)
    return whole.hexdigest()
