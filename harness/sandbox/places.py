"""Which parts of the system every tool may read, and how symbolic links lead to them. Not the roots of one call."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/alternatives"),
    *("/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/etc/ca-certificates", "/etc/pki/tls/certs"),
    *("/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust", "/etc/crypto-policies"),
    *("/etc/localtime", "/etc/timezone", "/etc/locale.alias", "/etc/terminfo", "/etc/mime.types", "/etc/os-release"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
)
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PROC = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version")
MAX_LINKS = 40


@cache
def system(networked: bool) -> tuple[Path, ...]:
    """The paths of this system to read, as written here, existing ones only; some are links."""
    return tuple(Path(name) for name in (*_SYSTEM, *(_NETWORK if networked else ())) if os.path.exists(name))


@cache
def interpreter() -> tuple[Path, ...]:
    """What a tool in Python reads: the environment and the installation of the interpreter that runs this."""
    found = [Path(place) for place in (sys.prefix, sys.base_prefix, sys.base_exec_prefix, sys.executable) if place]
    # a prefix of "/" would open all of it
    return tuple(path for path in dict.fromkeys(found) if len(path.parts) > 1)


@cache
def resolved(networked: bool) -> tuple[Path, ...]:
    """System and interpreter with all links followed, none inside another."""
    return tuple(outermost(path.resolve() for path in (*system(networked), *interpreter())))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The given paths without those that lie below another of them."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def links(path: Path) -> Iterator[tuple[Path, str]]:
    """Every symbolic link met on the way to `path`, with its text, in the order in which they are met."""
    for _ in range(MAX_LINKS):
        for step in (*reversed(path.parents), path):
            if step.is_symlink():
                break
        else:
            return
        text = str(step.readlink())
        yield step, text
        path = Path(os.path.normpath(step.parent / text)) / path.relative_to(step)
