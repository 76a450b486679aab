"""Which commands there are, as a table; a command's module is imported when it is used, never for help or a typo."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from harness.cli.options import Globals, Manual, epilog, global_parameters, globals_of, take_global, usage_of
from harness.cli.values import spare_validation
from harness.errors import HarnessError, near_text, nearest


class Row(NamedTuple):
    """Where a command's function is (`module:function` below `harness.cli`), its panel in help, what it does."""

    target: str
    panel: str
    line: str


WORK, DRIVE, LOOK = "Do work", "Be the model of a run (run --agent)", "Look, check, make"

TABLE: dict[str, Row] = {
    "run": Row("run:run", WORK, "Run a skill on a goal."),
    "resume": Row("run:resume", WORK, "Go on with a run from its journal."),
    "approve": Row("word:approve", WORK, "Say yes to a call that waits."),
    "deny": Row("word:deny", WORK, "Say no to a call that waits."),
    "answer": Row("word:answer", WORK, "Answer a question that a run waits for."),
    "settle": Row("settle:settle", WORK, "Say what became of a call whose outcome is unknown."),
    "stop": Row("stop:stop", WORK, "Stop a run that is running, or that waits."),
    "fork": Row("again:fork", WORK, "Begin a new run where another one stood."),
    "amend": Row("again:amend", WORK, "Declare a result stale, or supply one by hand."),
    "step": Row("agent:step", DRIVE, "Run one tool as the model of a run."),
    "read": Row("agent:read", DRIVE, "Read a file as the model of a run."),
    "finish": Row("agent:finish", DRIVE, "Propose the answer as the model of a run."),
    "prompt": Row("prompt:prompt", WORK, "Ask a model one question."),
    "pipeline": Row("pipeline:pipeline", WORK, "Run a pipeline file."),
    "runs": Row("", LOOK, "Runs: what was done, and what waits."),
    "runs list": Row("runs:list_runs", LOOK, "List runs, newest first."),
    "runs wake": Row("wake:wake", LOOK, "Resume each waiting run whose time has come."),
    "runs prune": Row("runs_delete:prune", LOOK, "Delete runs that have ended."),
    "runs redact": Row("runs_delete:redact", LOOK, "Take a text or a value out of a run for good."),
    "eval": Row("", LOOK, "Try a skill on its cases: harness eval SKILL (-h for its options)."),
    "eval run": Row("evaluate:evaluate", LOOK, "Try a skill on its cases; `harness eval SKILL` is the same."),
    "eval mine": Row("mine:mine", LOOK, "Group runs that did not pass by cause; make cases of some."),
    "show": Row("show:show", LOOK, "Show a run: its steps, answer, cost and what waits."),
    "skills": Row("", LOOK, "Skills: what can be run."),
    "skills list": Row("skills:list_skills", LOOK, "List the skills that are found here."),
    "skills show": Row("skills:show", LOOK, "Show one skill: its order in sentences, findings, sizes."),
    "skills check": Row("skills:check", LOOK, "Check skills and print the findings."),
    "skills new": Row("skills:new", LOOK, "Write a new skill that passes the check."),
    "skills promote": Row("promote:promote", LOOK, "Record a skill's state once its held-out cases pass."),
    "skills stats": Row("stats:stats", LOOK, "How a skill's runs went: rates, costs, tools never called."),
    "skills export": Row("skills:export", LOOK, "Write a skill that tells another agent to work through harness."),
    "tools": Row("", LOOK, "Tools: the commands a skill calls."),
    "tools list": Row("tools:list_tools", LOOK, "List the tools that are found here."),
    "tools show": Row("tools:show", LOOK, "Show one tool: usage, arguments, effect."),
    "tools check": Row("tools:check", LOOK, "Check the headers of tools and print the findings."),
    "tools run": Row("tools_run:run", LOOK, "Run one tool by hand, gated and journaled."),
    "models": Row("", LOOK, "Models: what would speak here, and weights."),
    "models list": Row("models:list_models", LOOK, "Roles, the automatic choice, weights."),
    "models check": Row("models:check", LOOK, "Ask a model for the smallest reply."),
    "models add": Row("models_add:add", LOOK, "Fetch and pin weights for local:NAME."),
    "policy": Row("", LOOK, "Policy: what is allowed, asked and denied."),
    "policy explain": Row("policy:explain", LOOK, "Say what would become of a call, and why."),
    "policy check": Row("policy:check", LOOK, "Load every policy file and run the examples of its rules."),
    "policy grants": Row("policy:grants", LOOK, "Approvals that are remembered; --revoke takes one back."),
    "trust": Row("trust:trust", LOOK, "Look at a project and let its skills and tools act."),
    "tools new": Row("tools_new:new", LOOK, "Write a new tool with a complete header."),
}

