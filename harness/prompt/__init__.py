"""Every word a model sees, composed from events: pure, blobs come through a reader that is passed in.

`texts` holds the constant texts and the first turn, `observation` turns one closed call into framed text, and
`transcript` folds events into turns. Nothing here decides what may run, and nothing here is sent anywhere.
"""

from __future__ import annotations

from harness.models.body import body_digest, prefix_digest, provider_body
from harness.prompt.texts import CONTINUE, Frame, Release
from harness.prompt.transcript import Transcript

__all__ = ["CONTINUE", "Frame", "Release", "Transcript", "body_digest", "prefix_digest", "provider_body"]
