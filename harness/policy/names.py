"""Names of files that no tool may write, or read, whatever case or composition they are spelled in. Pure.

Protected are version control, the harness's own folders, other agents' and environment files; hidden are keys.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

DRAFTS = (".harness", "drafts")
"""What a write tool may write below a protected name, seen from the workspace."""

_PROTECTED = frozenset({".git", ".harness", ".agents", ".claude"})  # and all that begins with .env
_HIDDEN = frozenset({".env", ".netrc", "id_rsa", "id_ed25519", "id_ecdsa"})  # and .env.*, *.key
_SHOWN = frozenset({".env.example", ".env.sample"})


def folded(name: str) -> str:
    """One spelling for all that a file system may take for the same name."""
    return name.casefold() if name.isascii() else unicodedata.normalize("NFC", name).casefold()


def is_protected(name: str, unprotected: Collection[str] = (), more: Iterable[str] = ()) -> bool:
    """Of a folded name. `more` are folded names of the person's own, in which `*` stands for anything."""
    if name in unprotected:
        return False
    return name in _PROTECTED or name.startswith(".env") or any(fnmatchcase(name, one) for one in more)


def is_hidden(name: str, more: Iterable[str] = ()) -> bool:
    """Of a folded name."""
    if name in _HIDDEN or name.endswith(".key") or any(fnmatchcase(name, one) for one in more):
        return True
    return name.startswith(".env.") and name not in _SHOWN


def lies_in(path: str, root: str) -> bool:
    """Whether an absolute path is `root` or lies below it, component by component."""
    return path == root or path.startswith(f"{root.rstrip('/')}/")
