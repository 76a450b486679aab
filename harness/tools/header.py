"""Reading a tool: its leading comment block, from tags to a `Tool` with findings. Never runs or imports anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from harness.errors import Finding, near_text
from harness.tools import EnvVar, Parameter, Tool
from harness.tools.block import HEAD_BYTES, TAGS, Block, read_block
from harness.tools.meta import Meta, Names, read_meta
from harness.tools.notation import shown
from harness.tools.parameter import BadTag, Unsupported, read_parameter
from harness.tools.regular import read_regular

MAX_PARAMETERS = 64
_TAG = re.compile(r"[ \t]*@([A-Za-z][A-Za-z0-9_-]*)(?:[ \t]+(.*))?")
_ENV = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(!?)(=[^ \t]*|\[[^\]]*\])?(?:[ \t]+(.*))?")
_SUBCOMMAND_TAGS = ("cmd", "alias")


@dataclass(frozen=True, slots=True)
class _Tag:
    line: int
    name: str
    text: str


@dataclass(slots=True)
class _Header:
    """A header as it is being read. `unsupported` holds what makes the tool count as one without header."""

    file: str
    tags: list[_Tag] = field(default_factory=list)
    describe: str = ""
    long: str = ""
    plain: str = ""
    parameters: list[Parameter] = field(default_factory=list)
    env: list[EnvVar] = field(default_factory=list)
    unsupported: list[Finding] = field(default_factory=list)
    argument_findings: list[Finding] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def named(self, *names: str) -> list[_Tag]:
        return [tag for tag in self.tags if tag.name in names]


def read_tool(path: Path, name: str, *, script: bool = False, display: str | None = None) -> Tool:
    """The tool at `path`, called `name`. What is wrong with it is among its findings, which call the file `display`."""
    file = display or str(path)
    try:
        data = read_head(path)
    except OSError as error:
        why = f"cannot be read: {(error.strerror or str(error)).lower()}"
        finding = Finding("unreadable", "error", file, 1, why, "make it a readable file, or remove it")
        return Tool(name, path, script=script, file=file, findings=(finding,))
    block = read_block(data, file)
    header = _read_header(block, file)
    return _tool(header, block, name, path, script)


def read_head(path: Path) -> bytes:
    """The first HEAD_BYTES of a regular file. Raises OSError, also for anything that is not a regular file."""
    return read_regular(path, HEAD_BYTES - 1)


def is_pipeline(shebang: str | None) -> bool:
    """Whether the first line runs `harness pipeline`."""
    words = [word for word in (shebang or "").split() if word != "-S"]
    if words and words[0].rsplit("/", 1)[-1] == "env":
        words = words[1:]
    return len(words) > 1 and words[0].removeprefix("-S").rsplit("/", 1)[-1] == "harness" and words[1] == "pipeline"


def _tool(header: _Header, block: Block, name: str, path: Path, script: bool) -> Tool:
    whole = any(tag.name in TAGS for tag in header.tags) and not header.unsupported
    names = Names.of(header.parameters, header.env)
    meta = _meta(header, names, whole)
    pipeline = is_pipeline(block.shebang)
    effect = "read" if pipeline else meta.effect or "external"
    findings = [*block.findings, *header.findings, *header.unsupported, *meta.findings, *_below(header.file, block)]
    if whole:
        findings += header.argument_findings
    return Tool(
        name=name,
        path=path,
        describe=header.describe or ("" if whole else header.plain),
        long=header.long,
        parameters=tuple(header.parameters) if whole else (),
        header=whole,
        effect=effect,
        effect_declared=meta.effect is not None,
        repeat=meta.repeat or ("pure" if effect == "read" and (whole or pipeline) else "opaque"),
        timeout=meta.timeout,
        ttl=meta.ttl,
        known=meta.known,
        produces=meta.produces,
        net=tuple(word for word in meta.net if word != "none"),
        query=meta.query,
        roles=meta.roles,
        env=tuple(header.env),
        pipeline=pipeline,
        script=script,
        file=header.file,
        findings=tuple(sorted(findings, key=lambda finding: (finding.line, finding.code))),
    )


def _meta(header: _Header, names: Names, whole: bool) -> Meta:
    """All of `@meta`, or of a tool that counts as one without header only its timeout."""
    lines = [(tag.line, tag.text) for tag in header.named("meta")]
    if not whole:
        lines = [(line, text) for line, text in lines if text.split(None, 1)[:1] == ["timeout"]]
    return read_meta(lines, names, header.file)


def _below(file: str, block: Block) -> list[Finding]:
    if block.below is None:
        return []
    message = f"tags below the code, which begins on line {block.end}, are not read"
    return [Finding("header-below-code", "warning", file, block.below, message, "move the tags above the code")]


def _read_header(block: Block, file: str) -> _Header:
    header = _Header(file)
    _split(header, block)
    for tag in header.tags:
        if tag.name in ("arg", "option", "flag"):
            _add_parameter(header, tag)
        elif tag.name == "env":
            _add_env(header, tag)
        elif tag.name in _SUBCOMMAND_TAGS:
            _add_unsupported(header, tag.line, f"@{tag.name}")
        elif tag.name not in TAGS:
            message = f"@{shown(tag.name)} is not known{near_text(tag.name, TAGS)}"
            fix = f"use one of {', '.join('@' + known for known in TAGS)}, or remove it"
            header.findings.append(Finding("unknown-tag", "warning", file, tag.line, message, fix))
    _check_order(header)
    return header


def _split(header: _Header, block: Block) -> None:
    """Tags, the text of `@describe` with its continuation, and the first plain comment."""
    long: list[str] | None = None
    for line, text in block.lines:
        if (found := _TAG.fullmatch(text)) is None:
            plain = text.strip(" \t")
            if long is not None:
                long.append(plain)
            elif plain and not header.plain and not plain.startswith(("-*-", "!")):
                header.plain = plain
            continue
        header.tags.append(_Tag(line, found[1], (found[2] or "").strip(" \t")))
        header.long = header.long or "\n".join(long or ()).strip()
        long = [] if found[1] == "describe" and not header.describe else None
        if found[1] == "describe":
            _describe(header, header.tags[-1])
    header.long = header.long or "\n".join(long or ()).strip()


def _describe(header: _Header, tag: _Tag) -> None:
    if not tag.text:
        header.findings.append(_bad_tag(header, tag.line, "@describe has no text"))
    elif header.describe:
        header.findings.append(_duplicate(header, tag.line, "@describe"))
    else:
        header.describe = tag.text


def _add_parameter(header: _Header, tag: _Tag) -> None:
    kind = cast(Literal["arg", "option", "flag"], tag.name)
    try:
        made = read_parameter(kind, tag.text, tag.line)
    except BadTag as error:
        header.argument_findings.append(_bad_tag(header, tag.line, f"@{tag.name}: {error}"))
        return
    except Unsupported as error:
        _add_unsupported(header, tag.line, str(error))
        return
    if made.name == "help" and kind != "arg":
        header.argument_findings.append(_bad_tag(header, tag.line, "--help cannot be declared; it is answered anyway"))
    elif twice := _taken(made, header.parameters):
        fix = "give each argument a name of its own"
        header.argument_findings.append(Finding("duplicate-name", "error", header.file, tag.line, twice, fix))
    elif len(header.parameters) == MAX_PARAMETERS:
        header.argument_findings.append(_bad_tag(header, tag.line, f"more than {MAX_PARAMETERS} arguments"))
    else:
        header.parameters.append(made)


def _taken(made: Parameter, before: Sequence[Parameter]) -> str | None:
    for other in before:
        if other.name == made.name:
            return f"the name {made.name} is already declared on line {other.line}"
        if made.short and other.short == made.short:
            return f"-{made.short} is already declared on line {other.line}"
    return None


def _check_order(header: _Header) -> None:
    """Positional arguments are filled in order, so a gap or an open end before the last cannot be read back."""
    args = [parameter for parameter in header.parameters if parameter.kind == "arg"]
    optional = next((arg for arg in args if not arg.required), None)
    for index, arg in enumerate(args):
        if arg.many and index < len(args) - 1:
            message = f"@arg {arg.name} may be repeated, so it must be the last"
            header.argument_findings.append(_bad_tag(header, arg.line, message))
        elif arg.required and optional is not None and args.index(optional) < index:
            message = f"@arg {arg.name} is required, but stands after {optional.name}, which is not"
            header.argument_findings.append(_bad_tag(header, arg.line, message))


def _add_env(header: _Header, tag: _Tag) -> None:
    found = _ENV.fullmatch(tag.text)
    if found is None:
        word = tag.text.split(None, 1)[0] if tag.text else "nothing"
        header.findings.append(_bad_tag(header, tag.line, f"@env: {shown(word)} is no name of a variable"))
        return
    name, required, value, rest = found[1], found[2], found[3], found[4] or ""
    if value:
        message = f"@env {name} is given a value, which is ignored"
        fix = f"write @env {name}{required}; a header holds no values"
        header.findings.append(Finding("env-value", "warning", header.file, tag.line, message, fix))
    if any(other.name == name for other in header.env):
        header.findings.append(_duplicate(header, tag.line, f"@env {name}"))
        return
    file, _, text = rest.partition(" ") if re.match(r"<FILE>(?: |$)", rest) else ("", "", rest)
    header.env.append(EnvVar(name, bool(required), bool(file), text.strip(" \t")))


def _add_unsupported(header: _Header, line: int, what: str) -> None:
    message = f"{what} is not supported, so the tool counts as one without header"
    fix = "use @arg, @option --name and @flag --name with !, * or + only"
    header.unsupported.append(Finding("unsupported-argc", "warning", header.file, line, message, fix))


def _duplicate(header: _Header, line: int, what: str) -> Finding:
    message = f"{what} is given again; the first one holds"
    return Finding("duplicate-tag", "warning", header.file, line, message, "remove one of them")


def _bad_tag(header: _Header, line: int, message: str) -> Finding:
    return Finding("bad-tag", "error", header.file, line, message, "correct the line, or remove it")
