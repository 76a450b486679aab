"""Before anything of a project is started: whether it is trusted, and if need be the person's word on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.cli.options import Globals
from harness.cli.outcome import unfinished
from harness.cli.output import flags
from harness.cli.place import Place, found_tool, logs, runs_dir, scope, settled
from harness.config import read_file
from harness.errors import HarnessError
from harness.events.io import IO
from harness.events.seal import is_known
from harness.policy import trust
from harness.policy.examples import check_examples
from harness.policy.files import state_folder
from harness.policy.settings import PROJECT_FILE, home_of, load, narrowed
from harness.policy.trust import Book, Standing
from harness.policy.vouching import SETTINGS, Trust
from harness.runs.uses import Part, Uses, parts_of, trust_in
from harness.view.mode import current
from harness.view.trust import Answer, Question

NAMED = 6
"""How many files an error names."""


def answered(said: Globals, at: Place, uses: Uses, folder: Path | None = None, *, moved: bool = False) -> Place:
    """The place once what is to be run may use what it would use of the project.

    `folder` is of a run that goes on; `moved`: the person says that they brought it here themselves, which counts at a
    terminal only. Raises HarnessError, exit 5 where nobody can be asked or the answer is no, 2 for settings or a policy
    of the project that cannot be used.
    """
    said.frame = unfinished()
    moved = moved and current(flags(said)).can_ask
    book, within, lent, run = read_book(), scope(at), {}, folder.name if folder is not None else ""
    parts = parts_of(uses, within, book, run)
    asked = [part for part in parts if not part.is_settled]
    uses.is_foreign = folder is not None and not moved and is_foreign(at, folder, book)
    if asked or uses.is_foreign:
        word = ask(said, at, uses, asked, book)
        if word == "n":
            raise refused(at, asked, "you said no, and nothing was run")
        refuse_changes(parts, parts_of(uses, within, book, run))
        if word == "y":
            refuse_unusable(at, uses, asked)
            book = keep(asked) if asked else book
        lent = {part.owner: part.pins for part in asked} if word == "o" else {}
        parts = [part if part.is_settled else settled_by(part, word) for part in parts]
    if at.withheld:
        chosen = at.config.settings["output"]
        said.output = None if chosen.layer != "flag" and chosen.value == said.output else said.output
        at = settled(said, at.project)
    return replace(at, trust=trust_in(parts, within, book), lent=lent)


def is_foreign(at: Place, folder: Path, book: Book) -> bool:
    """Whether a run came with somebody else's files: what it holds as done and approved is then nobody's word here.

    Where its folder lies says nothing: a repository may ship a link in place of its folder of runs.
    """
    entry = book.of(at.project)
    return not (entry is not None and entry.own) and not is_known(logs(), folder.name)


def looked_at(at: Place, uses: Uses, run: str = "") -> Trust:
    """Which files may act, without a question: the others are left alone."""
    book, within = read_book(), scope(at)
    return trust_in(parts_of(uses, within, book, run), within, book)


def read_book() -> Book:
    """Whom the person trusts. Raises HarnessError where the record cannot be used."""
    return trust.read_book(state(), Path.home())


def state() -> Path:
    return state_folder(os.environ)


def ask(said: Globals, at: Place, uses: Uses, parts: Sequence[Part], book: Book, once: bool = True) -> Answer:
    """The person's word. Raises HarnessError (exit 5) where nobody can be asked."""
    from harness.runs.listing import changes, listing
    from harness.view.trust import ask_trust

    if not current(flags(said)).can_ask:
        raise refused(at, parts, "nobody can be asked here")
    differences = [line for part in parts for line in changes(part, book.of(part.owner), trust.copies(state()))]
    places = [str(part.owner) for part in parts] or [str(at.project)]
    word = ask_trust(Question(uses.what, places, listing(uses, scope(at), parts), differences, once))
    if word is None:
        raise refused(at, parts, "the terminal is gone")
    return word


def refused(at: Place, parts: Sequence[Part], why: str) -> HarnessError:
    """What is in the way, named: exit 5."""
    if not parts:
        fix = "a person looks at it and goes on at a terminal: harness resume RUN"
        return HarnessError(f"this run was not begun here, but came with {at.project}: {why}", fix, code=5)
    places = " and ".join(str(part.owner) for part in parts)
    changed = any(part.standing.word == "changed" for part in parts)
    what = f"{places} {'has changed since you trusted it' if changed else 'is not trusted'}: {why}"
    names = [name for part in parts for name in _news(part)]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    fix = "a person looks at it, and answers at a terminal: harness trust"
    return HarnessError(what, fix, f"{', '.join(names[:NAMED])}{more}", code=5)


def _news(part: Part) -> list[str]:
    standing = part.standing
    return [*standing.changed, *standing.added, *standing.removed] if standing.word == "changed" else list(part.pins)


def refuse_changes(before: Sequence[Part], now: Sequence[Part]) -> None:
    """What a person saw must be what is trusted. Raises HarnessError (exit 5)."""
    if [(part.owner, part.pins) for part in before] != [(part.owner, part.pins) for part in now]:
        raise HarnessError("it was changed while you were asked; nothing was run", "look again", code=5)


def refuse_unusable(at: Place, uses: Uses, parts: Sequence[Part]) -> None:
    """What cannot be used is not kept as trusted. Raises HarnessError (exit 2) with file and line.

    Settings and policies of a project are read at all only after a person's yes.
    """
    paths = {path for part in parts for path in part.paths}
    if at.project / SETTINGS in paths:
        read_file(at.project / SETTINGS, "project", at.project)
    whole = load(at.project, whole=at.project / PROJECT_FILE in paths)
    check_examples(whole.rules, lambda name: found_tool(at, name), at.project, whole)
    for folder, found in uses.skills.items():
        if (path := folder / "policy.yaml") in paths:
            below = narrowed(whole, path, "skill", at.project, home_of(os.environ))
            check_examples(below.rules[len(whole.rules) :], found.tools.get, at.project, below)


def settled_by(part: Part, word: Answer) -> Part:
    """The part once a person has answered for it."""
    return replace(part, standing=Standing("trusted" if word == "y" else "once"))


def keep(parts: Sequence[Part]) -> Book:
    """Remember that these are trusted as they are. Raises HarnessError where that cannot be kept."""
    seen = {path: known for part in parts for path, known in zip(part.paths, part.pins.values(), strict=True)}

    def change(book: Book) -> Book:
        for part in parts:
            entry = book.of(part.owner) or trust.fresh(part.owner)
            book = book.put(trust.with_files(entry, part.key, part.pins))
        return book

    return trust.update(state(), Path.home(), IO(), change, seen)


def keep_lent(at: Place, run: str) -> None:
    """Remember what a run may use though nobody trusts it, so that it can go on later."""
    def change(book: Book) -> Book:
        for owner, pins in at.lent.items():
            entry = book.of(owner) or trust.fresh(owner)
            book = book.put(trust.with_run(entry, run, pins, runs_dir(at)))
        return book

    if at.lent:
        trust.update(state(), Path.home(), IO(), change)
