"""`harness skills list`, `show` and `check`: they read files; a check also runs verifiers on their samples."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.options import globals_of, manual
from harness.cli.output import print_findings, print_json, print_paths, print_table, say
from harness.cli.place import Place, catalog, find_tool, label, place
from harness.errors import Finding, HarnessError
from harness.skills import Resolved, Skill
from harness.skills.body import tokens
from harness.skills.check import check_skill, resolve
from harness.skills.describe import describe, inputs
from harness.skills.discovery import Catalog
from harness.skills.export import export_skill
from harness.skills.names import find
from harness.skills.new import new_skill
from harness.skills.reading import entries, skill_file
from harness.view.text import escape

MAX_LINE = 160


@manual("harness skills", "harness skills --shadowed", "harness skills --json")
def list_skills(
    ctx: typer.Context,
    shadowed: Annotated[bool, typer.Option("--shadowed", help="those that another of the same name hides")] = False,
) -> int:
    """Every skill with its size in tokens, its tools and whether it can run."""
    said = globals_of(ctx)
    at = place(said)
    found = catalog(at)
    skills = found.shadowed if shadowed else found.skills
    if said.json:
        print_json({"skills": [summary(at, resolve(found, skill)) for skill in skills]})
        return 0
    if not skills:
        say(said, "no skill is shadowed" if shadowed else "there are no skills yet; the first: harness skills new NAME")
        return 0
    rows = [row(at, found, skill) for skill in skills]
    print_table(said, ("NAME", "~LINE", "~BODY", "TOOLS", "PLACE", "STATE"), rows)
    return 0


def row(at: Place, found: Catalog, skill: Skill) -> tuple[str, ...]:
    said = summary(at, resolve(found, skill))
    tools = f"{said['available']}/{said['named']}"
    return (skill.name, f"~{said['line']}", f"~{said['body']}", tools, str(said["place"]), str(said["state"]))


def summary(at: Place, resolved: Resolved) -> dict[str, object]:
    """A skill as one object of a list. `line` and `body` are estimates in tokens."""
    skill = resolved.skill
    line = f"{skill.name}: {skill.description}"[:MAX_LINE]
    bad = broken(resolved)
    return {
        "name": skill.name,
        "line": tokens(line),
        "body": tokens(skill.body),
        "available": len([name for name in skill.allowed if name in resolved.tools or name in resolved.workers]),
        "named": len(skill.allowed) + len(skill.foreign),
        "place": label(at, skill.root, skill.root.skills),
        "state": f"{bad.severity} {bad.code}" if bad else "ok",
        "description": skill.description,
        "path": str(skill.file),
    }


def broken(resolved: Resolved) -> Finding | None:
    """The first finding that keeps the skill from running."""
    found = [*resolved.skill.findings, *resolved.findings]
    return next((one for one in found if one.severity in ("refused", "error")), None)


@manual("harness skills show oncall-triage", "harness skills show oncall-triage --mermaid")
def show(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="a skill's name, or the path of its folder")],
    mermaid: Annotated[bool, typer.Option("--mermaid", help="draw the graph as Mermaid")] = False,
    body: Annotated[bool, typer.Option("--body", help="print what a model reads")] = False,
) -> int:
    """The order of a skill's tools in sentences, then findings and sizes."""
    from harness.graph.draw import mermaid as drawn

    said = globals_of(ctx)
    at = place(said)
    found = catalog(at)
    skill = find(found, name)
    resolved = resolve(found, skill)
    if mermaid and body:
        raise HarnessError("--mermaid and --body are two views", "give one of them")
    if body:
        print(escape(skill.body.rstrip("\n")))
    elif mermaid:
        print(escape(drawn(skill.graph, skill.allowed).rstrip("\n")))
    elif said.json:
        findings = [asdict(one) for one in check_skill(found, skill)]
        said_of: dict[str, object] = {"tools": list(resolved.skill.allowed), "order": describe(resolved)}
        said_of |= {"inputs": [asdict(one) for one in skill.inputs], "findings": findings}
        print_json({**summary(at, resolved), **said_of})
    else:
        print_card(at, found, resolved)
    return 0


