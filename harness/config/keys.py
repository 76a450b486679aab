"""The settings there are, each with its default and what a project may do with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from harness.config.values import (
    amount,
    endpoint_keys,
    folders,
    fuse_types,
    one_of,
    share,
    stand_ins,
    text,
    time_limit,
    whole,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Key:
    """One setting. `read` takes its value (text, or a list of texts) and raises ValueError with the form wanted.

    `project` says what a project's file may do with it: `set`, `lower` (a number), `inside` (folders) or `no`.
    """

    read: Callable[[Any], Any]
    default: Any
    project: Literal["set", "lower", "inside", "no"]
    variable: str | None = None


KEYS: dict[str, Key] = {
    "models.strong": Key(text, None, "set", "HARNESS_MODEL"),
    "models.cheap": Key(text, None, "set"),
    "models.context": Key(whole(2_000, 10_000_000), 120_000, "no"),
    "models.ceiling": Key(amount, "10", "no"),
    "models.fallback": Key(stand_ins, {}, "no"),
    "models.cache": Key(one_of("5m", "1h"), "5m", "no"),
    "models.effort": Key(one_of("low", "medium", "high", "xhigh", "max"), None, "no"),
    "endpoints": Key(endpoint_keys, {}, "no"),
    "output": Key(one_of("text", "json"), "text", "set", "HARNESS_OUTPUT"),
    "view": Key(one_of("auto", "plain"), "auto", "no"),
    "glyphs": Key(one_of("auto", "unicode", "ascii"), "auto", "no", "HARNESS_GLYPHS"),
    "color": Key(one_of("auto", "never"), "auto", "no"),
    "parallel": Key(whole(1, 1000), 16, "lower", "HARNESS_PARALLEL"),
    "tool_timeout": Key(time_limit, 60.0, "set"),
    "eval.trials": Key(whole(1, 1000), 3, "set"),
    "eval.bar": Key(share, 1.0, "set"),
    "runs.dir": Key(text, ".harness/runs", "no"),
    "runs.allow_fs": Key(fuse_types, (), "no"),
    "skills.paths": Key(folders, (), "inside"),
    "tools.path": Key(folders, (), "no"),
}
