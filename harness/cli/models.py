"""`harness models list` and `check`: what would speak here, why and for how much, and whether it does."""

from __future__ import annotations

import time
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import print_json, print_table, say
from harness.cli.place import Place, place
from harness.errors import HarnessError, NoModelError
from harness.events.state import LABEL
from harness.models import FREE, Facts, Failure, ModelRef, Opening
from harness.models import weights as pins
from harness.models.choice import ROLES, automatic, choose, named_model, said_of, unusable, wishes_of
from harness.models.prices import rates, tables
from harness.models.resolve import open_model, resolve
from harness.view.text import plural, size

Row = dict[str, Any]


@manual("harness models", "harness models --json", codes=(0, 2, 3))
def list_models(ctx: typer.Context) -> int:
    """Which model each role has, what is taken when none is named, the weights on this machine, and known prices."""
    said = globals_of(ctx)
    at = place(said)
    found: Row = {
        "roles": [role_row(at, role) for role in ROLES], "automatic": taken_row(),
        "weights": [weights_row(name) for name in pins.installed()], "library": pins.has_library(),
        "prices": price_tables(date.today()),
    }  # fmt: skip
    for error in unusable(wishes_of(at.config)):
        say(said, f"warning: {error.where}: {error.message}; fix: {error.fix}")
    if said.json:
        print_json(found)
    else:
        print_models(said, found)
    return 0


def print_models(said: Globals, found: Row) -> None:
    """The same as tables."""
    print_table(said, ("ROLE", "MODEL", "PRICE", "FROM"), [tuple(row.values()) for row in found["roles"]])
    taken = found["automatic"]
    print(f"\nautomatic: {taken['model'] or 'nothing to take'} ({taken['why']})\n")
    if found["weights"]:
        rows = [(row["name"], size(row["bytes"] or 0), row["licence"], row["state"], row["path"])
                for row in found["weights"]]  # fmt: skip
        print_table(said, ("WEIGHTS", "SIZE", "LICENCE", "STATE", "FILE"), rows)
        if not found["library"]:
            say(said, f"{pins.LIBRARY}, which runs them, is not installed: {pins.INSTALL}")
    else:
        say(said, "no weights are here; a small model to try things with: harness models add smollm2-135m")
    for table in found["prices"]:
        print(f"\n{table['of']} prices, USD per million tokens{age_text(table)}:")
        cells = [tuple(row.values()) for row in table["models"]]
        print_table(said, ("MODEL", "IN", "OUT", "WRITE 5M", "1H", "READ", "CHECKED"), cells)


def role_row(at: Place, role: str) -> Row:
    """A role with the model that somebody named for it, and where, or why it may not be named there."""
    try:
        named = named_model(said_of(at.config), wishes_of(at.config), None, role)
    except HarnessError as error:
        return {"role": role, "model": "unusable", "price": "", "from": f"{error.where}: {error.message}"}
    if named is None:
        return {"role": role, "model": "automatic", "price": "", "from": "default"}
    return {"role": role, "model": named.text, "price": rates(named.price), "from": named.source}


def taken_row() -> Row:
    """What is taken for a skill without a pipeline when nobody named a model, and why; or why nothing is."""
    try:
        ref = automatic(None)
    except NoModelError as error:
        return {"model": None, "why": error.message}
    return {"model": ref.text, "why": "; ".join(ref.checks)}


def price_tables(today: date) -> list[Row]:
    """The user's own prices and the shipped ones, each with its day and its age in days."""
    found = []
    for name, table in tables():
        rows = [price_row(model, facts) for model, facts in table.entries.items()]
        age = None if table.as_of is None else (today - table.as_of).days
        found.append({"of": name, "as-of": table.as_of, "days": age, "models": rows})
    return found


def price_row(model: str, facts: Facts) -> Row:
    price = facts.price or FREE
    rates = {"in": price.input, "out": price.out, "write": price.written, "write_1h": price.written_1h,
             "read": price.cached}  # fmt: skip
    over = f" (over {price.over} tokens: times {price.times})" if price.over else ""
    return {"model": f"{model}{over}", **{key: str(rate) for key, rate in rates.items()},
            "checked": str(facts.checked or "")}  # fmt: skip


def age_text(table: Row) -> str:
    return "" if table["days"] is None else f", of {table['as-of']} ({plural(table['days'], 'day')} old)"


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


Model = Annotated[str | None, typer.Argument(metavar="MODEL", help="a model string; else that of each role")]


@manual(
    "harness models check", "harness models check local:smollm2-135m", codes=(0, 1, 2, 3, 4, 75),
    notes=("each is asked once, for as little as it can say; a priced one costs a fraction of a cent",),
)  # fmt: skip
def check(ctx: typer.Context, model: Model = None) -> int:
    """Ask a model for the smallest reply, and say what came of it."""
    said = globals_of(ctx)
    at = place(said)
    how = Opening(Path.cwd(), None, keys=wishes_of(at.config).keys)
    rows = [check_row(ref, how) for ref in asked_for(at, model)]
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


def check_row(ref: ModelRef, how: Opening) -> Row:
    """One call. A model that cannot be opened is a row, too, so that the others are still asked."""
    started = time.monotonic()
    try:
        code, state, said = _asked(ref, how)
    except HarnessError as error:
        code, state, said = error.exit_code, "unusable", f"{error.message}; fix: {error.fix}"
    ms = round((time.monotonic() - started) * 1000)
    return {"model": ref.text, "state": state, "code": code, "ms": ms, "said": said, "demonstration": ref.demonstration}


def _asked(ref: ModelRef, how: Opening) -> tuple[int, str, str]:
    """Exit code, state in a word, what was said."""
    from harness.models.asking import SMALLEST

    if ref.scheme in ("none", "scripted"):
        if ref.scheme == "scripted":
            open_model(ref, how)
        return 0, "ok", "there is nobody to ask"
    model = open_model(ref, how)
    try:
        reply = model(SMALLEST, on=lambda text: None)
    finally:
        model.close()
    if isinstance(reply, Failure):
        return reply.exit_code, reply.reason, reply.message.split("\n", 1)[0]
    said = reply.text or ", ".join(str(call.arguments.get("tool", call.verb)) for call in reply.calls)
    return (0, "ok", said) if said or reply.content else (1, "empty", "the reply holds nothing")
