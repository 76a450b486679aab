"""What a catalog is: tables with their columns, keys and descriptions, in domains. Data only."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `type` as the database writes it."""

    name: str
    type: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """`column` of the table refers to `to_column` of `to_table`, which is in the same domain."""

    column: str
    to_table: str
    to_column: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table or view of a domain."""

    domain: str
    name: str
    columns: tuple[Column, ...] = ()
    keys: tuple[Key, ...] = ()
    description: str = ""
    schema: str = ""  # the schema of the database, where it is not the usual one

    @property
    def path(self) -> str:
        """`domain.table`."""
        return f"{self.domain}.{self.name}"

    def described(self, more: str) -> Table:
        """The same table with more words about it."""
        return replace(self, description=f"{self.description} {more}".strip()) if more else self


@dataclass(frozen=True, slots=True)
class Rows:
    """What a read gave: at most as many rows as were asked for, whether there were more, and the time of the data."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool
    as_of: str
    as_of_means: str


class Failed(Exception):
    """A database did not answer: the exit code that says how, what it said, and what to do."""

    def __init__(self, code: int, message: str, fix: str) -> None:
        super().__init__(message)
        self.code, self.fix = code, fix


def too_slow(seconds: float) -> Failed:
    return Failed(124, f"no answer within {seconds:g} s", "ask for less: a narrower WHERE, or fewer joins")


def moment(seconds: float) -> str:
    """Seconds since 1970 as people and machines read it, in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def quoted(name: str) -> str:
    """A name as SQL writes it whatever it holds."""
    return '"' + name.replace('"', '""') + '"'
