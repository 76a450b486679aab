"""`approve`, `deny` and `answer`: a person's word for a run that waits, put into its inbox."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from harness.cli.masking import hide_of, masker_of
from harness.cli.options import Globals, globals_of, manual
from harness.cli.output import flags, print_json, say
from harness.cli.place import Place, catalog, ledger, logs, place, runs_dir
from harness.cli.words import Pipe, text_of
from harness.errors import HarnessError
from harness.events.io import IO
from harness.events.log import follow
from harness.events.receipt import asker_of, options_in
from harness.events.scan import blob_text
from harness.events.words import AGENT
from harness.policy.showing import approval, changed
from harness.runs.deliver import Waiting, meant, one, put, speaker, top_of, waiting
from harness.runs.find import find_run, short_id
from harness.runs.list import is_owned
from harness.view.ask import approval_text
from harness.view.mode import Mode, current
from harness.view.text import escape

RunName = Annotated[str, typer.Argument(metavar="RUN", help="its folder, or a part of its id")]
Op = Annotated[int | None, typer.Argument(metavar="[OP]", help="the operation's number, if several wait")]
Digest = Annotated[str | None, typer.Option("--digest", metavar="D", help="what you approve, without a terminal")]
Why = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="the reason, told to the model")]
Resume = Annotated[bool, typer.Option("--resume", help="go on with the run here")]
MIN_DIGEST = 8
UNCUT = 10_000
"""Columns of a call that is shown where there is no terminal."""


@manual("harness approve k3v9", "harness approve k3v9 9 --digest 5f3a09c1 --resume", codes=(0, 2, 3, 5))
def approve(
    ctx: typer.Context, name: RunName, op: Op = None, digest: Digest = None, why: Why = None, resume: Resume = False
) -> int:
    """Say yes to a call that waits. At a terminal it is shown first; elsewhere its digest must be given."""
    said, at, found = _found(ctx, name, op, resume)
    if digest is None:
        return _at_terminal(said, at, found, resume)
    target = one(found, digest if op is not None else "")
    _refuse_without_terminal(target)
    if len(digest) < MIN_DIGEST or not str(target.op.digest).startswith(digest):
        what = f"operation {target.op.n} has the digest {target.op.digest}"
        raise HarnessError(what, f"look again: harness show {target.folder.name}", code=5)
    said_yes = {"kind": "approve", "digest": target.op.digest, "why": why or "", "at": time.time()}
    put(target, IO(), said_yes, hide_of(at), logs())
    return said_words(said, at, [(target, "approved")], resume)


@manual('harness deny k3v9 9 --why "not on prod"', codes=(0, 2, 3))
def deny(ctx: typer.Context, name: RunName, op: Op = None, why: Why = None, resume: Resume = False) -> int:
    """Say no to a call that waits."""
    said, at, found = _found(ctx, name, op, resume)
    target = one(found)
    put(target, IO(), {"kind": "deny", "why": why or ""}, hide_of(at), logs())
    return said_words(said, at, [(target, "denied")], resume)


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
    at = place(said, asks=resume)
    folder = find_run(runs_dir(at), name, allow_last=False)
    typed, found = list(text or ()), meant(folder, None, "answer")
    if typed and typed[0].isdigit() and (named := [w for w in found if w.op.n == int(typed[0])]):
        del typed[0]
        found = named
    elif typed and typed[0].isdigit() and len(typed) > 1 and len(found) == 1:
        say(said, f"#{typed[0]} waits for no answer, so that number is part of the answer to #{found[0].op.n}")
    words = text_of(typed, file, Pipe())
    if words is None:
        return _answer_at_terminal(said, at, found, resume)
    target = one(found)
    if not current(flags(said)).can_ask:
        refuse_for_agent(target.folder)
    if not words.text.strip():
        raise HarnessError("the answer is empty", f"harness answer {name} {target.op.n} TEXT", code=10)
    by = {} if words.source == "user" else {"by": words.source}
    put(target, IO(), {"kind": "answer", "text": words.text, **by}, hide_of(at), logs())
    return said_words(said, at, [(target, "answered")], resume)


def _found(ctx: typer.Context, name: str, op: int | None, resume: bool) -> tuple[Globals, Place, list[Waiting]]:
    said = globals_of(ctx)
    at = place(said, asks=resume)
    folder = find_run(runs_dir(at), name, allow_last=False)
    return said, at, meant(folder, op, "approval")


def _refuse_without_terminal(target: Waiting) -> None:
    """Raises HarnessError (exit 5) for a call that a process which is no person could say yes to, too."""
    refuse_for_agent(target.folder)
    if target.op.level in ("none", "limits"):
        what = f"#{target.op.n} would run at confinement {target.op.level}: a yes to it counts at a terminal only"
        raise HarnessError(what, "say it at a terminal", code=5)


def refuse_for_agent(folder: Path) -> None:
    """Raises HarnessError (exit 5) for a run that an agent drives: it has a shell of its own to speak with."""
    if speaker(top_of(folder)) == AGENT:
        what = "an agent drives this run: a person's word on it counts at a terminal only"
        raise HarnessError(what, "say it at a terminal", code=5)


def _at_terminal(said: Globals, at: Place, found: list[Waiting], resume: bool) -> int:
    """Show each call as it will run and ask. Raises HarnessError (exit 5) where nobody can be asked."""
    mode = current(flags(said))
    if not mode.can_ask:
        target = one(found)
        typer.echo(approval_text(_request(at, target), UNCUT), err=True, nl=False)
        _refuse_without_terminal(target)
        fix = f"harness approve {target.folder.name} {target.op.n} --digest {str(target.op.digest)[:MIN_DIGEST]}"
        what = f"operation {target.op.n} must be shown to a person, and there is no terminal"
        raise HarnessError(what, fix, code=5)
    terminal, words = _terminal(at, mode), []
    for number, target in enumerate(found, 1):
        request = _request(at, target) | {"n": number, "of": len(found)}
        reply = terminal.approve(request, lambda: False)
        if reply.verdict == "allow":
            said_yes = {"kind": "approve", "digest": target.op.digest, "why": "", "grant": reply.grant}
            put(target, IO(), said_yes | {"at": time.time()}, hide_of(at), logs())
        elif reply.verdict == "deny":
            put(target, IO(), {"kind": "deny", "why": reply.why or ""}, hide_of(at), logs())
        else:
            break
        words.append((target, "approved" if reply.verdict == "allow" else "denied"))
    if not words:
        raise HarnessError(f"#{found[0].op.n} still waits", f"harness approve {found[0].folder.name}", code=5)
    return said_words(said, at, words, resume)


def _answer_at_terminal(said: Globals, at: Place, found: list[Waiting], resume: bool) -> int:
    """Put each question to the person. Raises HarnessError (exit 10) where nobody can be asked."""
    mode = current(flags(said))
    first = found[0]
    nobody = HarnessError(
        "there is no answer", f"harness answer {first.folder.name} {first.op.n} TEXT", code=10
    )  # fmt: skip
    if not mode.can_ask:
        raise nobody
    terminal, words = _terminal(at, mode), []
    for target in found:
        options = options_in(target.op, partial(blob_text, target.folder))
        reply = terminal.question(question_of(target), options, lambda: False, asker_of(target.op))
        if reply is None:
            break
        put(target, IO(), {"kind": "answer", "text": reply}, hide_of(at), logs())
        words.append((target, "answered"))
    if not words:
        raise nobody
    return said_words(said, at, words, resume)


def question_of(target: Waiting) -> str:
    """What the model asks, or a verifier."""
    text: Any = target.state.question if target.op.verb == "verify" else target.op.arguments.get("question", "")
    return blob_text(target.folder, text)


def _terminal(at: Place, mode: Mode) -> Any:
    from harness.cli.asking import Terminal
    from harness.view.quiet import Quiet

    return Terminal(Quiet(), mode, runs_dir(at), masker_of(at).text)


def _request(at: Place, target: Waiting) -> dict[str, Any]:
    """What the prompt shows of a call: as it was decided, with the file that would run."""
    op, path = target.op, _path(at, target)
    text, events = partial(blob_text, target.folder), follow(target.folder)
    shown = approval(target.state, op, events, text, target.folder.name, path, str(at.project))
    return shown | changed(ledger(at), op.asked.get("void", ""), path, events, text)


def _path(at: Place, target: Waiting) -> str:
    """The file of the tool as the run means its name; the name itself where there is none any more."""
    from harness.runs.kit import run_places
    from harness.skills.stages import find_tool

    tool = find_tool(found := catalog(at), run_places(found, target.state.start), target.op.tool)
    return str(tool.path) if tool is not None else target.op.tool


def said_words(said: Globals, at: Place, words: list[tuple[Waiting, str]], resume: bool) -> int:
    """Say what still waits and how to go on, or go on here."""
    top = top_of(words[0][0].folder).name
    if resume:
        from harness.cli.driving import drive, options_of
        from harness.cli.trusting import answered
        from harness.runs.session import resume as resume_session
        from harness.runs.uses import run_uses

        folder, found = runs_dir(at) / top, catalog(at)
        at = answered(said, at, run_uses(found, folder), folder)
        options = options_of(said, None, None, (), (), at).without_model()
        return drive(said, at, lambda world: resume_session(world, found, folder, None, options))
    spoken = {(w.folder, w.op.n) for w, _ in words}
    left = [w for w in waiting(runs_dir(at) / top) if (w.folder, w.op.n) not in spoken]
    if said.json:
        target, what = words[-1]
        print_json({"run": target.folder.name, "op": target.op.n, "word": what, "waiting": [w.op.n for w in left]})
    elif not said.quiet:
        for w in left:
            typer.echo(escape(f"still waiting: #{w.op.n} {w.op.tool}"), err=True)
        told = ", ".join(f"{what} #{target.op.n}" for target, what in words)
        typer.echo(f"{told}; {_go_on(runs_dir(at) / top)}", err=True)
    return 0


def _go_on(top: Path) -> str:
    """How the run acts on a word: by itself while somebody drives it, else by whoever goes on with it."""
    if is_owned(top):
        return f"the run goes on with it by itself: harness show {short_id(top.name)} -F"
    return f"go on: harness {'step' if speaker(top) == AGENT else 'resume'} {short_id(top.name)}"
