"""What an Ollama server on this machine says about itself."""

from __future__ import annotations


def running_model() -> str | None:
    """The one model that is there to be taken, or None."""
    return None
