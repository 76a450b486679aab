"""What a skill's names mean where it stands, and what is wrong with the skill as a whole. Runs nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import Finding, Severity, near_text, nearest
from harness.graph.block import NAME
from harness.skills import Resolved, Skill
from harness.skills.body import MAX_LINES, MAX_TOKENS, inputs_used, is_long
from harness.skills.discovery import Catalog
from harness.skills.export import stale_exports
from harness.skills.portable import not_portable
from harness.skills.reading import shown
from harness.skills.stages import stage_findings
from harness.tools import Tool
from harness.tools.wiring import check_query


def ordered(finding: Finding) -> tuple[str, int, str, str, str]:
    """By file, line and code; the same for the same files, whatever order they were found in."""
    return finding.file, finding.line, finding.code, finding.message, finding.fix


def check_skill(catalog: Catalog, skill: Skill, strict: bool = False) -> list[Finding]:
    """Every finding about one skill, by file, line and code; `strict` adds what other clients would not read."""
    findings = list(skill.findings)
    if not skill.refused:
        check = _Check(catalog, skill)
        resolved = check.run()
        findings += [*resolved.findings, *stale_exports(catalog.project, skill)]
        findings += stage_findings(catalog, resolved.tools.values(), check.places())
        findings += not_portable(skill) if strict else []
    return sorted(set(findings), key=ordered)


def resolve(catalog: Catalog, skill: Skill) -> Resolved:
    """Find each name of the skill: the project's `bin/`, its own place's `bin/`, its `scripts/`, another skill."""
    return _Check(catalog, skill).run()


@dataclass(slots=True)
class _Check:
    """One skill being resolved."""

    catalog: Catalog
    skill: Skill
    tools: dict[str, Tool] = field(default_factory=dict)
    workers: dict[str, Skill] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, severity: Severity, code: str, line: int, message: str, fix: str) -> None:
        self.findings.append(Finding(code, severity, self.skill.shown, line, message, fix))

    def line(self, key: str) -> int:
        return self.skill.lines.get(key, 1)

    def run(self) -> Resolved:
        if not self.skill.closed and "tool-dependencies" not in self.skill.lines:
            scripts = self.catalog.tools(self.skill.folder / "scripts", script=True)
            self.skill = dataclasses.replace(self.skill, allowed=tuple(scripts))
        for name in dict.fromkeys([*self.skill.allowed, *self.limits(), *self.commands()]):
            self.find(name)
        for tool in [tool for tool in self.tools.values() if tool.query]:
            self.find(tool.query[0])
        self.check_names()
        self.check_closed()
        self.check_reachable()
        self.check_options()
        self.check_commands()
        self.check_queries()
        self.check_body()
        findings = sorted(self.findings, key=ordered)
        return Resolved(self.skill, self.tools, self.workers, tuple(findings))

    def limits(self) -> dict[str, tuple[int, str]]:
        """Each name the block or `requires` uses, with its line and who names it; a prerequisite before its target."""
        made: dict[str, tuple[int, str]] = {}
        for target, needs in self.skill.graph.rules.items():
            for need in needs:
                made.setdefault(need.name, (need.line, f"{target} waits for"))
        for target, needs in self.skill.graph.rules.items():
            line = needs[0].line if needs else self.line("tool-dependencies")
            made.setdefault(target, (line, "tool-dependencies names"))
        for name in self.skill.requires:
            made.setdefault(name, (self.line("requires"), "requires names"))
        return made

    def commands(self) -> list[str]:
        """The verifiers and the pipeline: names that are used, but need not be allowed."""
        return [words[0] for words in self.skill.verify] + ([self.skill.pipeline] if self.skill.pipeline else [])

    def places(self) -> list[Path]:
        """The folders a name is looked for in, each once."""
        own = [self.skill.root.bin] if self.skill.root.bin else []
        return list(dict.fromkeys([self.catalog.own_bin, *own, self.skill.folder / "scripts"]))

    def find(self, name: str) -> None:
        scripts = self.skill.folder / "scripts"
        if not NAME.fullmatch(name):
            return
        found = {place: self.catalog.tools(place, place == scripts).get(name) for place in self.places()}
        tools = [tool for tool in found.values() if tool]
        own = found.get(self.skill.root.bin) if self.skill.root.bin else None
        mine = found.get(scripts)
        if own and mine:
            message = f"{name} is both {self.shown(own.path)} and {self.shown(mine.path)}"
            self.add("error", "ambiguous-tool", self.naming(name), message, "rename one of them")
        worker = self.worker(name)
        if tools:
            self.tools[name] = tools[0]
        elif worker:
            self.workers[name] = worker
        hidden = [self.shown(tool.path) for tool in tools[1:]]
        hidden += [worker.shown] if worker and tools else []
        for path in hidden:
            if not (own and mine and path == self.shown(mine.path)):
                message = f"{name} is {self.shown(tools[0].path)}, which hides {path}"
                self.add("warning", "shadowed-tool", self.naming(name), message, "rename one of them, or leave it")

    def shown(self, path: Path) -> str:
        return shown(path, self.catalog.project)

    def worker(self, name: str) -> Skill | None:
        others = [other for other in self.catalog.named(name) if other.folder != self.skill.folder]
        callable_ones = [other for other in others if not other.no_worker and not other.refused]
        if len(callable_ones) > 1:
            both = " and ".join(other.shown for other in callable_ones)
            self.add("error", "ambiguous-tool", self.naming(name), f"{name} is both {both}", "rename one of them")
        return callable_ones[0] if callable_ones else None

    def naming(self, name: str) -> int:
        """The line that names it."""
        if name in self.skill.allowed and self.skill.closed:
            return self.line("allowed-tools")
        limits = self.limits()
        if name in limits:
            return limits[name][0]
        return self.line("pipeline" if name == self.skill.pipeline else "verify")

    def known(self) -> list[str]:
        """Every name that would resolve, for a nearest one."""
        tools = [name for place in self.places() for name in self.catalog.tools(place)]
        return [*tools, *(other.name for other in self.catalog.skills if other.folder != self.skill.folder)]

    def is_missing(self, name: str) -> bool:
        return name not in self.tools and name not in self.workers

    def broken(self, name: str) -> Finding | None:
        """The first error in what the name means."""
        return self.tools[name].broken if name in self.tools else self.workers[name].broken

    def check_names(self) -> None:
        limits = self.limits()
        allowed = (self.line("allowed-tools"), "allowed-tools names")
        for name in dict.fromkeys([*limits, *self.skill.allowed]):
            line, who = limits.get(name, allowed)
            if not self.is_missing(name):
                self.check_broken(name, line, who, name in limits)
            elif name in self.skill.allowed or name in self.skill.graph.rules or who.endswith("waits for"):
                severity: Severity = "error" if name in limits or self.skill.native else "warning"
                self.add(severity, "unknown-tool", line, f"{who} {name}, {self.why(name)}", self.fix(name))
        for name in self.skill.foreign:
            message = f"{name} is another client's and is not available here"
            self.add("note", "unavailable-tool", allowed[0], message, "leave it, or name a tool of this project")
        present = [name for name in self.skill.allowed if not self.is_missing(name)]
        if self.skill.closed and not present:
            self.add("note", "no-tools", allowed[0], "nothing of allowed-tools is available", "name a tool here")

    def why(self, name: str) -> str:
        if any(other.no_worker for other in self.catalog.named(name)):
            return "a skill that says it must not be called as a worker"
        return f"which is no tool{near_text(name, self.known())}"

    def fix(self, name: str) -> str:
        return f"{'correct it, or ' if nearest(name, self.known()) else ''}create bin/{name}"

    def check_broken(self, name: str, line: int, who: str, needed: bool) -> None:
        wrong = self.broken(name)
        if wrong:
            message = f"{who} {name}, which is broken: {wrong.file}:{wrong.line} {wrong.code} {wrong.message}"
            self.add("error" if needed else "warning", "tool-broken", line, message, wrong.fix)

    def check_closed(self) -> None:
        allowed = set(self.skill.allowed)
        for name, (line, who) in self.limits().items():
            if name in allowed:
                continue
            fix = f"add {name} to allowed-tools"
            if name in self.skill.requires:
                message = f"requires names {name}, which is not among allowed-tools{near_text(name, allowed)}"
                self.add("error", "requires-not-allowed", self.line("requires"), message, fix)
            elif not self.is_missing(name):
                message = f"{who} {name}, which is not among allowed-tools{near_text(name, allowed)}"
                self.add("error", "not-allowed", line, message, fix)

    def check_reachable(self) -> None:
        """Targets that wait, directly or not, for what can never end well, each with the chain that leads there."""
        rules = self.skill.graph.rules
        users: dict[str, list[str]] = {}
        for target, needs in rules.items():
            for need in needs:
                users.setdefault(need.name, []).append(target)
        towards: dict[str, str] = {}
        todo = [name for name in users if self.is_missing(name) or self.broken(name)]
        dead = set(todo)
        while todo:
            name = todo.pop(0)
            for target in users.get(name, ()):
                if target not in towards and target not in dead:
                    towards[target] = name
                    todo.append(target)
        for target in rules:
            if target in towards:
                self.unreachable(target, towards)

    def unreachable(self, target: str, towards: dict[str, str]) -> None:
        chain = [target]
        while chain[-1] in towards:
            chain.append(towards[chain[-1]])
        line = next(need.line for need in self.skill.graph.needs(target) if need.name == chain[1])
        why = "which is no tool" if self.is_missing(chain[-1]) else "which is broken"
        self.add("error", "unreachable", line, f"{' waits for '.join(chain)}, {why}", f"mend {chain[-1]} first")

    def check_options(self) -> None:
        for target, needs in self.skill.graph.rules.items():
            for need in needs:
                for option in need.options:
                    for name in (need.name, target):
                        self.check_option(name, option, need.text(), need.line)

    def check_option(self, name: str, option: str, text: str, line: int) -> None:
        if self.is_missing(name) or self.broken(name):
            return
        declared = list(self.options(name))
        if option not in declared:
            message = f"{text}: {name} declares no --{option}{near_text(option, declared)}"
            self.add("error", "unknown-option", line, message, f"declare it in {name}, or correct the name")

    def options(self, name: str) -> Iterator[str]:
        if name in self.tools:
            yield from (parameter.name for parameter in self.tools[name].parameters if parameter.kind != "arg")
        else:
            yield from (parameter.name for parameter in self.workers[name].inputs)

    def check_commands(self) -> None:
        for words in self.skill.verify:
            self.check_verifier(words[0], self.line("verify"))
        name = self.skill.pipeline
        if name and (name not in self.tools or not self.tools[name].pipeline):
            what = "is no pipeline" if name in self.tools else f"is not found{near_text(name, self.pipelines())}"
            self.add("error", "bad-pipeline", self.line("pipeline"), f"pipeline: {name} {what}",
                     f"create bin/{name} with #!/usr/bin/env -S harness pipeline")  # fmt: skip
        elif name:
            self.check_broken(name, self.line("pipeline"), "pipeline names", needed=False)

    def check_verifier(self, name: str, line: int) -> None:
        if name not in self.tools:
            message = f"verify names {name}, which is no tool{near_text(name, self.known())}"
            self.add("error", "verify-missing", line, message, self.fix(name))
            return
        tool = self.tools[name]
        if tool.broken:
            self.check_broken(name, line, "verify names", needed=True)
        elif tool.effect not in ("read", "write"):
            message = f"verify names {name}, whose effect is {tool.effect}; a verifier may read or write"
            fix = f"write `# @meta effect read` into {self.shown(tool.path)}"
            self.add("error", "verify-effect", line, message, fix)

    def check_queries(self) -> None:
        for tool in self.tools.values():
            if tool.query:
                asked, line = self.tools.get(tool.query[0]), self.naming(tool.name)
                self.findings += check_query(tool, asked, self.skill.shown, line)

    def pipelines(self) -> Iterable[str]:
        every = {name: tool for place in self.places() for name, tool in self.catalog.tools(place).items()}
        return [name for name, tool in every.items() if tool.pipeline]

    def check_body(self) -> None:
        declared = [parameter.name for parameter in self.skill.inputs]
        for name, line in inputs_used(self.skill.body):
            if name not in declared:
                message = f"the body names the input {name or '(nothing)'}, not declared{near_text(name, declared)}"
                fix = "declare it in metadata.inputs, or correct the name"
                self.add("error", "unknown-input", self.skill.body_line + line, message, fix)
        if is_long(self.skill.body):
            message = f"the body is over {MAX_TOKENS:,} tokens or {MAX_LINES} lines"
            self.add("note", "long-body", self.skill.body_line, message, "move what is rarely needed to references/")
