"""Runs a command line and turns whatever it raises into one text on stderr and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

import typer

from harness.cli.app import group
from harness.cli.options import Globals
from harness.errors import HarnessError, near_text

ROOM = "make room, or write elsewhere"
MACHINE = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE,
)  # fmt: skip
CLOSED_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended: the reader of a list has seen enough."""


def run(arguments: list[str]) -> int:
    """The exit code of the command that `arguments` name. Never raises."""
    code = carried_out(arguments)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # a terminal that is gone; Python would end with a code of its own
            mute(stream)
    return code


def carried_out(arguments: list[str]) -> int:
    said = Globals()
    open_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name may hold any bytes
    try:
        code = group("").main(arguments, prog_name="harness", standalone_mode=False, obj=said)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        mute(sys.stdout, sys.stderr)
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001  everything that is left becomes one clear text
        try:
            return explain(error, said, arguments)
        except BrokenPipeError:
            mute(sys.stdout, sys.stderr)
            return CLOSED_PIPE


def open_closed() -> None:
    """Give a stream that is closed the null device: a file opened later must not take its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def mute(*streams: TextIO | None) -> None:
    """Let what is still in a stream's buffer vanish, so that Python does not complain about it when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        if stream is not None:
            os.dup2(nowhere, stream.fileno())


def explain(error: Exception, said: Globals, arguments: list[str]) -> int:
    """Print what went wrong (with `--output json` also as an object on stdout) and return the exit code."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, typer.Abort):
        return 130
    if isinstance(error, HarnessError):
        return tell(error, said)
    if hasattr(error, "format_message"):  # typer's usage errors have no public class
        return tell(usage_error(error), said, usage_line(error))
    if isinstance(error, OSError) and error.errno in MACHINE:
        return tell(machine_error(error, said), said)
    from harness.cli.bug import report

    return tell(report(error, arguments, hide_of(said)), said, traceback=error if said.verbose > 1 else None)


def machine_error(error: OSError, said: Globals) -> HarnessError:
    """A file that the machine does not let us use, or an output that it does not take: no bug."""
    reason = (error.strerror or str(error)).lower()
    if error.filename is None:
        mute(sys.stdout)
        fix = f"make room; the answer is kept: harness show {said.frame['run']}" if said.frame.get("run") else ROOM
        return HarnessError(f"the output cannot be written: {reason}", fix, code=3)
    return HarnessError(f"a file cannot be used: {reason}", "free the cause, then try again", str(error.filename), 3)


def tell(error: HarnessError, said: Globals, usage: str | None = None, traceback: Exception | None = None) -> int:
    from harness.view.text import escape  # not before something went wrong

    hide = hide_of(said)
    run = f"run: {said.frame['run']}" if said.frame.get("run") else None
    more = [escape(hide(line)) for line in (error.where, usage, run) if line]
    lines = _lines(escape(hide(error.message)), more, escape(hide(error.fix)))
    print("\n".join(lines), file=sys.stderr)
    if traceback is not None:
        from traceback import format_exception

        print(hide("".join(format_exception(traceback))), end="", file=sys.stderr)
    if said.json:
        import json

        where = error.where and hide(error.where)
        told = {"code": error.exit_code, "message": hide(error.message), "where": where, "fix": hide(error.fix)}
        print(json.dumps({**said.frame, "code": error.exit_code, "error": told}))
    return error.exit_code


def hide_of(said: Globals) -> Callable[[str], str]:
    """What masks the secrets in an error: what a person typed may be one."""
    if said.hide is None:
        from harness.cli.masking import late

        said.hide = late()
    return said.hide


def _lines(message: str, more: list[str], fix: str) -> list[str]:
    """What, where and the way out; on a terminal broken between words, and a command as a shell reads it."""
    if not sys.stderr.isatty():
        return [f"error: {message}", *(f"  {line}" for line in more), f"  fix: {fix}"]
    from harness.view.mode import terminal_size
    from harness.view.text import wrap
    from harness.view.typed import labelled

    columns = terminal_size()[0]
    lines = [line for text in more for line in wrap(text, columns, "  ")]
    return [*wrap(f"error: {message}", columns), *lines, *labelled("fix", fix, columns)]


def usage_error(error: Any) -> HarnessError:
    """A usage error of typer's in our words."""
    path = error.ctx.command_path if getattr(error, "ctx", None) else "harness"
    option = getattr(error, "option_name", None)
    if option in ("--yes", "-y"):
        return HarnessError(
            f"{path} has no {option}: nothing agrees to every call",
            "allow one call with --allow 'TOOL --opt=value', or write a rule into your policy.yaml",
        )
    if option is not None and "No such option" in str(error.message):
        known = [name for parameter in error.ctx.command.params for name in parameter.opts]
        return HarnessError(f"{path} has no option {option}{near_text(option, known)}", f"{path} -h")
    message = error.format_message().rstrip(".")
    return HarnessError(message[:1].lower() + message[1:], f"{_form(error, option)}{path} -h")


def _form(error: Any, option: str | None) -> str:
    """How an option is written that was given without its value, in front of where that is explained."""
    known = error.ctx.command.params if getattr(error, "ctx", None) else ()
    named = next((parameter for parameter in known if option in parameter.opts), None)
    return f"write {option} {named.metavar}; " if named is not None and named.metavar else ""


def usage_line(error: Any) -> str | None:
    if getattr(error, "ctx", None) is None:
        return None
    return " ".join(error.ctx.get_usage().split()).replace("Usage:", "usage:", 1)