PROGRAM = (
    "An agent harness that lives in the file system: ordered tools, journaled runs, verified answers."
    " `harness run SKILL` does a job; `harness skills` lists what there is."
)
EPILOG = "\b\nharness COMMAND -h explains a command, with examples and exit codes."
USUAL = ("list", "run")
VALUED = ("-C", "--output")


class Page:
    """What has a page of help: it fits the terminal."""

    def get_help(self, ctx: Any) -> str:
        from harness.cli.helping import fit  # loads what only a page needs

        fit(self, ctx)
        return str(super().get_help(ctx))  # type: ignore[misc]


class Command(Page, TyperCommand):
    """A command with the global options behind its own, and no import of typer's validation library."""

    manual: Manual

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for parameter in self.get_params(ctx):
            spare_validation(parameter)
        with usage_of(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        said = globals_of(ctx)
        if said.output == "stream-json" and not self.manual.streams:
            raise HarnessError(f"{ctx.command_path} prints no events", "use --output json")
        enter(said)
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(p.metavar or p.name for p in self.params if p.param_type_name == "argument")]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_parameters(self, ctx, formatter)


class Group(Page, TyperGroup):
    """The commands of TABLE below one word; "" is the program itself."""

    noun: str

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for parameter in self.get_params(ctx):
            spare_validation(parameter)
        usual = next((name for name in USUAL if self.noun and name in children(self.noun)), None)
        args = args if usual is None else with_usual(args, usual, children(self.noun))
        with usage_of(ctx):
            rest = super().parse_args(ctx, args)
        if not args_left(ctx) and not ctx.resilient_parsing:
            typer.echo(ctx.get_help())
            raise typer.Exit(0)
        return rest

    def list_commands(self, ctx: Any) -> list[str]:
        return list(children(self.noun))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        row = children(self.noun).get(cmd_name)
        name = f"{self.noun} {cmd_name}".strip()
        if row is None:
            return None
        return load(name, row) if row.target else group(name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in children(self.noun):
            raise unknown_command(self.noun, args[0])
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        from harness.cli.helping import definitions

        rows = children(self.noun)
        for panel in dict.fromkeys(row.panel for row in rows.values()):
            with formatter.section("Commands" if self.noun else panel):
                definitions(formatter, [(name, row.line) for name, row in rows.items() if row.panel == panel])
        write_parameters(self, ctx, formatter)


def children(noun: str) -> dict[str, Row]:
    """The commands directly below a noun, in table order."""
    start = f"{noun} " if noun else ""
    rows = {name.removeprefix(start): row for name, row in TABLE.items() if name.startswith(start)}
    return {name: row for name, row in rows.items() if " " not in name}


def args_left(ctx: Any) -> list[str]:
    return [*getattr(ctx, "_protected_args", []), *ctx.args]


def with_usual(args: list[str], usual: str, names: Collection[str]) -> list[str]:
    """A noun alone lists, `harness eval SKILL` runs: put the usual command where a person left it out."""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        if args[at] in ("-h", "--help") or not is_global(args[at]):
            break
        at += 2 if args[at] in VALUED else 1
    word = args[at] if at < len(args) else None
    if at > len(args) or word in ("-h", "--help") or word in names:
        return args
    is_left_out = word is None if usual == "list" else word is not None
    return [*args[:at], usual, *args[at:]] if is_left_out or (word or "").startswith("-") else args


def is_global(word: str) -> bool:
    plain = word.split("=")[0]
    return any(plain in parameter.opts for parameter in common()) or set(word) == {"-", "v"}


def unknown_command(noun: str, word: str) -> HarnessError:
    """What was typed instead of a command: a typo, a skill's or a tool's name, or an option."""
    names = children(noun)
    close = nearest(word, names)
    if noun:
        look = f"harness {noun} show {word}" if "show" in names else f"harness show {word}"
        fix = f"harness {noun} {close[0]} -h" if close else look
        return HarnessError(f"harness {noun} has no command {word}{near_text(word, names)}", fix)
    if not word.startswith("-") and is_skill(word):
        return HarnessError(f"{word} is a skill, not a command", f"harness run {word} …")
    fix = f"harness {close[0]} -h" if close else "harness -h"
    return HarnessError(f"harness has no command {word}{near_text(word, names)}", fix)


def is_skill(word: str) -> bool:
    """Whether a skill is called so here. Settings that cannot be read are another command's complaint."""
    from harness.cli.place import catalog, place

    try:
        return bool(catalog(place(Globals(quiet=True))).named(word))
    except HarnessError:
        return False


def load(name: str, row: Row) -> Command:
    """Import a command's module and make the command of its function."""
    module, _, attribute = row.target.partition(":")
    function = getattr(import_module(f"harness.cli.{module}"), attribute)
    command = made(name.split()[-1], function, row.line, function.manual)
    own = {word for parameter in command.params for word in parameter.opts}
    command.params += [parameter for parameter in common() if own.isdisjoint(parameter.opts)]
    return command


def made(name: str, function: Callable[..., Any], line: str, manual: Manual) -> Command:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    settings = {"help_option_names": ["-h", "--help"], "allow_interspersed_args": not manual.foreign}
    app.command(name, cls=Command, help=line, epilog=epilog(manual), context_settings=settings)(function)
    command = get_command(app)
    assert isinstance(command, Command)
    command.manual = manual
    return command


_common: list[Any] = []


def common() -> list[Any]:
    """The global options as parameters, made once and shared by all commands."""
    if not _common:
        for parameter in made("harness", global_parameters, "", Manual(())).params:
            parameter.expose_value = False
            parameter.callback = taken
            _common.append(parameter)
    return _common


def taken(ctx: Any, parameter: Any, value: Any) -> Any:
    if value not in (None, False, 0) and not ctx.resilient_parsing:
        take_global(ctx, parameter.name, value)
    return value


def group(name: str) -> Group:
    """The program ("") or one noun, with the global options."""
    line, end = (TABLE[name].line, None) if name else (PROGRAM, EPILOG)
    settings = {"help_option_names": ["-h", "--help"]}
    made_group = Group(name=name or "harness", help=line, epilog=end, context_settings=settings, rich_markup_mode=None)
    made_group.noun = name
    made_group.params = list(common())
    return made_group


def write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    """Arguments, own options, global options: three sections of a help page."""
    from harness.cli.helping import definitions

    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Global options": []}
    shared = [id(parameter) for parameter in common()]
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if parameter.param_type_name == "argument":
            sections["Arguments"].append((parameter.metavar, parameter.help))
        elif "--help" in parameter.opts:
            sections["Global options"].append(("-h, --help", "print this page"))
        elif record is not None:
            sections["Global options" if id(parameter) in shared else "Options"].append(record)
    for title, records in sections.items():
        if records:
            with formatter.section(title):
                definitions(formatter, records)


def enter(said: Globals) -> None:
    """Go to the folder of `-C`. Raises HarnessError where it cannot be entered."""
    if said.folder is None:
        return
    import os

    try:
        os.chdir(said.folder)
    except OSError as error:
        raise HarnessError(f"cannot work in {said.folder}: {error.strerror}", "name a folder after -C") from error
