"""From bytes to front matter: what is mended, what is refused, and where; the same with either YAML loader."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skill_files import LOADERS, use_loader

from harness.skills.frontmatter import FrontMatter, read_front_matter

PIECES = ["---\n", "---", "-----\n", "name: a\n", "description: x: y\n", "\t", "metadata: {", "}", "[", "<!--", "-->"]
PIECES += ["allowed-tools: a b\n", "  tool-dependencies: |\n    a: b\n", "\r\n", "\r", "\0", "\x1b", "\ufeff", "é"]
PIECES += ["\u202e", "\\u0000", '"', "'", "*a", "&a ", "key: ", "  - ", "# h\n", "\u2028", "text\n", ": "]


@pytest.fixture(params=LOADERS, autouse=True)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use_loader(monkeypatch, request.param)
    return str(request.param)


def read(text: str | bytes) -> FrontMatter:
    return read_front_matter(text.encode() if isinstance(text, str) else text, "S")


def said(text: str | bytes) -> list[tuple[str, str, int]]:
    return [(f.code, f.severity, f.line) for f in read(text).findings]


def yaml_said(front: str) -> list[tuple[str, str, int]]:
    return said(f"---\n{front}\n---\nbody\n")


def plain(front: str) -> object:
    root = read(f"---\n{front}\n---\nbody\n").root
    return root.plain() if root else None


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (b"x" * (1 << 20) + b"y", "too-big", 1),
        (f"---\nname: {'x' * (65 << 10)}\n---\nbody", "too-big", 1),
        (b"---\r\nname: a\r\nb: \xff\r\n---\r\nbody", "not-utf8", 3),
        (b"\xff\xfe-\x00-\x00", "not-utf8", 1),
        ("---\nname: a\n---\nbody\0", "control-character", 4),
        ("---\nname: a\x1b[31m\n---\nbody", "control-character", 2),
        ("---\nname: a\x85b\n---\nbody", "control-character", 2),
        ('---\nname: "a\\x1b[31m"\n---\nbody', "control-character", 2),
        ("\n \t\n", "empty", 1),
        ("\ufeff", "empty", 1),
        ("```\n---\nname: a\n---\n", "no-frontmatter", 1),
        (" ---\nname: a\n---\n", "no-frontmatter", 1),
        ("----\nname: a\n---\n", "no-frontmatter", 1),
        ("<!-- open\n---\nname: a\n---\n", "no-frontmatter", 1),
        ("<!-- a --> b\n---\nname: a\n---\n", "no-frontmatter", 1),
        ("\n---\nname: a\n", "not-closed", 2),
        ("---\nname: a\n ---\n", "not-closed", 1),
        ("---\n* one\n* two *\n---\nbody", "no-frontmatter", 1),
        ("---\nname: a\nb: \"\n---\nbody", "yaml-error", 4),
        ("---\n- a\n---\nbody", "not-a-mapping", 1),
        ("---\njust text\n---\nbody", "not-a-mapping", 1),
        ("---\n# nothing\n---\nbody", "not-a-mapping", 1),
    ],
)
def test_refusals_have_one_code_and_a_line(text: str | bytes, code: str, line: int) -> None:
    refused = [(f.code, f.line) for f in read(text).findings if f.severity == "refused"]
    assert refused == [(code, line)]
    assert read(text).root is None


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("\ufeff---\nname: a\n---\nbody", "bom", 1),
        ("\n<!-- a\nb --> <!-- c -->\n---\nname: a\n---\nbody", "text-before", 1),
        ("---\nname: a\n---body\n", "closing-marker", 3),
        ("---\nname: a\n-------\nbody", "closing-marker", 3),
        ("---\nname: a\n---\n\n \n", "empty-body", 3),
        ("---\nname: a\n---\nbo\u202edy", "hidden-text", 4),
        ("---\nname: a\nb: x\U000e0041\n---\nbody", "hidden-text", 3),
        ('---\nname: a\nb: "x\\u202e"\n---\nbody', "hidden-text", 3),
        ("---\nname: a\nb: &x y\nc: *x\n---\nbody", "yaml-alias", 3),
    ],
)
def test_mended_with_one_warning(text: str, code: str, line: int) -> None:
    assert said(text) == [(code, "warning", line)]


LINE_ENDS = ["---\r\nname: a\r\n---\r\nb\r\n", "---\rname: a\r---\rb\r", "--- \nname: a\n---\t\nb\n"]


@pytest.mark.parametrize("text", LINE_ENDS)
def test_line_ends_and_trailing_blanks_need_no_finding(text: str) -> None:
    front = read(text)
    assert front.findings == [] and front.body == "b\n" and front.body_line == 4


def test_text_glued_to_the_closing_marker_is_the_first_line_of_the_body() -> None:
    front = read("---\nname: a\n---# Title\nmore\n")
    assert (front.body, front.body_line) == ("# Title\nmore\n", 3)


@pytest.mark.parametrize("front", ["d: " + "[" * 30_000, "description: a: " + "[" * 30_000, "a: &a [*a]"])
def test_bombs_stay_bombs(front: str) -> None:
    assert [(code, severity) for code, severity, _ in yaml_said(front)] == [("yaml-bomb", "refused")]


@pytest.mark.parametrize(
    ("front", "value"),
    [
        ("k: a: b", "a: b"),
        ("k: it's: b", "it's: b"),
        ("k: [x] and more", "[x] and more"),
        ("k: *bold* text", "*bold* text"),
        ("k: @you", "@you"),
        ("k: `code`", "`code`"),
        ("k: 50% off: now  ", "50% off: now"),
        ("k: {a: b} c", "{a: b} c"),
    ],
)
def test_a_value_that_needs_quotes_gets_them(front: str, value: str) -> None:
    assert yaml_said(f"name: a\n{front}") == [("unquoted-value", "warning", 3)]
    assert plain(f"name: a\n{front}") == {"name": "a", "k": value}


def test_tabs_become_blanks() -> None:
    assert yaml_said("a:\n\tb: c\n\td: e") == [("tab-indent", "warning", 3)]
    assert plain("a:\n\tb: c\n  \td: e") == {"a": {"b": "c", "d": "e"}}


@pytest.mark.parametrize(
    "front",
    [
        'metadata: {"tool-dependencies": "a: b"',
        "metadata: tool-dependencies: a: b",
        "allowed-tools: a: b",
        'k: "open',
        "k: 'it's'",
        "k: Use when: x\n  and more",
    ],
)
def test_nothing_else_is_mended(front: str) -> None:
    assert [(code, severity) for code, severity, _ in yaml_said(f"name: a\n{front}")] == [("yaml-error", "refused")]


@pytest.mark.parametrize(
    ("front", "severity", "line"),
    [
        ("name: a\nname: b", "warning", 3),
        ("allowed-tools: a\nallowed-tools: b", "error", 3),
        ("metadata: {a: b}\nmetadata: {c: d}", "error", 3),
        ("metadata:\n  requires: a\n  requires: b", "error", 4),
        ("metadata:\n  budget:\n    turns: 1\n    turns: 2", "error", 5),
        ("metadata:\n  tool-dependencies:\n    a: b\n    a: c", "error", 5),
        ("metadata:\n  x: 1\n  x: 2", "warning", 4),
        ("metadata:\n  x: {y: 1, y: 2}", "warning", 3),
    ],
)
def test_duplicate_keys(front: str, severity: str, line: int) -> None:
    assert yaml_said(front) == [("duplicate-key", severity, line)]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80) | st.lists(st.sampled_from(PIECES), max_size=14).map(lambda p: "".join(p).encode()))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for text in (data, b"---\n" + data + b"\n---\nbody\n"):
        front = read_front_matter(text, "S")
        assert (front.root is None) == any(f.severity == "refused" for f in front.findings)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.sampled_from(PIECES), max_size=14))
def test_both_loaders_say_the_same(monkeypatch: pytest.MonkeyPatch, parts: list[str]) -> None:
    text = "---\n" + "".join(parts) + "\n---\nbody\n"
    first = read(text)
    with monkeypatch.context() as patch:
        patch.delattr(yaml, "CBaseLoader", raising=False)
        assert read(text) == first
