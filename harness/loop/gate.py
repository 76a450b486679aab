"""The one gate: every read, run, stage and verifier is judged here, and the verdict is journaled. It starts nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from harness.errors import TOO_LARGE, near_text
from harness.events.attempts import may_have_acted, unseen_end
from harness.events.breaker import refusal as refusal_now
from harness.events.line import to_json
from harness.events.receipt import argv_of
from harness.events.spending import without
from harness.events.state import Operation
from harness.graph.fresh import consumed, unmet
from harness.loop import granted, question
from harness.loop.below import unseen_in
from harness.loop.known import file_pipeline
from harness.loop.run import Run
from harness.loop.scene import policy_of, scene_of
from harness.loop.showing import facts
from harness.policy import Policy
from harness.policy.compose import MAX_CALLS, compose, too_large
from harness.policy.decide import decide
from harness.policy.decide import over_budget as over_limit
from harness.policy.request import Decision, Request
from harness.tools import Tool, can_answer
from harness.tools.discovery import digest_of

DIGEST_SHOWN = 16
MAX_DEPTH, MOST_FINDERS = 3, 3


def judge(run: Run, op: Operation, call: dict[str, Any] | None = None) -> Decision:
    """Decide on a `run`, a stage or a verifier and append the `decide` event. `call` names one that no reply made."""
    request, _ = build_request(run, op)
    policy = policy_of(run)
    if op.verb == "verify":  # judging the answer is no call of the model's
        policy = replace(policy, budget={})
    return _decided(run, op, request, policy, call)


def judge_read(run: Run, op: Operation, request: Request) -> Decision:
    """The same for the verb `read`, whose request knows no tool."""
    return _decided(run, op, request, policy_of(run))


def _decided(
    run: Run, op: Operation, request: Request, policy: Policy, call: dict[str, Any] | None = None
) -> Decision:
    grants = granted.given(run, request)
    decision = decide(request, policy, grants, without(run.state, op))
    if decision.verdict == "deny" and (may_have_acted(op) or unseen_in(run, op)):
        leave_to_person(run, op, f"it may not be tried again ({'; '.join(decision.reasons)})")
        return decision
    used = next((grant for grant in grants if f"grant {grant.id}" in decision.rules), None)
    # it needs nothing to be bound to; one that was bound before is bound anew
    plain = request.effect == "read" and decision.verdict != "ask" and used is None and not op.digest
    digest = "" if plain else call_digest(run, op.n, request)
    more = {"by": f"grant:{used.id}", "grant": used.word} if used is not None else {}
    if decision.verdict == "ask":
        more = facts(run, op, request)
    record(run, op.n, request, decision, call=call, digest=digest, more=more)
    return decision


def leave_to_person(run: Run, op: Operation, why: str) -> None:
    """Note that nothing here can tell whether an operation had its effect: a refusal must not close it."""
    run.append("tool.end", unseen_end(op, "unknown", why), op.n)


def use_grants(run: Run, waiting: Iterable[Operation]) -> None:
    """Let remembered approvals answer calls that wait for a person, who may just have given one."""
    for op in waiting:
        request, _ = build_request(run, op)
        grants = granted.given(run, request)
        if grants and decide(request, policy_of(run), grants, without(run.state, op)).verdict == "allow":
            judge(run, op)


def is_answered(run: Run, op: Operation) -> bool:
    """Whether a flag of the person's says yes or no to a call that waits: nothing else answers in their place."""
    if op.verdict != "ask" or not run.flags:
        return False
    request, _ = build_request(run, op)
    said = decide(request, policy_of(run), (), without(run.state, op))
    return said.verdict != "ask" and not {rule.place for rule in run.flags}.isdisjoint(said.rules)


def is_undecided(op: Operation) -> bool:
    """Whether a call was decided on and has not begun, so that another policy has a say in it."""
    return op.verdict in ("allow", "ask") and not op.attempt and not op.closed and op.verb in ("run", "read", "stage")


def build_request(run: Run, op: Operation) -> tuple[Request, tuple[int, ...]]:
    """The call as it would be carried out, with whatever stands against it; the operations it would stand on."""
    request, needs = _request(run, op)
    tool = run.toolset.tools.get(op.tool)
    digest = digest_of(tool) if tool is not None else ""
    request = replace(request, finders=_finders(run, request))
    return replace(request, run=run.name, op=op.n, depth=run.depth, digest=digest, halted=_halted(run, op)), needs


def _finders(run: Run, request: Request) -> tuple[str, ...]:
    """What may bring a value that is not known: the tools whose values the graph wants here, then others that read."""
    if all(one.sources for one in request.grounding):
        return ()
    kit = run.toolset
    bound = [need.name for need in kit.graph.needs(request.tool) if need.options]
    reads = [name for name in kit.available if name in kit.tools and kit.tools[name].effect == "read"]
    return tuple(name for name in dict.fromkeys((*bound, *reads)) if name != request.tool)[:MOST_FINDERS]


