"""What every test process begins with."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from caged import Place, place, users

# Whoever starts the tests in the background of a shell has SIGINT ignored for them, and for all they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=users())
def here(request: pytest.FixtureRequest) -> Iterator[Place]:
    with place(request.param) as made:
        yield made


@pytest.fixture
def anyone() -> Iterator[Place]:
    """Where it makes no difference who the user is."""
    with place(users()[-1]) as made:
        yield made
