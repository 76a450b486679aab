"""The report about a bug of ours: what a developer needs, without the values of any variable."""

from __future__ import annotations

import os
import platform
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from harness import __version__
from harness.errors import HarnessError
from harness.events.io import make_private
from harness.policy.files import state_folder


def report(error: Exception, arguments: list[str], hide: Callable[[str], str]) -> HarnessError:
    """Write the report and return the error that names it; exit code 3. `hide` masks secrets."""
    what = hide(f"bug in harness: {type(error).__name__}: {error}")
    try:
        path = written(hide(text(error, arguments)))
    except OSError as failure:
        return HarnessError(what, f"report it; no report could be written: {failure}", code=3)
    return HarnessError(what, "send the report to the maintainers", str(path), code=3)


def text(error: Exception, arguments: list[str]) -> str:
    """The report. A traceback shows lines of code, never the values they had."""
    versions = f"harness {__version__}, Python {platform.python_version()}, {platform.platform()}"
    trace = "".join(traceback.TracebackException.from_exception(error, capture_locals=False).format())
    return f"{versions}\narguments: {arguments!r}\n\n{trace}"


def written(body: str) -> Path:
    folder = state_folder(os.environ) / "log"
    make_private(folder)
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(body)
    return path
