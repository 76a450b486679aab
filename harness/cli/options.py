"""What all commands share on the command line: the global options, and how a command documents itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import typer

from harness.errors import HarnessError, near_text

F = TypeVar("F", bound=Callable[..., int])

VERBOSE = "print decisions; twice: timings, tracebacks"
OUTPUTS = ("text", "json", "stream-json")


@dataclass(slots=True)
class Globals:
    """What the global options said, wherever they stood; the later one won.

    `output` is None where nothing was said; `glyphs` comes from the settings alone. `frame` is what the object of a
    failed command holds beside the error, and names the run that was open. `hide` masks secrets in a text, once it is
    known which there are.
    """

    folder: str | None = None
    quiet: bool = False
    verbose: int = 0
    plain: bool = False
    no_color: bool = False
    no_input: bool = False
    output: str | None = None
    glyphs: str = "auto"
    frame: dict[str, Any] = field(default_factory=dict)
    hide: Callable[[str], str] | None = None

    @property
    def json(self) -> bool:
        return self.output == "json"


@contextmanager
def usage_of(ctx: Any) -> Iterator[None]:
    """A usage error names the command that it is about: some that the parser raises do not."""
    try:
        yield
    except Exception as error:
        if getattr(error, "ctx", ctx) is None:
            error.ctx = ctx  # type: ignore[attr-defined]
        raise


def globals_of(ctx: typer.Context) -> Globals:
    """The global options of the command that runs."""
    assert isinstance(ctx.obj, Globals)
    return ctx.obj


def global_parameters(
    folder: Annotated[str | None, typer.Option("-C", metavar="DIR", help="work as if started in DIR")] = None,
    quiet: Annotated[bool, typer.Option("-q", help="print errors and questions only")] = False,
    verbose: Annotated[int, typer.Option("-v", count=True, show_default=False, help=VERBOSE)] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="plain lines, no colour, ASCII")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="no colour")] = False,
    no_input: Annotated[bool, typer.Option("--no-input", help="never ask; CI implies it")] = False,
    output: Annotated[str | None, typer.Option("--output", metavar="FORMAT", help="text or json")] = None,
    json: Annotated[bool, typer.Option("--json", help="short for --output json")] = False,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    """Never called: typer reads the options off this signature, `take_global` receives their values."""


def take_global(ctx: typer.Context, name: str, value: Any) -> None:
    """Note one given global option. Raises HarnessError for an output format that does not exist."""
    said = globals_of(ctx)
    if name == "version":
        from harness import __version__

        typer.echo(f"harness {__version__}")
        raise typer.Exit(0)
    if name == "json":
        said.output = "json"
    elif name == "verbose":
        said.verbose += int(value)
    elif name == "output" and value not in OUTPUTS:
        raise HarnessError(f"--output {value} is no format{near_text(value, OUTPUTS)}", "use text, json or stream-json")
    else:
        setattr(said, name, value)


@dataclass(frozen=True, slots=True)
class Manual:
    """What help says below a command's options, and how its words are read.

    `codes` are exit codes of the table in `harness.errors`; `notes` are further lines about them. `foreign` means that
    everything after the first word belongs to another program; `streams` that `--output stream-json` makes sense.
    """

    examples: tuple[str, ...]
    codes: tuple[int, ...] = (0, 2, 3)
    notes: tuple[str, ...] = ()
    foreign: bool = False
    streams: bool = False


def manual(*examples: str, **details: Any) -> Callable[[F], F]:
    """Attach a Manual to a command's function."""

    def attach(function: F) -> F:
        function.manual = Manual(examples, **details)  # type: ignore[attr-defined]
        return function

    return attach


def exit_codes() -> dict[int, str]:
    """The table of `harness.errors`, code → words."""
    from harness import errors

    rows = (line.split(None, 1) for line in (errors.__doc__ or "").splitlines())
    return {int(row[0]): row[1] for row in rows if len(row) == 2 and row[0].isdigit()}


def epilog(manual: Manual) -> str:
    """Examples and exit codes, kept line by line (`\\b`)."""
    codes = exit_codes()
    lines = ["\b", "Examples:", *(f"  {example}" for example in manual.examples), "", "\b", "Exit codes:"]
    lines += [f"  {code:<4} {codes[code]}" for code in manual.codes]
    return "\n".join([*lines, *(f"  {note}" for note in manual.notes)])
