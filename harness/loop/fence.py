"""Protected names around calls that overlap: one picture from before the first, one look after each.

While such calls overlap nobody can tell which of them changed a protected name: all of them are marked.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable
from pathlib import Path

from harness.sandbox.protect import Change, Snapshot, restore, snapshot


class Fence:
    """What guards the protected names of one workspace, for a run and its children together.

    `protect` are the person's own names and places besides the usual ones.
    """

    def __init__(self, workspace: Path, roots: Iterable[Path]) -> None:
        self.workspace, self.roots = workspace, tuple(roots)
        self.protect: tuple[str, ...] = ()
        self._free: set[str] = set()
        self._lock = threading.Lock()
        self._inside: dict[str, list[Change]] = {}
        self._before: Snapshot | None = None

    def enter(self, op_id: str, keep: Path, free: Collection[str] = ()) -> None:
        """A call begins that the kernel would let write protected names; `keep` is its attempt's folder.

        `free` are the names that the person lets it write: what changes of them while it runs is its own doing.
        """
        with self._lock:
            if not self._inside:
                self._before, self._free = snapshot(self.workspace, self.roots, keep, protect=self.protect), set()
            self._free.update(free)
            self._inside[op_id] = []

    def leave(self, op_id: str) -> list[Change]:
        """The call has ended and nothing of it runs: put back what changed, and say what did while it ran."""
        with self._lock:
            assert self._before is not None
            changes = restore(self._before, self._free)
            for seen in self._inside.values():
                seen += changes
            found = self._inside.pop(op_id)
            if not self._inside:
                self._before = None
            return found

    def forget(self, op_id: str) -> None:
        """The call never came to its end here; what it changed is put back for the others to tell of."""
        with self._lock:
            if op_id not in self._inside:
                return
        self.leave(op_id)
