"""`harness prompt`: one question to a model, journaled; its reply on stdout."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.driving import drive, options_of
from harness.cli.options import globals_of, manual
from harness.cli.outcome import write_out
from harness.cli.place import place
from harness.cli.run import Budget, File, Inputs, ModelName, Out
from harness.cli.trusting import answered
from harness.cli.words import Pipe, from_file, pairs_of, text_of
from harness.errors import NoModelError
from harness.loop.question import SKIPPED, question
from harness.runs.asking import start_question
from harness.runs.uses import question_uses


@manual(
    "harness prompt which failure is this -i log=@batch.log --choice oom,disk",
    "harness prompt -f classify.md -i log=@batch.log --schema failure.json",
    codes=(0, 1, 2, 3, 4, 6, 75, 124, 130),
    streams=True,
)
def prompt(
    ctx: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="[TEXT…]", help="the question; - reads stdin")] = None,
    file: File = None,
    inputs: Inputs = None,
    system: Annotated[str | None, typer.Option("--system", metavar="FILE", help="what the model is told first")] = None,
    model: ModelName = None,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="strong or cheap")] = "strong",
    schema: Annotated[str | None, typer.Option("--schema", metavar="FILE", help="want JSON that fits this")] = None,
    choice: Annotated[str | None, typer.Option("--choice", metavar="A,B", help="want one of these words")] = None,
    tokens: Annotated[str | None, typer.Option("--max-tokens", metavar="N", help="at most so long a reply")] = None,
    optional: Annotated[bool, typer.Option("--optional", help="without a model go on: exit 0")] = False,
    budget: Budget = None,
    out: Out = None,
) -> int:
    """Ask a model one question, without tools. Inputs are told as data, wherever the text means ${inputs.NAME}."""
    said, pipe = globals_of(ctx), Pipe()
    text = text_of(words or (), file, pipe)
    pairs = {key: value.text for key, value in pairs_of(inputs or (), pipe).items()}
    given = {"--role": role, "--schema": schema, "--choice": choice, "--max-tokens": tokens}
    asked = question(
        text.text if text else "", pairs, from_file(system) if system else "",
        {key: value for key, value in given.items() if value is not None},
        from_file(schema) if schema else "", optional,
    )  # fmt: skip
    at = place(said, asks=True)
    at = answered(said, at, question_uses())
    options = options_of(said, model, budget, (), (), at, words=text)
    try:
        return drive(said, at, lambda world: start_question(world, asked, at.project, options), out)
    except NoModelError:
        if not optional:
            raise
        write_out(f"{SKIPPED}\n".encode())
        return 0
