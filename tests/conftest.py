"""What every test process begins with."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest
from caged import Place, place, users

# Whoever starts the tests under `nohup` or in the background of a shell has signals ignored for them, and for all they
# start. What has a handler here begins with the default in every process that the tests start.
_HANDLED = {signal.SIGINT: signal.default_int_handler}
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(_number) == signal.SIG_IGN:
        signal.signal(_number, _HANDLED.get(_number, lambda *_: None))


@pytest.fixture(params=users())
def here(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place(request.param) as made:
        yield made


@pytest.fixture
def anyone() -> Iterator[Place]:
    """Where it makes no difference who the user is."""
    with place(users()[-1]) as made:
        yield made


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that a test starts and leaves running; killed when it is over."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for one in processes:
        one.kill()
        one.communicate()
