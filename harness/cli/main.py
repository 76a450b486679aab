"""The console script. It loads nothing for `--version`; whatever goes wrong ends as one clear text and an exit code."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command that `sys.argv` names and return its exit code. Never raises."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        from harness import __version__

        sys.stdout.write(f"harness {__version__}\n")
        return 0
    from harness.cli.entry import run

    return run(arguments)
