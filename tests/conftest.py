"""What every test process begins with."""

from __future__ import annotations

import signal

# Whoever starts the tests in the background of a shell has SIGINT ignored for them, and for all they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