def print_card(at: Place, found: Catalog, resolved: Resolved) -> None:
    skill, said = resolved.skill, summary(at, resolved)
    sizes = f"line ~{said['line']} tokens, body ~{said['body']} tokens"
    lines = [f"{skill.name}  {skill.shown}", skill.description, "", *describe(resolved)]
    lines += ["", *inputs(skill)] if skill.inputs else []
    lines += ["", *(one.text() for one in check_skill(found, skill))]
    lines += [f"{sizes}, {said['available']} of {said['named']} tools available"]
    print("\n".join(escape(line) for line in lines))


@manual("harness skills check", "harness skills check skills/oncall-triage --strict", "harness skills check --static",
        codes=(0, 1, 2, 3))  # fmt: skip
def check(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME or DIR]...", help="else the project's")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="warnings count, and what others cannot read")] = False,
    static: Annotated[bool, typer.Option("--static", help="start nothing: no verifier is run on its samples")] = False,
) -> int:
    """One line a finding; exit 1 if there is an error."""
    said = globals_of(ctx)
    at = place(said)
    found = catalog(at)
    skills = [skill for name in names for skill in meant(found, name)] if names else own_skills(found)
    loose = [] if names else [one for one in found.findings if not Path(one.file).is_absolute()]
    findings = [*loose, *(one for skill in skills for one in check_skill(found, skill, strict))]
    findings += [] if static else judged(at, found, skills)
    return print_findings(said, findings, f"{len(skills)} skill{'' if len(skills) == 1 else 's'}", strict)


def judged(at: Place, found: Catalog, skills: list[Skill]) -> list[Finding]:
    """What the verifiers of skills make of their samples."""
    with_verifiers = [skill for skill in skills if skill.verify and not skill.refused]
    if not with_verifiers:
        return []
    from harness.checks import verifier_findings
    from harness.cli.tools import check_ground
    from harness.cli.trusting import looked_at
    from harness.runs.uses import skill_uses

    made = [(resolve(found, skill), looked_at(at, skill_uses(found, skill))) for skill in with_verifiers]
    ground = check_ground(at)
    return [one for resolved, trust in made for one in verifier_findings(replace(ground, trust=trust), resolved)]


def own_skills(found: Catalog) -> list[Skill]:
    return [skill for skill in [*found.skills, *found.shadowed] if skill.root.origin == "project"]


def meant(found: Catalog, name: str) -> list[Skill]:
    """The skill of a name or folder, or all skills below a folder that is none. Raises HarnessError."""
    folder = Path(name)
    if folder.is_dir() and skill_file([entry.name for entry in entries(name)]) is None:
        below = [s for s in [*found.skills, *found.shadowed] if s.folder.resolve().is_relative_to(folder.resolve())]
        if below:
            return below
    known = any(name in (skill.name, skill.declared_name, *skill.aliases) for skill in found.skills)
    return [find(found, f"./{name}" if folder.is_dir() and not known and "/" not in name else name)]


@manual("harness skills new first-look", "harness skills new late-batch --tools check-pods,search-logs")
def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="its name: small letters and digits, with - between")],
    tools: Annotated[str, typer.Option("--tools", metavar="A,B", help="the tools it may call")] = "",
) -> int:
    """Write skills/NAME/SKILL.md in the project."""
    said = globals_of(ctx)
    at = place(said)
    wanted = [word for word in tools.replace(",", " ").split() if word]
    for tool in wanted:
        find_tool(at, tool)
    print_paths(said, new_skill(at.project / "skills", name, wanted))
    say(said, f"next: edit it, then harness skills check {name}")
    return 0


@manual("harness skills export claude oncall-triage", "harness skills export codex oncall-triage")
def export(
    ctx: typer.Context,
    client: Annotated[str, typer.Argument(metavar="CLIENT", help="claude (.claude/skills) or codex (.agents/skills)")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="the skill")],
    force: Annotated[bool, typer.Option("--force", help="replace an export that was changed by hand")] = False,
) -> int:
    """Write a small skill for another agent: it drives this one by single commands (run --agent)."""
    said = globals_of(ctx)
    at = place(said)
    found = catalog(at)
    print_paths(said, [export_skill(at.project, client, find(found, name), force)])
    return 0
