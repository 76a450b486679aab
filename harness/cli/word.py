"""`approve`, `deny` and `answer`: a person's word for a run that waits, put into its inbox."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import flags, print_json
from harness.cli.place import Place, catalog, place, runs_dir
from harness.cli.words import Pipe, text_of
from harness.errors import HarnessError
from harness.events.io import IO
from harness.runs.deliver import Waiting, one, put, waiting
from harness.runs.find import find_run
from harness.view.mode import current
from harness.view.text import escape

RunName = Annotated[str, typer.Argument(metavar="RUN", help="its folder, or a part of its id")]
Op = Annotated[int | None, typer.Argument(metavar="[OP]", help="the operation's number, if several wait")]
Digest = Annotated[str | None, typer.Option("--digest", metavar="D", help="what you approve, without a terminal")]
Why = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="the reason, told to the model")]
Resume = Annotated[bool, typer.Option("--resume", help="go on with the run here")]
MIN_DIGEST = 8


@manual("harness approve k3v9", "harness approve k3v9 9 --digest 5f3a09c1 --resume", codes=(0, 2, 3, 5, 7))
def approve(
    ctx: typer.Context, name: RunName, op: Op = None, digest: Digest = None, why: Why = None, resume: Resume = False
) -> int:
    """Say yes to a call that waits. At a terminal it is shown first; elsewhere its digest must be given."""
    said, at, target = _target(ctx, name, op, question=False)
    if digest is None:
        return _at_terminal(said, at, target, resume)
    if len(digest) < MIN_DIGEST or not str(target.op.digest).startswith(digest):
        what = f"operation {target.op.n} has the digest {target.op.digest}"
        raise HarnessError(what, f"look again: harness show {target.folder.name}", code=5)
    put(target, IO(), {"kind": "approve", "digest": target.op.digest, "why": why or ""})
    return _said(said, at, target, "approved", resume)


@manual('harness deny k3v9 9 --why "not on prod"', codes=(0, 2, 3))
def deny(ctx: typer.Context, name: RunName, op: Op = None, why: Why = None, resume: Resume = False) -> int:
    """Say no to a call that waits."""
    said, at, target = _target(ctx, name, op, question=False)
    put(target, IO(), {"kind": "deny", "why": why or ""})
    return _said(said, at, target, "denied", resume)


@manual("harness answer k3v9 use the EU cluster", "harness answer k3v9 9 pods --resume", codes=(0, 2, 3, 10))
def answer(
    ctx: typer.Context,
    name: RunName,
    text: Annotated[list[str] | None, typer.Argument(metavar="[OP] TEXT…", help="the answer; - reads stdin")] = None,
    file: Annotated[str | None, typer.Option("-f", metavar="FILE", help="take the text from FILE")] = None,
    resume: Resume = False,
) -> int:
    """Answer a question that a run waits for. The first word is the operation if that number waits."""
    said = globals_of(ctx)
    at = place(said)
    folder = find_run(runs_dir(at), name, allow_last=False)
    typed = list(text or ())
    asked = {w.op.n for w in waiting(folder) if w.question}
    n = int(typed.pop(0)) if typed and typed[0].isdigit() and int(typed[0]) in asked else None
    target = one(folder, n, question=True)
    words = text_of(typed, file, Pipe())
    if words is None or not words.text.strip():
        raise HarnessError("there is no answer", f"harness answer {name} TEXT", code=10)
    put(target, IO(), {"kind": "answer", "text": words.text})
    return _said(said, at, target, "answered", resume)


def _target(ctx: typer.Context, name: str, op: int | None, question: bool) -> tuple[Globals, Place, Waiting]:
    said = globals_of(ctx)
    at = place(said)
    folder = find_run(runs_dir(at), name, allow_last=False)
    return said, at, one(folder, op, question)


def _at_terminal(said: Globals, at: Place, target: Waiting, resume: bool) -> int:
    """Show the call as it will run and ask. Raises HarnessError (exit 5) where nobody can be asked."""
    mode = current(flags(said))
    op = target.op
    if not mode.can_ask:
        fix = f"harness approve {target.folder.name} {op.n} --digest {str(op.digest)[:MIN_DIGEST]}"
        raise HarnessError(f"operation {op.n} must be shown to a person, and there is no terminal", fix, code=5)
    from harness.cli.asking import Terminal
    from harness.view.quiet import Quiet

    request: dict[str, Any] = {
        "run": target.folder.name, "op": op.n, "skill": target.state.start.get("skill", ""), "tool": op.tool,
        "effect": op.effect, "path": op.tool, "argv": list(op.argv or ()), "cwd": str(at.project),
        "digest": op.digest or "", "reasons": list(op.reasons), "turn": op.turn, "n": 1, "of": 1,
    }  # fmt: skip
    answer = Terminal(Quiet(), mode).approve(request, lambda: False)
    if answer.verdict == "allow":
        put(target, IO(), {"kind": "approve", "digest": op.digest, "why": ""})
        return _said(said, at, target, "approved", resume)
    if answer.verdict == "deny":
        put(target, IO(), {"kind": "deny", "why": answer.why or ""})
        return _said(said, at, target, "denied", resume)
    raise HarnessError(f"operation {op.n} still waits", f"harness approve {target.folder.name} {op.n}", code=5)


def _said(said: Globals, at: Place, target: Waiting, what: str, resume: bool) -> int:
    """Say what still waits and how to go on, or go on here."""
    top = _top(target)
    if resume:
        from harness.cli.driving import drive, options_of
        from harness.runs.session import resume as resume_session

        options = options_of(said, None, None, (), (), at).without_model()
        folder = runs_dir(at) / top
        return drive(said, at, lambda world: resume_session(world, catalog(at), folder, None, options))
    left = [w for w in waiting(runs_dir(at) / top) if w.op.n != target.op.n or w.folder != target.folder]
    if said.json:
        print_json({"run": target.folder.name, "op": target.op.n, "word": what, "waiting": [w.op.n for w in left]})
    elif not said.quiet:
        for w in left:
            typer.echo(escape(f"still waiting: #{w.op.n} {w.op.tool}"), err=True)
        typer.echo(f"{what} #{target.op.n}; go on: harness resume {top}", err=True)
    return 0


def _top(target: Waiting) -> str:
    """The run that a person goes on with: the outermost parent."""
    folder, start = target.folder, target.state.start
    while start.get("parent"):
        from harness.runs.begin import peek

        folder = folder.parent / start["parent"]["run"]
        start = peek(folder)
    return folder.name
