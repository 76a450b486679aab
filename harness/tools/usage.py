"""What a header says to a reader: the usage line, the help, the refusal of a wrong call, the JSON Schema."""

from __future__ import annotations

from collections.abc import Sequence

from harness.tools import Parameter, Tool
from harness.tools.meta import spelled
from harness.tools.notation import schema_type, typed


def usage(tool: Tool) -> str:
    """One line: `search-logs --service NAME [--since DURATION] [--json]`."""
    if not tool.declared:
        return f"{tool.name} [ARGS...]"
    return " ".join([tool.name, *(_used(parameter) for parameter in tool.parameters)])


def refusal(tool: Tool, problems: Sequence[str]) -> str:
    """The answer to a call that cannot be read: the class, each problem, the usage."""
    return f"INVALID_INPUT {faults(tool, problems)}"


def faults(tool: Tool, problems: Sequence[str]) -> str:
    """The same without the class, for a reason that is told beside it."""
    return "\n".join([tool.name, *(f"  {problem}" for problem in problems), f"  usage: {usage(tool)}"])


def help_text(tool: Tool) -> str:
    """What `--help` is answered with: everything the header says, without starting the tool."""
    parts = [f"{tool.name}: {tool.describe}" if tool.describe else tool.name, tool.long, f"usage: {usage(tool)}"]
    parts.append(_table([(_left(parameter), _right(parameter)) for parameter in tool.parameters]))
    parts.append(_table([(f"{v.name}{'!' if v.required else ''}", v.text or "a secret") for v in tool.env]))
    parts.append(f"effect {tool.effect}, repeat {tool.repeat}, timeout {tool.timeout:g} s")
    return "\n\n".join(part for part in parts if part)


def schema(tool: Tool) -> dict[str, object]:
    """The JSON Schema of the arguments: one object, standard words only, in header order."""
    properties: dict[str, object] = {parameter.name: _property(parameter) for parameter in tool.parameters}
    if not tool.declared:
        properties = {"args": {"type": "array", "items": {"type": "string"}}}
    return {
        "type": "object",
        "properties": properties,
        "required": [parameter.name for parameter in tool.parameters if parameter.required],
        "additionalProperties": False,
    }


def _property(parameter: Parameter) -> dict[str, object]:
    said: dict[str, object] = {"description": parameter.text} if parameter.text else {}
    if parameter.kind == "flag":
        return {"type": "integer", "minimum": 0, **said} if parameter.many else {"type": "boolean", **said}
    one = schema_type(parameter.notation)
    if parameter.choices:
        one["enum"] = [typed(parameter.notation, choice) for choice in parameter.choices]
    if parameter.many:
        least = {"minItems": 1} if parameter.required else {}
        return {"type": "array", "items": one, **least, **said}
    if parameter.default is not None:
        one["default"] = typed(parameter.notation, parameter.default)
    return {**one, **said}


def _placeholder(parameter: Parameter) -> str:
    if parameter.choices:
        return "|".join(parameter.choices)
    name = parameter.name if parameter.kind == "arg" else parameter.notation or parameter.name
    return name.upper()


def _written(parameter: Parameter) -> str:
    if parameter.kind == "flag":
        return spelled(parameter)
    word = _placeholder(parameter)
    return word if parameter.kind == "arg" else f"{spelled(parameter)} {word}"


def _used(parameter: Parameter) -> str:
    word = _written(parameter) if parameter.required else f"[{_written(parameter)}]"
    return f"{word}..." if parameter.many else word


def _left(parameter: Parameter) -> str:
    return f"-{parameter.short}, {_written(parameter)}" if parameter.short else _written(parameter)


def _right(parameter: Parameter) -> str:
    notes = ["required"] if parameter.required else []
    notes += ["may be repeated"] if parameter.many else []
    notes += [f"default {parameter.default or 'empty'}"] if parameter.default is not None else []
    return f"{parameter.text} ({', '.join(notes)})".lstrip() if notes else parameter.text


def _table(rows: Sequence[tuple[str, str]]) -> str:
    width = max((len(left) for left, _ in rows), default=0)
    return "\n".join(f"  {left:<{width}}  {right}".rstrip() for left, right in rows)
