"""Values as they are compared: two ways to write one number are one value."""

from __future__ import annotations

from collections.abc import Mapping

from harness.tools import Parameter, Tool, Value
from harness.tools.notation import typed


def as_texts(tool: Tool, values: Mapping[str, Value]) -> dict[str, tuple[str, ...]]:
    """Parameter name → its values as comparable texts; a name without a value is left out.

    `args` holds the free argv of a tool that declares no arguments.
    """
    declared = {parameter.name: parameter for parameter in tool.parameters}
    found = {name: _texts(value, declared.get(name)) for name, value in values.items()}
    return {name: texts for name, texts in found.items() if texts}


def _texts(value: Value, parameter: Parameter | None) -> tuple[str, ...]:
    if isinstance(value, bool):
        return ("true",) if value else ()
    if isinstance(value, int):
        return (str(value),) if value else ()
    given = value if isinstance(value, tuple) else (value,)
    notation = parameter.notation if parameter is not None else None
    return tuple(str(typed(notation, text)) for text in given)
