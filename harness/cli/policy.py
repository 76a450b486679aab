"""`harness policy`: what becomes of a call, whether the files do what they show, which approvals are remembered."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from harness import policy
from harness.cli.options import globals_of, manual
from harness.cli.output import print_findings, print_json, say
from harness.cli.place import Place, catalog, find_tool, found_tool, ledger, place, runs_dir, shown
from harness.errors import Finding, HarnessError, near_text
from harness.policy import Grant
from harness.policy.settings import user_file
from harness.policy.vouching import Trust

EXAMPLE = Path(policy.__file__).with_name("example.yaml")
EXITS = {"allow": 0, "ask": 5, "deny": 7}


@manual("harness policy explain restart-batch --env prod",
        "harness policy explain --goal 'write to ann@x.io' mail-send --to ann@x.io --body hi",
        "harness policy explain --run last replay-request --request-id r-1841",
        codes=(0, 2, 3, 5, 7), foreign=True,
        notes=("0 means allow, 5 ask, 7 deny; nothing is run either way",))  # fmt: skip
def explain(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="TOOL", help="a tool's name")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[ARGS…]", help="its arguments")] = None,
    goal: Annotated[str | None, typer.Option("--goal", metavar="TEXT", help="as if this were the user's words")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="with a run's words and spending")] = None,
    skill: Annotated[str | None, typer.Option("--skill", metavar="S", help="the tool as this skill means it")] = None,
) -> int:
    """Say what would become of a call, and which rules are about it. Runs nothing."""
    said = globals_of(ctx)
    at = place(said)
    if run is not None and (goal is not None or skill is not None):
        raise HarnessError("--run says goal and skill by itself", "leave out --goal and --skill")
    found = _explained(at, name, tuple(words or ()), goal, run, skill)
    if said.json:
        print_json(as_object(found))
    else:
        from harness.view.text import escape

        for line in lines(found):
            print(escape(line))
    return EXITS[found.decision.verdict]


def _explained(
    at: Place, name: str, words: tuple[str, ...], goal: str | None, run: str | None, skill: str | None
) -> Any:
    """The call judged. A run names its own skill. Raises HarnessError."""
    from harness.cli.guarding import make_guard
    from harness.runs.explain import Asked, explain, explain_in, look_at
    from harness.runs.find import find_run
    from harness.skills.check import resolve
    from harness.skills.names import find

    found = catalog(at)
    guard = make_guard(replace(at, trust=_trust(at, found, name, run, skill)), None)
    if run is not None:
        seen = look_at(guard, found, find_run(runs_dir(at), run), found_tool(at, name))
        seen.world.ledger = ledger(at)
        return explain_in(seen, name, words)
    resolved = resolve(found, find(found, skill)) if skill is not None else None
    tool = resolved.tools.get(name) if resolved is not None else None
    if resolved is not None and tool is None and found_tool(at, name) is None:
        near = near_text(name, resolved.tools)
        raise HarnessError(f"{name} is no tool of {resolved.skill.name}{near}", f"harness skills show {skill}")
    asked = Asked(tool or find_tool(at, name), words, goal, resolved, ledger(at).grants())
    return explain(guard, at.project, asked)


def _trust(at: Place, found: Any, name: str, run: str | None, skill: str | None) -> Trust:
    """Which files may act in such a run, as the record has it: nothing is started, so nobody is asked."""
    from harness.cli.trusting import looked_at
    from harness.runs.find import find_run
    from harness.runs.uses import question_uses, run_uses, skill_uses, tool_uses
    from harness.skills.names import find

    if run is not None:
        folder = find_run(runs_dir(at), run)
        return looked_at(at, run_uses(found, folder), folder.name)
    if skill is not None:
        return looked_at(at, skill_uses(found, find(found, skill)))
    tool = found_tool(at, name)
    return looked_at(at, question_uses() if tool is None else tool_uses(found, tool))


def lines(found: Any) -> Iterator[str]:
    """The verdict, why, then what the policy saw."""
    request, decision = found.request, found.decision
    yield f"{decision.verdict}{f' {decision.code}' if decision.code else ''}: {' '.join((request.tool, *request.argv))}"
    yield from (f"  {line}" for reason in decision.reasons for line in reason.splitlines())
    yield from [f"  fix: {decision.fix}"] if decision.fix else []
    yield f"decided by: {', '.join(decision.rules)}"
    yield f"effect: {request.effect} ({request.effect_from})"
    for label, values in _seen(request):
        yield from (f"{label}: {value}" for value in values)
    if found.unlooked:
        yield f"grounding: {' '.join(found.unlooked)} must be known, which --goal or --run would tell"
    for rule, wrong in found.rules:
        why = f" – {rule.why}" if rule.why else ""
        yield f"rule: {rule.place} {rule.verdict}{why}: {'; '.join(wrong) or 'matches'}"
    yield from (f"budget: {line}" for line in _budget(found))


def _seen(request: Any) -> Iterator[tuple[str, list[str]]]:
    yield "argument", [f"{name} = {' '.join(map(repr, typed.texts)) or 'nothing'} "
                       f"({typed.kind}{', list' if typed.many else ''})"
                       for name, typed in request.typed.items()]  # fmt: skip
    yield "path", [f"{path.option} {path.given} -> {path.real} ({path.mode}{'' if path.inside else ', outside'}"
                   f"{', protected' if path.protected else ''}{', hidden' if path.hidden else ''})"
                   for path in request.paths]  # fmt: skip
    yield "destination", [f"{dest.option} {dest.value} ({'named by you' if dest.named else 'not in your words'})"
                          for dest in request.dests]  # fmt: skip
    yield "amount", [f"{amount:f} {currency}" for currency, amount in request.amounts.items()]
    known = ((one, ", ".join(one.sources) or "not known") for one in request.grounding)
    yield "grounding", [f"{one.option} {one.value} ({sources})" for one, sources in known]
    yield "confinement", [request.level or "none"]
    for label in ("hosts", "env", "secrets"):
        if values := getattr(request, label):
            yield label, [" ".join(values)]
    yield "no value", [f"{name}, which the header declares: it is not set" for name in request.lacking]


def _budget(found: Any) -> Iterator[str]:
    """What is left of the limits that such a call uses."""
    from harness.policy.budget import EFFECT_KEYS, limit, money_limits, money_spent, used

    policy, effect = found.policy, found.request.effect
    for key in dict.fromkeys(("calls", EFFECT_KEYS.get(effect, effect))):
        bound = limit(policy.budget, key)
        if bound is not None:
            yield _left(key, used(found.spent, key, 0.0), bound, policy.places.get(key))
    for currency, bound in money_limits(policy.budget).items():
        if currency in found.request.amounts:
            yield _left(f"money {currency}", money_spent(found.spent, currency), bound,
                        policy.places.get(f"money {currency}"))  # fmt: skip


def _left(name: str, spent: Any, bound: Any, where: str | None) -> str:
    return f"{name} {spent:f} of {bound:f} used{f' ({where})' if where else ''}"


def as_object(found: Any) -> dict[str, Any]:
    """The same as one object."""
    request, decision = found.request, found.decision
    seen = {label: values for label, values in _seen(request) if values}
    return {
        "verdict": decision.verdict, "code": decision.code, "decided_by": list(decision.rules),
        "reasons": list(decision.reasons), "fix": decision.fix, "tool": request.tool, "argv": list(request.argv),
        "effect": request.effect, "effect_from": request.effect_from, "level": request.level,
        "arguments": {name: asdict(typed) for name, typed in request.typed.items()},
        "paths": [asdict(path) for path in request.paths], "destinations": [asdict(dest) for dest in request.dests],
        "amounts": {currency: f"{amount:f}" for currency, amount in request.amounts.items()},
        "hosts": list(request.hosts), "env": list(request.env), "secrets": list(request.secrets),
        "lacking": list(request.lacking),
        "grounding": seen.get("grounding", []), "budget": list(_budget(found)),
        "rules": [{"place": rule.place, "verdict": rule.verdict, "why": rule.why, "fails": list(wrong)}
                  for rule, wrong in found.rules],
    }  # fmt: skip


@manual("harness policy check", "harness policy check --strict", codes=(0, 1, 2, 3))
def check(
    ctx: typer.Context,
    strict: Annotated[bool, typer.Option("--strict", help="warnings count as errors")] = False,
) -> int:
    """Load every policy file, run all examples, and name rules that may not do what somebody thinks."""
    said = globals_of(ctx)
    at = place(said)
    rules, findings = _checked(at)
    if not (own := user_file(os.environ)).exists():
        command = f"mkdir -p -m 700 {own.parent} && cp {EXAMPLE} {own}"
        say(said, f"you have no policy of your own; one to begin with: {command}")
    return print_findings(said, findings, f"{rules} rule{'' if rules == 1 else 's'}", strict)


def _checked(at: Place) -> tuple[int, list[Finding]]:
    """The number of rules in all files, and what is odd about them. Raises HarnessError for what does not load."""
    from harness.policy.examples import check_examples, unsure
    from harness.policy.settings import home_of, load, narrowed
    from harness.skills.check import resolve

    settings = load(at.project)
    check_examples(settings.rules, lambda name: found_tool(at, name), at.project, settings)
    odd = [(rule, what, fix) for rule, what, fix in unsure(settings.rules, lambda name: found_tool(at, name))]
    count, found = len(settings.rules), catalog(at)
    for skill in found.skills:
        path = skill.folder / "policy.yaml"
        if not path.is_file():
            continue
        below = narrowed(settings, path, "skill", at.project, home_of(os.environ))
        tools, own = resolve(found, skill).tools, below.rules[len(settings.rules) :]
        check_examples(own, tools.get, at.project, below)
        odd += unsure(own, tools.get)
        count += len(own)
    findings = [_finding(rule, what, fix) for rule, what, fix in odd]
    if settings.channels:
        what = f"no chat is connected, so nobody is heard in {' '.join(settings.channels)}"
        findings.append(Finding("channel", "warning", str(user_file(os.environ)), 1, what, "use harness approve"))
    return count, findings


def _finding(rule: Any, what: str, fix: str) -> Finding:
    file, _, line = rule.place.rpartition(":")
    return Finding("rule", "warning", file, int(line), what, fix)


@manual("harness policy grants", "harness policy grants --revoke g-5f3a09c1", codes=(0, 2, 3, 75),
        notes=("Given at an approval prompt with a or h. What else may pass is a rule that you write, or --allow.",
               "Yeses for one run (r) are in its journal: harness show RUN."))  # fmt: skip
def grants(
    ctx: typer.Context,
    revoke: Annotated[str | None, typer.Option("--revoke", metavar="ID", help="take one back")] = None,
) -> int:
    """List the approvals that are remembered, whether each still counts, and until when; or take one back."""
    said = globals_of(ctx)
    at = place(said)
    held = ledger(at)
    if revoke is not None:
        gone = held.drop(revoke)
        if said.json:
            print_json({"revoked": gone.id})
        else:
            say(said, f"revoked {gone.id}: {gone.tool}")
        return 0
    found = [(grant, _stands(grant, _days(at), time.time())) for grant in held.grants()]
    if said.json:
        print_json([_plain(grant, state) for grant, state in found])
        return 0
    for grant, state in found:
        print("\n".join(_told(at, grant, state)))
    if not found:
        say(said, "no approval is remembered")
    return 0


def _days(at: Place) -> int:
    from harness.policy.settings import load

    return load(at.project).remember_days


def _stands(grant: Grant, days: int, now: float) -> str:
    """Whether a grant still counts: stands, expired, or why not."""
    from harness.policy.granting import standing
    from harness.tools.discovery import digest

    if not standing([grant], now, days):
        return "expired"
    if "/scripts/" in grant.path:  # all scripts of the skill count, which a run looks at
        return "stands"
    try:
        return "stands" if digest(Path(grant.path)) == grant.digest else "void: the tool changed"
    except HarnessError:
        return "void: the tool is gone"


def _told(at: Place, grant: Grant, state: str) -> Iterator[str]:
    from harness.view.text import one_line, shown_argv, wrap

    columns = 80 if sys.stdout.isatty() else 10_000
    named = "to" if grant.level == "full" else "that names"
    what = f"any call {named} {' '.join(grant.hosts)}" if grant.hosts else shown_argv(_words(grant))
    yield f"{grant.id}  {one_line(grant.tool)}  {state}"
    yield from wrap(what, columns, "    ") if what else ()
    until = time.strftime("%Y-%m-%d", time.localtime(grant.until))
    yield from wrap(f"until {until} · in {one_line(shown(at, Path(grant.cwd)))} · confinement {grant.level} or more"
                    f" · {one_line(grant.by)}", columns, "    ")  # fmt: skip


def _words(grant: Grant) -> Iterator[str]:
    """The values as somebody would type them, more or less: the tool's header says how it is spelled."""
    for name, texts in grant.values.items():
        for text in texts:
            yield from (text,) if name == "args" else (f"--{name}", text)


def _plain(grant: Grant, state: str) -> dict[str, Any]:
    return asdict(grant) | {"word": grant.word, "state": state}
