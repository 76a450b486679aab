"""Values of the command line as they were typed, without the validation library that typer would load for them."""

from __future__ import annotations

import re
from typing import Any

import typer


class Verbatim:
    """Takes an argument as typed, or as a whole number. Typer's own way loads a library as slow as all the rest."""

    kinds: tuple[Any, ...] = (str, bool, int, list[str])

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if getattr(param, "multiple", False) or param.nargs == -1 else None
        if param.type_descriptor.annotation is not int or isinstance(value, int):
            return list(value) if isinstance(value, tuple) else value
        if not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise typer.BadParameter(f"{value} is no whole number", ctx=ctx, param=param)
        return int(value)


def spare_validation(parameter: Any) -> None:
    """For the kinds of parameters we use, the parser's own value is right; others are left to typer."""
    kind = getattr(parameter, "type_descriptor", None)
    if kind is not None and kind.annotation in Verbatim.kinds:
        parameter._runtime_param = Verbatim()
