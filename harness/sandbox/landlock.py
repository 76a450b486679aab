"""A domain of the kernel's Landlock, made from a cage and entered by a fresh thread that starts one command.

What the thread starts inherits the domain, the system call filter and the lack of capabilities; the thread then ends.
Not a place that decides the level, and not one that knows what is started.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from harness.errors import HarnessError
from harness.sandbox import Cage, kernel, places, seccomp
from harness.sandbox.facts import Facts, facts
from harness.sandbox.thread import in_thread

OLDEST = 3
"""The first version under which a file that may only be read cannot be cut either."""

T = TypeVar("T")

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS = {3: 15, 5: 16}  # since version → how many rights on files
_TCP = 0b11  # bind, connect; since version 4
_SCOPES = 0b11  # abstract unix sockets, signals; since version 6


def spawn(cage: Cage, start: Callable[[], T], machine: Facts | None = None) -> T:
    """What `start` returns or raises, run so that the process it starts is confined as the cage says.

    At `full` and `none` that is a plain call: bubblewrap confines what its own words name. Raises `HarnessError` when
    the confinement cannot be entered; `start` was not called then.
    """
    machine = machine or facts()
    if cage.level == "limits" and kernel.capabilities():
        return in_thread(lambda: _entered(lambda: _give_up(machine)), start)
    if cage.level != "landlock":
        return start()
    domain = _domain(cage, machine)
    try:
        code = seccomp.program(machine.machine, cage.network != "off")
        return in_thread(lambda: _entered(lambda: _enter(domain, code, machine)), start)
    finally:
        os.close(domain)


def _entered(enter: Callable[[], None]) -> None:
    try:
        enter()
    except OSError as error:
        raise _refused(error) from error


def _refused(error: OSError) -> HarnessError:
    reason = (error.strerror or str(error)).lower()
    fix = "nothing was started; try again, or with --sandbox full"
    return HarnessError(f"confinement could not be entered: {reason}", fix, error.filename)


def _give_up(machine: Facts) -> None:
    """What root does without at limits."""
    if machine.pids:
        kernel.new_pids()
    kernel.drop_capabilities(bounding=True)


def _enter(domain: int, code: bytes | None, machine: Facts) -> None:
    """Confine the calling thread for good."""
    if machine.pids:
        kernel.new_pids()
    kernel.no_new_privs()
    kernel.drop_capabilities(bounding=False)
    kernel.syscall(_RESTRICT_SELF, domain, 0)
    if code is not None:
        kernel.install_filter(code)


def _domain(cage: Cage, machine: Facts) -> int:
    """A descriptor of the rules for one call."""
    try:
        return _Rules(cage, machine).fd
    except OSError as error:
        raise _refused(error) from error


class _System:
    """The paths of the system that every call may read, kept open because opening them takes half of a spawn.

    Held for as long as the system's settings are the files they were when it was made.
    """

    def __init__(self, networked: bool) -> None:
        self.settings = _changed("/etc")
        self.open: list[tuple[int, int]] = []
        rights = [(path, _READ) for path in (*places.system(networked), *map(Path, places.SEEN))]
        rights += [(Path(name), _READ_FILE | _WRITE_FILE) for name in places.DEVICES]
        rights += [(Path(name), _READ_FILE) for name in places.PROC]
        for path, right in rights:
            with suppress(FileNotFoundError, PermissionError):  # no rule for what is not there, or not ours to see
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
                self.open.append((right if stat.S_ISDIR(os.fstat(fd).st_mode) else right & _OF_A_FILE, fd))

    def __del__(self) -> None:
        for _, fd in self.open:
            os.close(fd)


_systems: dict[bool, _System] = {}


def _system(networked: bool) -> _System:
    found = _systems.get(networked)
    if found is None or found.settings != _changed("/etc"):
        found = _systems[networked] = _System(networked)
    return found


def _changed(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


class _Rules:
    """A ruleset under construction. It owns its descriptor until the last rule is in it, then the caller does."""

    def __init__(self, cage: Cage, machine: Facts) -> None:
        networked = cage.network != "off"
        version = machine.landlock
        self.handled = (1 << max(bits for since, bits in _RIGHTS.items() if since <= version)) - 1
        parts = [self.handled]
        if version >= 4:
            parts.append(0 if networked else _TCP)
        if version >= 6:
            parts.append(_SCOPES)
        data = kernel.buffer(struct.pack(f"={len(parts)}Q", *parts))
        self.rule = kernel.buffer(bytes(12))
        self.rule_at = kernel.address(self.rule)
        self.fd = kernel.syscall(_CREATE_RULESET, kernel.address(data), len(data), 0)
        try:
            for rights, fd in _system(networked).open:
                self._allow(fd, rights)
            self._add_call(cage)
        except BaseException:
            os.close(self.fd)
            raise

    def _add_call(self, cage: Cage) -> None:
        write = self.handled & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
        for path in cage.read:
            self._add_tree(path, cage.hide)
        if cage.writable:
            self._add(self._open(cage.workspace), write)
        elif cage.workspace not in cage.hide:
            self._add_tree(cage.workspace, cage.hide)
        for path in (*(path for path in cage.write if path.exists()), cage.scratch):
            self._add(self._open(path), write)

    def _open(self, path: Path, flags: int = 0) -> int:
        """A descriptor to name the path by, or to list it with other flags.

        No link is followed: one that was put there since the path was resolved leads nowhere.
        """
        try:
            return kernel.open_real(os.fsencode(path), flags or os.O_PATH)
        except OSError as error:
            error.filename = str(path)
            raise

    def _add_tree(self, path: Path, hide: tuple[Path, ...]) -> None:
        """Make `path` readable except for the hidden paths below it."""
        try:
            below = tuple(hidden for hidden in hide if hidden != path and hidden.is_relative_to(path))
            if below:
                self._add_entries(self._open(path, os.O_RDONLY | os.O_DIRECTORY), path, below)
            else:
                self._add(self._open(path), _READ)
        except FileNotFoundError:
            return

    def _add_entries(self, folder: int, path: Path, hide: tuple[Path, ...]) -> None:
        """A rule for each entry, since Landlock cannot take a right back; names stay visible."""
        try:
            self._allow(folder, _READ_DIR)
            for name in os.listdir(folder):
                entry = path / name
                below = tuple(hidden for hidden in hide if hidden.is_relative_to(entry))
                if entry in below:
                    continue
                self._add_entry(folder, entry, below)
        finally:
            os.close(folder)

    def _add_entry(self, folder: int, entry: Path, hide: tuple[Path, ...]) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY if hide else os.O_PATH
        try:
            fd = os.open(entry.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP, errno.EACCES, errno.ENOTDIR):
                return
            raise
        if hide:
            self._add_entries(fd, entry, hide)
        else:
            self._add(fd, _READ)

    def _add(self, fd: int, rights: int) -> None:
        """A rule for the open path, which is closed. Where a link leads is somebody else's rule."""
        try:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISLNK(mode):
                self._allow(fd, rights if stat.S_ISDIR(mode) else rights & _OF_A_FILE)
        finally:
            os.close(fd)

    def _allow(self, fd: int, rights: int) -> None:
        struct.pack_into("=Qi", self.rule, 0, rights & self.handled, fd)
        kernel.syscall(_ADD_RULE, self.fd, _PATH_BENEATH, self.rule_at, 0)
