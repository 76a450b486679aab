"""The second net: what looks like a credential by how it begins, whoever it belongs to. Not a search by randomness."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BEFORE = rb"(?<![A-Za-z0-9_-])"
_AFTER = rb"(?![A-Za-z0-9_-])"


@dataclass(frozen=True, slots=True)
class Pattern:
    """`name` says what it is; `shape` is looked at where one of `starts` is found."""

    name: str
    starts: tuple[bytes, ...]
    shape: re.Pattern[bytes]


def _token(name: str, start: bytes, rest: bytes, *starts: bytes) -> Pattern:
    return Pattern(name, starts or (start,), re.compile(_BEFORE + b"(?:" + start + b")" + rest + _AFTER))


PATTERNS = (
    _token("github-token", b"gh[oprsu]_", rb"[A-Za-z0-9]{36,255}", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
    _token("github-token", b"github_pat_", rb"[A-Za-z0-9_]{60,255}"),
    _token("gitlab-token", b"glpat-", rb"[A-Za-z0-9_.-]{20,255}"),
    _token("slack-token", b"xox[abeoprs]-", rb"[A-Za-z0-9-]{20,255}", b"xox"),
    _token("aws-key-id", b"AKIA|ASIA", rb"[A-Z0-9]{16}", b"AKIA", b"ASIA"),
    _token("google-key", b"AIza", rb"[A-Za-z0-9_-]{35}"),
    _token("google-token", rb"ya29\.", rb"[A-Za-z0-9_.-]{30,2048}", b"ya29."),
    _token("model-key", b"sk-", rb"(?:(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{24,255}|[A-Za-z0-9]{32,255})"),
    _token("payment-key", b"[rs]k_live_", rb"[A-Za-z0-9]{20,255}", b"sk_live_", b"rk_live_"),
    _token("package-token", b"npm_", rb"[A-Za-z0-9]{36}"),
    _token("package-token", b"pypi-AgEIcHlwaS5vcmc", rb"[A-Za-z0-9_-]{30,255}"),
    _token("hub-token", b"hf_", rb"[A-Za-z0-9]{30,64}"),
    _token("hub-token", b"dckr_pat_", rb"[A-Za-z0-9_-]{25,64}"),
    _token("mail-key", rb"SG\.", rb"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}", b"SG."),
    _token("jwt", b"eyJ", rb"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{10,}"),
    Pattern(
        "private-key", (b"-----BEGIN ",),
        re.compile(rb"-----BEGIN [A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,9}-----[^-]{16,65536}(?:-----END [A-Z ]{1,50}-----)?"),
    ),
)  # fmt: skip



def looks(raw: bytes) -> Iterator[tuple[int, int, str]]:
    """Where a text holds what looks like a credential: (start, end, name)."""
    for pattern in PATTERNS:
        for start in pattern.starts:
            at = raw.find(start)
            while at >= 0:
                found = pattern.shape.match(raw, at)
                if found is not None:
                    yield found.start(), found.end(), pattern.name
                at = raw.find(start, found.end() if found is not None else at + 1)
