"""Which parts of the system every tool may read, and how symbolic links lead to them. Not the roots of one call."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from harness.tools.links import links_on

_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/run/current-system"),
    *("/etc/ld.so.cache", "/etc/ld.so.preload", "/etc/alternatives", "/etc/localtime"),
    *("/etc/passwd", "/etc/group", "/etc/ssl/certs", "/etc/ssl/cert.pem"),
    *("/etc/ca-certificates/extracted", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/ca-trust/extracted"),
)
_NETWORK = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols"),
    *("/etc/nsswitch.conf", "/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies"),
)
SEEN = (
    *("/etc/mime.types", "/etc/timezone", "/etc/os-release", "/etc/terminfo", "/etc/locale.alias", "/etc/hosts"),
    *("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies", "/etc/host.conf"),
    *("/etc/nsswitch.conf", "/etc/gitconfig", "/etc/inputrc", "/etc/magic", "/etc/perl", "/etc/fonts"),
)
"""Harmless files that programs do without when they are missing, but not when they are there and cannot be read."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
PROC = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/version")
_SMALL = 64 << 10


@cache
def system(networked: bool) -> tuple[Path, ...]:
    """System and interpreter with all links followed, none inside another."""
    return tuple(outermost(path.resolve() for path in _named(networked)))


@cache
def small_files(networked: bool) -> tuple[Path, ...]:
    """Those of the system's paths that are files, and cheaper to copy than to mount."""
    return tuple(path for path in system(networked) if path.is_file() and path.stat().st_size <= _SMALL)


@cache
def links(networked: bool) -> tuple[tuple[str, str], ...]:
    """Every symbolic link met on the way to these, with its text, parents first."""
    found: dict[Path, str] = {}
    for path in _named(networked):
        found.update(links_on(path))
    return tuple((str(link), text) for link, text in sorted(found.items()))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """The given paths without those that lie below another of them."""
    kept: list[Path] = []
    for path in sorted(set(paths), key=lambda path: (len(path.parts), path)):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    return kept


def _named(networked: bool) -> list[Path]:
    names = [*_SYSTEM, *(_NETWORK if networked else ())]
    return [*(Path(name) for name in names if os.path.exists(name)), *_interpreter()]


def _interpreter() -> list[Path]:
    """What a tool in Python reads: the environment and the installation of the interpreter that runs this."""
    found = [Path(place) for place in (sys.prefix, sys.base_prefix, sys.base_exec_prefix, sys.executable) if place]
    # a prefix of "/" would open all of it
    return [path for path in dict.fromkeys(found) if len(path.parts) > 1 and path.exists()]
