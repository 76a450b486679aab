"""What must not show in what a command writes down or prints, where no run is driven."""

from __future__ import annotations

import os
from collections.abc import Callable

from harness.cli.place import Place, project_root
from harness.errors import HarnessError
from harness.events.hiding import Hide
from harness.policy.settings import load
from harness.secrets import masker
from harness.secrets.masker import Masker


def masker_of(at: Place) -> Masker:
    """The secrets of the person's policy and the keys of model providers. Raises HarnessError for a bad policy."""
    keys = at.config.value("endpoints").values()
    return masker(load(at.project), os.environ, at.project.resolve(), keys)


def late() -> Callable[[str], str]:
    """Masks what a command that drives no run says of an error; nothing where the policy cannot be read."""
    try:
        project = project_root()
        return masker(load(project), os.environ, project.resolve()).text
    except HarnessError:
        return str


def hide_of(at: Place) -> Hide:
    """The same for what is put into a run's inbox."""
    return masker_of(at).raw
