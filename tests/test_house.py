"""The rules of the house: who may import whom, what decides stays pure, modules and functions stay small."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted((ROOT / "harness").rglob("*.py"))
ORDER = [
    *["errors", "documents", "events", "graph", "tools", "skills", "config", "policy", "secrets", "sandbox"],
    *["executor", "models", "prompt", "loop", "pipeline", "runs", "checks", "wiki", "evals", "view", "cli"],
]
EFFECTS = {"subprocess", "socket", "anthropic", "git", "rich", "typer"}
DECIDES = (
    "graph", "policy/decide", "policy/rules", "policy/request", "policy/destinations", "policy/budget",
    "policy/effects", "policy/names", "prompt", "events/fold", "events/words", "events/spending",
)  # fmt: skip
HEAVY = {"anthropic", "git", "httpx", "httpx2", "rich"}
MAX_MODULE, MAX_FUNCTION = 300, 40

pytestmark = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The full names of all imported modules, `from x import y` as both x and x.y."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]


def part(path: Path) -> str:
    """`harness/cli/main.py` → `cli`; the package's own two files are on top of everything."""
    name = path.relative_to(ROOT / "harness").parts[0].removesuffix(".py")
    return "cli" if name == "__main__" else name


def test_a_part_imports_only_parts_above_it(path: Path) -> None:
    own = part(path)
    seen = {name.split(".")[1] for name in imports(ast.walk(tree(path))) if name.startswith("harness.")}
    used = seen - {"__version__"}
    assert own == "__init__" or own in ORDER, f"{own} is no part of the house"
    if own == "__init__":
        assert not used
        return
    below = [name for name in used if name not in ORDER[: ORDER.index(own) + 1]]
    assert not below, f"{own} must not import {below}"


def test_what_decides_has_no_effects(path: Path) -> None:
    name = str(path.relative_to(ROOT / "harness").with_suffix("")).removesuffix("/__init__")
    if any(name == rule or name.startswith(f"{rule}/") for rule in DECIDES):
        assert not {module.split(".")[0] for module in imports(ast.walk(tree(path)))} & EFFECTS


def test_heavy_libraries_are_imported_where_they_are_used(path: Path) -> None:
    if path.relative_to(ROOT / "harness") == Path("view/live.py"):
        return  # itself imported only on a terminal
    module = tree(path)
    lazy = {id(node) for function in ast.walk(module) if is_function(function) for node in ast.walk(function)}
    eager = [node for node in ast.walk(module) if id(node) not in lazy]
    assert not {name.split(".")[0] for name in imports(eager)} & HEAVY
    assert "rich" not in {name.split(".")[0] for name in imports(ast.walk(module))}


def test_modules_say_what_they_are_for_and_stay_small(path: Path) -> None:
    assert ast.get_docstring(tree(path)), "no module docstring"
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAX_MODULE


def test_functions_stay_small(path: Path) -> None:
    long = [
        f"{node.name} in line {node.lineno}"
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > MAX_FUNCTION
    ]
    assert not long


def test_no_path_of_one_machine(path: Path) -> None:
    found = re.findall(r"[\"' ](/(?:home|Users|root|work|opt/\w)[^\"' \n]*)", path.read_text(encoding="utf-8"))
    assert not found
