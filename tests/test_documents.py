"""YAML as text: the same words, lines and refusals with PyYAML's C loader and without it."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from skill_files import LOADERS, use_loader

from harness.documents import Node, YamlBomb, YamlError, read_yaml, walk

PARTS = [*"ab:-#|>[]{},&*!?\"'%@`\\ \n\t", ": ", "- ", "\n  ", "k: ", "&a ", "*a", "!t ", "|2", " # c", "x?", "\\n"]
PARTS += ["---", "...", "\\ud83d\\udee1", "\\ud83d", "é", "\u2028", "\u00a0", "\ufeff", "\U0001f600", "%YAML 1.1\n"]


@pytest.fixture(params=LOADERS)
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    use_loader(monkeypatch, request.param)
    return str(request.param)


def values(text: str) -> object:
    root = read_yaml(text).root
    return root.plain() if root else None


def test_scalars_stay_text_and_merge_is_a_key(loader: str) -> None:
    assert values("a: 1.10\nb: no\n<<: ~\nc:\n") == {"a": "1.10", "b": "no", "<<": "~", "c": ""}


def test_lines_count_in_the_file(loader: str) -> None:
    root = read_yaml("a: 1\nb:\n  c: |\n    x\n  d:\n", line=5).root
    assert root is not None and isinstance(root.value, dict)
    inner = root.value["b"]
    assert root.key_lines == {"a": 5, "b": 6} and inner.key_lines == {"c": 7, "d": 9}
    assert isinstance(inner.value, dict)
    assert (inner.value["c"].line, inner.value["c"].style, inner.value["d"].line) == (7, "|", 9)


def test_the_last_of_two_keys_holds(loader: str) -> None:
    root = read_yaml("a: 1\na: 2\n").root
    assert root is not None and root.plain() == {"a": "2"} and root.duplicates == [("a", 2)]


def test_a_surrogate_pair_is_one_character(loader: str) -> None:
    assert values('{"x":{"emoji":"\\ud83d\\udee1"}}') == {"x": {"emoji": "\U0001f6e1"}}
    assert values('"\\\\ud83d\\\\udee1"') == "\\ud83d\\udee1"
    with pytest.raises(YamlError):
        read_yaml('"\\ud83d"')


def test_aliases_are_shared_and_counted(loader: str) -> None:
    document = read_yaml("a: &a [x]\nb: *a\n")
    assert document.root and document.root.plain() == {"a": ["x"], "b": ["x"]} and document.aliases == [1]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 30_000,
        "a: " + "{" * 30_000,
        "- " * 30_000,
        "[" * 21 + "]" * 21,
        "[" * 900 + "]" * 900,
        "a: &a [*a]",
        "a: &a {b: *a}",
        "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)),
        "[" + "a," * 10_001 + "]",
    ],
)
def test_bombs(loader: str, text: str) -> None:
    with pytest.raises(YamlBomb):
        read_yaml(text)


def test_twenty_levels_are_fine(loader: str) -> None:
    root = read_yaml("[" * 19 + "x" + "]" * 19).root
    assert root is not None and len(list(walk(root))) == 20


@pytest.mark.parametrize("text", ["a: b: c", "a: [", "a\n\tb: c", "? [a]\n: b", "a: b\n...\nc: d", "@a", "a: *x"])
def test_what_is_no_yaml_is_said_with_its_place(loader: str, text: str) -> None:
    with pytest.raises(YamlError) as raised:
        read_yaml(text, line=3)
    assert raised.value.line >= 3 and raised.value.column >= 1 and raised.value.message


def record(text: str) -> object:
    def plain(node: Node, above: tuple[int, ...]) -> object:
        value: object = node.value
        if isinstance(node.value, list):
            value = [plain(item, above) for item in node.value]
        elif isinstance(node.value, dict):
            value = {key: plain(item, above) for key, item in node.value.items()}
        return (value, node.line, node.column, node.style, node.flow, node.key_lines, node.duplicates)

    try:
        document = read_yaml(text)
    except YamlError as error:
        return (type(error).__name__, error.message, error.line, error.column)
    return (document.root and plain(document.root, ()), document.aliases)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(st.sampled_from(PARTS), max_size=14))
def test_both_loaders_agree_on_anything(monkeypatch: pytest.MonkeyPatch, parts: list[str]) -> None:
    text = "".join(parts)
    if not hasattr(yaml, "CBaseLoader"):
        pytest.skip("only the pure loader is here")
    fast = record(text)
    with monkeypatch.context() as patch:
        patch.delattr(yaml, "CBaseLoader")
        assert record(text) == fast