def _halted(run: Run, op: Operation) -> tuple[str, str, str] | None:
    """Why no call of the tool may start now: the outcome of an earlier one stays unknown, or its breaker is open."""
    if op.verb == "verify":
        return None
    if run.is_barred(op.tool):
        why = f"the outcome of an earlier call of {op.tool} is unknown, and it must not happen twice"
        return "UNKNOWN_OUTCOME", "settle", why
    found = refusal_now(run.state, op, op.tool, run.log.now())
    return (found[0], "breaker", found[1]) if found else None


def _request(run: Run, op: Operation) -> tuple[Request, tuple[int, ...]]:
    name, args = op.tool, run.args(op)
    if large := _too_large(run, op, args):
        return Request(name, tuple(args), large=large), ()
    kit = run.toolset
    names = kit.available
    if op.verb == "run" and not names and name != kit.stand_in:
        return Request(name, tuple(args), empty_list=True), ()
    if (name in kit.workers or is_pipeline(kit.tools.get(name))) and run.depth >= MAX_DEPTH:
        return Request(name, tuple(args), effect="read", outside=f"runs are nested at most {MAX_DEPTH} deep"), ()
    if name in kit.workers:
        return _worker_request(run, op, kit.workers[name], args)
    tool = kit.tools.get(name)
    if is_question(op):
        problems = question.problems(args, run.project)
        return _graphed(run, op, Request(name, tuple(args), effect="read", problems=problems))
    if tool is None:
        return Request(name, tuple(args), known=False, near=near_text(name, names)), ()
    return _tool_request(run, op, tool, args)


def _too_large(run: Run, op: Operation, args: list[str]) -> str:
    """Which bound a call or its whole reply breaks; looked at before anything else, in linear time."""
    if op.n in run.state.turn_ops and len(run.state.turn_ops) > MAX_CALLS:
        return f"{TOO_LARGE}: {len(run.state.turn_ops)} calls in one reply, at most {MAX_CALLS}"
    if isinstance(op.arguments.get("tool"), dict):
        return f"{TOO_LARGE}: the name of a tool"  # no name is so long that it is kept outside the line
    return too_large([op.tool, *args])


def _worker_request(run: Run, op: Operation, worker: Tool, args: list[str]) -> tuple[Request, tuple[int, ...]]:
    """A worker's call counts as a read: what runs inside is decided there, and so are the paths in its goal."""
    request = replace(compose(worker, args, scene_of(run)), effect="read", effect_declared=True, paths=(), dests=())
    request = replace(request, trust=run.world.trust.of(worker.path))
    if lacks := run.toolset.locked.get(op.tool):
        request = replace(request, needs=(f"needs {lacks}",))
    return (request, ()) if _is_unfit(request) or lacks else _graphed(run, op, request)


def _is_unfit(request: Request) -> bool:
    return bool(request.large or request.problems or request.broken)


def _tool_request(run: Run, op: Operation, tool: Tool, args: list[str]) -> tuple[Request, tuple[int, ...]]:
    listed = op.verb != "run" or tool.name in run.toolset.listed or tool.name == run.toolset.stand_in
    near = "" if listed else near_text(tool.name, run.toolset.available)
    if op.verb == "stage" and tool.known:
        file_pipeline(run)
    trust = run.world.trust.of(tool.path)
    request = replace(compose(tool, args, scene_of(run)), listed=listed, near=near, trust=trust)
    if _is_unfit(request):
        return request, ()
    if run.world.guard is not None:
        request = run.world.guard.confined(tool, request)
    if op.verb == "verify":  # its words are the skill's own
        return replace(request, grounding=()), ()
    return _graphed(run, op, request)


def _graphed(run: Run, op: Operation, request: Request) -> tuple[Request, tuple[int, ...]]:
    """The request with the needs that do not hold and a person's earlier no; the operations it would stand on."""
    call = (request.tool, *argv_of(run.fit_argv(request.argv)))
    before = run.state.denied.get(call) or run.happened(call)
    if may_have_acted(op):  # the same operation comes to its end: it stands on what it was begun with
        return replace(request, refused_before=before), op.needs
    if op.verb == "stage":
        return replace(request, refused_before=before), run.stage_needs(op)
    ground, graph = run.ground(), run.toolset.graph
    missing = unmet(ground, graph, request.tool, request.values)
    request = replace(request, needs=tuple(need.text() for need in missing), refused_before=before)
    return request, consumed(ground, graph, request.tool, request.values)


