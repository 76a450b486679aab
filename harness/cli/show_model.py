"""`harness show --prompt`, `--cost`, `--as-script`: what a run asked its model, what it cost, how to replay it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.cli.masking import masker_of
from harness.cli.options import Globals
from harness.cli.output import flags, print_json
from harness.cli.place import Place, catalog
from harness.errors import HarnessError
from harness.models.body import encode_turn
from harness.runs.composing import requests
from harness.view.cost import as_object, bill, cost_text
from harness.view.mode import current
from harness.view.prompt import prompt_text, what_differs


def print_prompt(said: Globals, at: Place, folder: Path, number: str) -> int:
    """Model call N as it was composed, on stdout; on stderr what it was, and whether it is still the same bytes."""
    found = list(requests(folder, catalog(at), masker_of(at).text))
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= len(found)):
        raise HarnessError(f"{folder.name} has no model call {number}", f"give a number from 1 to {len(found)}")
    request = found[int(number) - 1]
    prompt, differs = request.prompt, what_differs(request.prompt, request.fields) if request.sent else ""
    if said.json:
        print_json({
            "run": folder.name, "call": request.n, "turn": prompt.turn, "context": prompt.context,
            "model": request.fields.get("model", ""), "bytes": prompt.bytes, "body": prompt.body,
            "sent": request.sent or None, "same": not differs, "differs": differs or None,
            "parts": [[part.id, part.sha, part.bytes] for part in prompt.parts],
            "system": list(prompt.system), "turns": [encode_turn(turn) for turn in prompt.turns],
            **({"brief": prompt.brief.text} if prompt.brief is not None else {}),
        })  # fmt: skip
        return 0
    print(prompt_text(prompt), end="")
    where = f"call {request.n} of {len(found)}, turn {prompt.turn}, context {prompt.context}, {prompt.bytes} bytes"
    state = differs or (f"as sent, digest {request.sent}" if request.sent else "told to an agent, no request")
    print(f"{where}: {state}", file=sys.stderr)
    return 0


def print_cost(said: Globals, folder: Path) -> int:
    """What each part of a run used; the parts add up to what its last event says."""
    from harness.cli.show import read_events
    from harness.loop.ending import spent_below, spent_of
    from harness.runs.peek import read_state

    def below(name: str) -> Mapping[str, Any] | None:
        known = read_state(folder.parent / name)
        return spent_of(known, spent_below(known, folder.parent, read_state)) if known is not None else None

    made = bill(read_events(folder), below)
    if said.json:
        print_json({"run": folder.name, **as_object(made)})
    else:
        print(cost_text(made, current(flags(said)).out_width), end="")
    return 0


def write_script(at: Place, folder: Path, file: str) -> None:
    """Put the replies of a run that was just driven into a file; what cannot be recorded is said on stderr."""
    from harness.events.io import IO
    from harness.runs.record import script_of

    try:
        IO().put(Path(file).resolve(), script_of(folder, catalog(at), masker_of(at).text).encode())
    except HarnessError as error:
        print(f"warning: nothing was recorded: {error.message}", file=sys.stderr)
    except OSError as error:
        print(f"warning: nothing was recorded: {file}: {error.strerror}", file=sys.stderr)


def print_script(at: Place, folder: Path) -> int:
    """The replies of a run as a script."""
    from harness.runs.record import script_of

    print(script_of(folder, catalog(at), masker_of(at).text), end="")
    return 0
