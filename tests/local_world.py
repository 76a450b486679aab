"""A Python that has the stand-in for the library, weights that tell it what to do, and a project to run on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from tests.command import ROOT, clean_env, home_of
from tests.loop_world import Project

LIBRARY = ROOT / "tests" / "fake_library"
CHILD = (
    sys.executable, "-I", "-c",
    f"import sys; sys.path.insert(0, {str(LIBRARY)!r}); from harness.models.llama import main; sys.exit(main())",
)  # fmt: skip
"""The real child on the stand-in."""


def weights(path: Path, **plan: Any) -> Path:
    """A file of weights with a plan for the stand-in."""
    path.write_bytes(b"GGUF" + json.dumps(plan).encode())
    return path


def calls(path: Path) -> list[dict[str, Any]]:
    """What the stand-in was asked, in order."""
    noted = Path(f"{path}.calls")
    return [json.loads(line) for line in noted.read_text().splitlines()] if noted.exists() else []


def python_with_library(folder: Path) -> str:
    """A Python of its own that imports what this one does, and the stand-in as `xllamacpp`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    own = sysconfig.get_path("purelib")
    lines = [f"import sys; sys.path.insert(0, {str(LIBRARY)!r})", f"import site; site.addsitedir({own!r})"]
    (packages / "all.pth").write_text("\n".join(lines) + "\n")
    return str(folder / "bin" / "python")


def harness_with(python: str, *arguments: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """One command of harness under that Python, to its end."""
    return subprocess.run(
        [python, "-m", "harness", *arguments], cwd=cwd, env=clean_env(home_of(cwd), **env), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=120, start_new_session=True,
    )  # fmt: skip


def incident(path: Path) -> Project:
    """Six tools in an order, one of them with a value that another must have seen."""
    project = Project(path)
    project.tool("look", "echo payments is late, orders is well")
    project.tool("pods", "echo payments-7f restarts")
    table = "@option --table! <NAME>  the table\n@meta effect read\n@meta known --table"
    project.tool("describe", 'echo "columns of $*"', table)
    project.tool("query", 'echo "rows of $*"', table)
    project.tool("level", 'echo "$*"', "@option --level![low|high]  how much\n@meta effect read")
    project.tool("report", "echo the cause is known", "@meta effect read")
    deps = "describe: look pods\nquery: describe(--table)\nlevel: look\nreport: query level"
    project.skill("triage", "look pods describe query level report", deps, requires="report")
    return project


def environment(project: Path) -> dict[str, str]:
    """What a command in this project is given."""
    return {**os.environ, **clean_env(home_of(project))}