def over_budget(run: Run, op: Operation) -> Decision | None:
    """The denial of one more such call, where a limit forbids it now."""
    amounts = {currency: Decimal(amount) for currency, amount in op.amounts.items()}
    return over_limit(op.effect, amounts, policy_of(run), run.state.spent)


def is_question(op: Operation) -> bool:
    """Whether a stage asks a model: `[harness, prompt, …]`."""
    return op.verb == "stage" and op.tool == "harness"


def is_pipeline(tool: Tool | None) -> bool:
    return tool is not None and tool.pipeline


def repeat_of(run: Run, tool: Tool | None) -> str:
    """What may be done again: a pipeline's stages answer for themselves, so its call may; a query must be askable."""
    if tool is None or tool.pipeline:
        return "pure"
    if tool.repeat == "queryable" and not can_answer(run.toolset.tools.get(tool.query[0])):
        return "opaque"
    return tool.repeat


def call_digest(run: Run, n: int, request: Request) -> str:
    """What an approval is bound to: SHA-256 over everything that decides what will happen."""
    tool = run.toolset.tools.get(request.tool)
    parts = {
        "run": run.name, "op": n, "tool": str(tool.path) if tool else request.tool,
        "file": request.digest, "argv": list(request.argv), "cwd": str(run.project),
        "effect": request.effect, "level": request.level, "env": list(request.env), "values": _values(run, tool),
        "secrets": sorted({*request.secrets, *request.ungranted}),
        "hosts": list(request.hosts), "paths": [[path.real, path.mode] for path in request.paths],
        "policy": run.world.guard.policy_digest() if run.world.guard is not None else "",
    }  # fmt: skip
    return hashlib.sha256(to_json(parts).encode()).hexdigest()


def _values(run: Run, tool: Tool | None) -> dict[str, str]:
    """What the plain variables hold that the person passes to the tool: they may say where it acts."""
    guard = run.world.guard
    return dict(guard.passed(tool).variables) if guard is not None and tool else {}


def record(
    run: Run, n: int, request: Request, decision: Decision, call: dict[str, Any] | None = None, digest: str = "",
    more: Mapping[str, Any] = {},
) -> None:  # fmt: skip
    """Append the `decide` event of a rule's decision."""
    tool = run.toolset.tools.get(request.tool)
    data: dict[str, Any] = {"verdict": decision.verdict, "argv": run.fit_argv(request.argv)}
    if decision.code:
        data["code"] = decision.code
    data["rules"] = [rule for rule in decision.rules if rule != "default"]
    if decision.reasons:
        data["reasons"] = [*decision.reasons, *([decision.fix] if decision.code == "UNGROUNDED" else [])]
    data |= {"effect": request.effect, "repeat": repeat_of(run, tool)}
    if request.amounts:
        data["amounts"] = {currency: f"{amount:f}" for currency, amount in request.amounts.items()}
    if request.level and digest and decision.verdict != "deny":
        data["level"] = request.level
    if digest and decision.verdict != "deny":
        data["digest"] = digest[:DIGEST_SHOWN]
    if call is not None:
        data["call"] = call
    run.append("decide", data | dict(more), n)


def person_decides(
    run: Run, op: Operation, verdict: str, by: str, via: str, why: str = "", inbox: str = "", word: str = "once"
) -> None:
    """Append a person's word on a waiting call, and put it on the disk. A yes does not lift a limit.

    `word` says how long a yes is to be remembered.
    """
    over = over_budget(run, op) if verdict == "allow" else None
    data: dict[str, Any] = {"verdict": "deny" if over else verdict, "argv": run.fit_argv(run.argv(op))}
    if over is not None:
        data |= {"code": over.code, "rules": list(over.rules), "reasons": list(over.reasons)}
    elif verdict == "deny":
        data |= {"code": "DENIED", "rules": ["person"], "reasons": [why or "a person said no"]}
    else:
        data["rules"] = ["person"]
    data |= {"effect": op.effect, "repeat": op.repeat}
    if over is None:
        data |= {"digest": op.digest, "by": by, "via": via} if op.digest else {"by": by, "via": via}
    if data["verdict"] == "allow":
        data |= _remembered(run, op, word, by)
    if inbox:
        data["inbox"] = inbox
    run.append("decide", data, op.n)
    run.log.sync()


def _remembered(run: Run, op: Operation, word: str, by: str) -> dict[str, Any]:
    """What becomes of a yes to a call that is still the one which was shown; to another one it is void at its start."""
    request, _ = build_request(run, op) if word != "once" else (None, ())
    if request is None or not call_digest(run, op.n, request).startswith(op.digest or "-"):
        return {"grant": "once"}
    return granted.remember(run, op, request, word, by)
