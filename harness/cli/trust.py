"""`harness trust`: look at a project and let its skills and tools act, mark one's own work, list, take it back."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import flags, print_json, print_table, say
from harness.cli.place import catalog, place, project_root, scope
from harness.cli.trusting import ask, keep, read_book, refuse_changes, refuse_unusable, refused, state
from harness.errors import HarnessError
from harness.events.io import IO
from harness.policy import trust as record
from harness.policy.trust import Book, Entry
from harness.runs.uses import all_uses, digest_of, parts_of
from harness.skills.discovery import find_project
from harness.view.mode import current
from harness.view.text import escape, plural
from harness.view.trust import ask_own

SHOWN = 12


@manual(
    "harness trust",
    "harness trust ~/src/shop",
    "harness trust --own",
    "harness trust --digest 0b1c…",
    "harness trust --revoke",
    codes=(0, 2, 3, 5),
    notes=(
        "Trust is a person's word, given at a terminal. Where there is none, as in CI, it is given with the digest of",
        "what a person has looked at, which `harness trust` prints once the answer was yes.",
        "Until then nothing of a project is started, and its settings and policy are not read.",
        "Trust grants no permission: your policy decides each call as before.",
    ),
)
def trust(
    ctx: typer.Context,
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="a folder; else the current project")] = None,
    own: Annotated[bool, typer.Option("--own", help="it is your own work: pin nothing, never ask")] = False,
    digest: Annotated[
        str | None, typer.Option("--digest", metavar="D", help="trust what has this digest, without a terminal")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="list what is trusted")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="take it back")] = False,
) -> int:
    """Show what a project brings and ask once; it is pinned, so that what changes asks again."""
    said = globals_of(ctx)
    if own + listed + revoke + (digest is not None) > 1:
        raise HarnessError("--own, --digest, --list and --revoke are four things", "give one of them")
    if listed:
        return _list(said)
    if revoke:
        return _revoke(said, path)
    if path is not None:
        _go_to(path)
    return _own(said, project_root()) if own else _look(said, digest)


def _go_to(path: str) -> None:
    try:
        os.chdir(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HarnessError(f"cannot look at {path}: {reason}", "name a folder") from error


def _look(said: Globals, digest: str | None) -> int:
    at = place(said, asks=True)
    book, within, uses = read_book(), scope(at), all_uses(catalog(at))
    entry, parts, whole = book.of(at.project), parts_of(uses, within, book), parts_of(uses, within, Book())
    asked = [part for part in parts if not part.is_settled]
    if not whole:
        say(said, f"{at.project} brings nothing that needs trust")
        return 0
    if digest is not None and digest != digest_of(whole, at.project):
        fix = "a person looks at it again, at a terminal: harness trust"
        raise HarnessError(f"{at.project} is not what has this digest", fix, "--digest", 5)
    if asked:
        if digest is None and ask(said, at, uses, asked, book, once=False) != "y":
            raise refused(at, asked, "you said no")
        refuse_changes(parts, parts_of(uses, within, book))
        refuse_unusable(at, uses, asked)
        entry = keep(asked).of(at.project)
    return _print(said, entry or record.fresh(at.project), digest_of(whole, at.project))


def _own(said: Globals, project: Path) -> int:
    """Raises HarnessError (exit 5) unless a person says so at a terminal."""
    entry = read_book().of(project)
    if entry is None or not entry.own:
        word = ask_own(str(project)) if current(flags(said)).can_ask else None
        if word != "y":
            why = "you said no" if word else "nobody can be asked here"
            raise HarnessError(f"whether {project} is your own work is a person's word: {why}",
                               "a person says it, at a terminal", code=5)  # fmt: skip
        entry = replace(record.fresh(project), own=True)
        record.update(state(), Path.home(), IO(), lambda book: book.put(entry))
    return _print(said, entry)


def _print(said: Globals, entry: Entry, digest: str = "") -> int:
    """What is pinned, on stdout; on stderr how the same is trusted where nobody can be asked."""
    if said.json:
        more = {"digest": digest} if digest else {}
        print_json({"path": entry.path, "own": entry.own, "files": dict(entry.files), **more})
    elif entry.own:
        print(escape(f"{entry.path}  own: nothing is pinned, nothing asks"))
    else:
        rows = [(name, *_parts(known)) for name, known in sorted(entry.files.items())]
        print_table(said, ("FILE", "KIND", "SHA-256"), rows)
        say(said, f"{entry.path} is trusted as it is; what changes asks again")
    if digest:
        say(said, f"where nobody can be asked, as in CI: harness trust --digest {digest}")
    return 0


def _parts(known: str) -> tuple[str, str]:
    kind, _, digest = known.partition(" ")
    return kind, digest[:SHOWN]


def _list(said: Globals) -> int:
    entries = sorted(read_book().entries, key=lambda entry: entry.path)
    if said.json:
        print_json({"projects": [_object(entry) for entry in entries]})
        return 0
    if not entries:
        say(said, "nothing is trusted yet; look at a project and trust it: harness trust")
        return 0
    rows = [(e.path, _state(e), time.strftime("%Y-%m-%d %H:%M", time.localtime(e.since))) for e in entries]
    print_table(said, ("PATH", "STATE", "SINCE"), rows)
    return 0


def _object(entry: Entry) -> Mapping[str, object]:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.since))
    return {"path": entry.path, "state": _state(entry), "since": since, "files": dict(entry.files)}


def _state(entry: Entry) -> str:
    if not record.is_same(entry, Path(entry.path)):
        return "gone or replaced: asks again"
    if entry.own:
        return "own"
    return plural(len(entry.files), "file") if entry.files else "single runs only"


def _revoke(said: Globals, path: str | None) -> int:
    folder = Path(path).resolve() if path is not None else project_root()
    folder = find_project(folder) if folder.is_dir() else folder
    known = any(entry.path == str(folder) for entry in read_book().entries)
    if known:
        record.update(state(), Path.home(), IO(), lambda book: book.without(str(folder)))
    if said.json:
        print_json({"path": str(folder), "revoked": known})
    else:
        say(said, f"{folder} is not trusted any more" if known else f"{folder} was not trusted")
    return 0
