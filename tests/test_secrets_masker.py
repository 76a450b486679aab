"""Masking: every form of a value, wherever it begins, in one piece or in many; prose is left alone."""

from __future__ import annotations

import base64
import html
import json
import random
import string
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.prompt.observation import clean
from harness.secrets.masker import Masker, Pieces, Stream, merged
from harness.secrets.prefixes import PATTERNS, looks
from harness.secrets.unseen import seen
from tests.planting import SECRETS, every_form, left_in, planted

MASKER = Masker(SECRETS)
ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("form", planted("x" * 8))
def test_a49_every_listed_form_of_a_value_is_masked_by_its_name(name: str, form: str) -> None:
    found: set[str] = set()
    text = f"before {planted(SECRETS[name])[form]} after"
    masked = MASKER.text(text, found)
    assert left_in(masked.encode()) == []
    assert f"[secret:{name}]" in masked and name in found
    assert masked.startswith("before ") and masked.endswith(" after")


@given(st.text(min_size=8, max_size=60), st.binary(max_size=9), st.binary(max_size=9))
def test_any_value_is_masked_in_base64_and_hex_wherever_it_begins(value: str, before: bytes, after: bytes) -> None:
    raw = value.encode("utf-8", "surrogatepass")
    masker = Masker({"ANY": value})
    for whole in (base64.b64encode(before + raw + after), (before + raw + after).hex().encode(), before + raw + after):
        assert b"[secret:ANY]" in masker.raw(whole)
    if before == after == b"":
        assert masker.raw(base64.b64encode(raw)) == b"[secret:ANY]"


def go(text: str) -> str:
    """JSON as Go writes it."""
    return json.dumps(text).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: json.dumps(text).replace("/", "\\/"), lambda text: go(text),
        lambda text: "".join(f"%{byte:02x}" for byte in text.encode()), lambda text: quote(text, safe="!'()*"),
        lambda text: base64.urlsafe_b64encode(text.encode()).decode(), html.escape, repr,
    ],
)  # fmt: skip
def test_spellings_of_other_encoders_are_masked_too(encode: object) -> None:
    for name, value in SECRETS.items():
        assert f"[secret:{name}]" in MASKER.text(encode(value))  # type: ignore[operator]


def test_the_longer_of_two_that_overlap_gives_the_name_and_no_part_of_either_is_left() -> None:
    assert MASKER.text(SECRETS["LONGER_TOKEN"]) == "[secret:LONGER_TOKEN]"
    assert MASKER.text(SECRETS["API_TOKEN"] + "-and") == "[secret:API_TOKEN]-and"
    crossing = Masker({"ONE": "12345678abcd", "TWO": "abcdefghijklmnop"})
    assert crossing.text("<12345678abcdefghijklmnop>") == "<[secret:TWO]>"
    assert merged([(0, 4, "a"), (4, 8, "b")]) == [(0, 4, "a"), (4, 8, "b")]


def test_what_is_not_there_is_the_same_object() -> None:
    raw = b"nothing of it " * 100
    assert MASKER.raw(raw, net=True) is raw
    text = "naïve Ümläute"
    assert MASKER.text(text, net=True) is text
    assert Masker().raw(every_form().encode()) == every_form().encode()


def test_a51_a_value_that_is_too_short_is_not_learnt_and_a_new_one_is() -> None:
    masker = Masker({"PIN": "hunter2"})
    assert masker.text("hunter2") == "hunter2" and masker.longest == 0
    masker.learn({"LATE": "hunter22"})
    assert masker.text("hunter22") == "[secret:LATE]"


@pytest.mark.parametrize("width", [60, 64, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_encoding_that_is_wrapped_is_masked_across_its_lines(width: int, end: str) -> None:
    """As `base64` and `openssl` print it, and `fold` anything else."""
    masker = Masker({"KEY": "0123456789abcdefghijklmnopqrstuvwxyz" * 5, "TOKEN": "tok-4711-Az09qwertY"})
    for whole in ("a" * 50 + "0123456789abcdefghijklmnopqrstuvwxyz" * 5 + "b" * 50, "x" * 55 + "tok-4711-Az09qwertY!"):
        for text in (whole, base64.b64encode(whole.encode()).decode(), whole.encode().hex()):
            lines = end.join(text[at : at + width] for at in range(0, len(text), width))
            assert "[secret:" in masker.text(f"before{end}{lines}{end}after")
            pieces = Pieces(masker, set())
            raw = f"before{end}{lines}{end}after".encode()
            made = b"".join(pieces.feed(raw[at : at + 7]) for at in range(0, len(raw), 7)) + pieces.flush()
            assert made == masker.raw(raw) and made.startswith(b"before")


def test_lines_that_only_together_are_a_secret_are_left() -> None:
    masker = Masker({"TOKEN": "tok-4711-Az09qwertY"})
    text = "tok-\n4711\n-Az0\n9qwe\nrtY\n"
    assert masker.text(text) == text


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_a49_text_that_comes_in_pieces_is_masked_as_the_whole_is(size: int) -> None:
    text = f"a start {every_form()} and more text behind it, ä € 🙂 " + every_form()
    passed: list[str] = []
    stream = Stream(MASKER, passed.append)
    for at in range(0, len(text), size):
        stream.feed(text[at : at + size])
        assert left_in("".join(passed).encode()) == []
    stream.flush()
    assert "".join(passed) == MASKER.text(text)


def test_a_stream_holds_back_no_more_than_a_secret_could_begin_in() -> None:
    passed: list[str] = []
    stream = Stream(Masker({"ONE": "abcdefgh"}), passed.append)
    stream.feed("x" * 1000)
    assert 1000 - 24 < len("".join(passed)) < 1000


@given(st.binary(max_size=400), st.integers(1, 50), st.randoms())
def test_bytes_in_pieces_are_masked_as_the_whole_is(noise: bytes, size: int, dice: random.Random) -> None:
    forms = [form.encode() for text in SECRETS.values() for form in planted(text).values()]
    raw = b"".join(noise[: dice.randrange(len(noise) + 1)] + dice.choice(forms) for _ in range(4))
    pieces = Pieces(MASKER, found := set())
    made = b"".join(pieces.feed(raw[at : at + size]) for at in range(0, len(raw), size)) + pieces.flush()
    assert made == MASKER.raw(raw)
    assert found and left_in(made) == []


def test_prose_holds_no_secret_and_nothing_that_looks_like_one() -> None:
    """Half a megabyte: our own texts, and words at random. The values are those of fifty tokens."""
    dice = random.Random(7)
    letters = string.ascii_letters + string.digits + "-_+/="
    masker = Masker({f"S{n}": "".join(dice.choices(letters, k=dice.randint(8, 64))) for n in range(50)})
    own = "".join(path.read_text() for path in sorted(ROOT.glob("harness/**/*.py")))
    prose = own + " ".join(dice.choices(own.split(), k=60_000))
    assert len(prose) > 500_000
    found: set[str] = set()
    masker.text(prose, found, net=True)
    assert found == set()


LOOKS = {
    "github-token": "ghp_" + "a1B2" * 9, "gitlab-token": "glpat-" + "x" * 20, "slack-token": "xoxb-" + "1234-" * 5,
    "aws-key-id": "AKIA" + "ABCD" * 4, "google-key": "AIza" + "aB3_-" * 7, "google-token": "ya29." + "a0" * 20,
    "model-key": "sk-ant-" + "a1" * 20, "payment-key": "sk_live_" + "a1" * 12, "package-token": "npm_" + "a1" * 18,
    "hub-token": "hf_" + "a1" * 15, "mail-key": "SG." + "a1" * 11 + "." + "b" * 43,
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "private-key": f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIE' * 20}\n-----END RSA PRIVATE KEY-----",
}  # fmt: skip


def test_the_second_net_is_a_dozen_kinds_of_credential() -> None:
    assert {pattern.name for pattern in PATTERNS} == set(LOOKS)


@pytest.mark.parametrize(
    "word",
    [
        "sk-circle-fade-dot-animation-delay-12345678", "task-0123456789abcdef0123456789abcdef",
        "npm_config_registry_url_1", "npm_package_dependencies_typescript_eslint_parser",
        "hf_hub_download_with_progress_and_retries_2", "SG.1.2",
        "eyJ0.eyJ1.x", "AKIAX", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "xox-box", "ghp_short",
    ],
)  # fmt: skip
def test_what_only_begins_like_a_credential_is_left(word: str) -> None:
    assert Masker().text(f"a {word} b", net=True) == f"a {word} b"


@pytest.mark.parametrize("name", LOOKS)
def test_what_looks_like_a_credential_is_masked_by_its_kind(name: str) -> None:
    found: set[str] = set()
    assert Masker().text(f"key={LOOKS[name]}; next", found, net=True) == f"key=[secret:{name}]; next"
    assert found == {name}
    assert list(looks(f"x{LOOKS[name]}".encode())) == [] or name == "private-key"
    assert Masker().text(LOOKS[name]) == LOOKS[name]


UNSEEN = (
    "\x1b[31m", "\x1b[1;38;5;9m\x1b[K", "\x1b]8;;https://a.example\x1b\\", "\x1b(B", "\x1b\r0", "\x1b[4\rm", "\x07",
    "\0" * 9, "\u200b", "\ufeff", "\u00ad", "\u2060", "\u202e", "\U000e0041", "\x85", "\ufe0f",
    "\u200d\x1b[0m\x7f",
)  # fmt: skip


@pytest.mark.parametrize("between", UNSEEN, ids=ascii)
def test_a49_what_cleaning_takes_out_of_a_secret_hides_it_from_nobody(between: str) -> None:
    """In the middle, between all letters, in a wrapped encoding and in what only looks like a credential."""
    value, token = SECRETS["API_TOKEN"], "ghp_" + "a1B2" * 9
    encoded = "\n".join(
        base64.b64encode(b"x" * 50 + value.encode() + b"y" * 50).decode()[at : at + 76] for at in (0, 76, 152)
    )
    for text in (value[:7] + between + value[7:], between.join(value), encoded[:100] + between + encoded[100:],
                 token[:9] + between + token[9:]):  # fmt: skip
        found: set[str] = set()
        masked = MASKER.text(f"before {text} after", found, net=True)
        assert found and masked.startswith("before ") and masked.endswith(" after")
        assert left_in(clean(masked).encode()) == [] and "ghp_a1" not in clean(masked)


@given(
    st.lists(
        st.sampled_from([*UNSEEN, "\x1b", "[", "3", "m", " ", "\r", "\n", "ä", *"tok-4711-Az09qwertY"]), max_size=60
    )
)
def test_no_cleaned_text_holds_a_secret_that_the_masker_left(parts: list[str]) -> None:
    value = "tok-4711-Az09qwertY"
    masker = Masker({"TOKEN": value})
    for text in ("".join(parts), "".join(part + letter for part, letter in zip(parts, value * 4, strict=False))):
        assert value not in clean(masker.text(text).replace("[secret:TOKEN]", "|"))


def test_every_letter_that_cleaning_takes_out_is_looked_through() -> None:
    for letter in map(chr, range(0x110000)):
        if not letter.isprintable() and letter not in "\n\r" and clean(letter) == "":
            assert seen(letter.encode()) == b"", ascii(letter)
    for kept in ("\n", "\r\n", "\t", "ä", "—", "é", "中", "🙂", " "):
        assert seen(kept.encode()) == kept.encode()


@pytest.mark.parametrize("size", [1, 3, 64])
def test_a49_a_coloured_secret_in_pieces_is_masked_as_the_whole_is(size: int) -> None:
    value = SECRETS["API_TOKEN"]
    coloured = "\x1b[38;5;11m".join(value)
    raw = f"one {coloured} two {value[:5]}\u200b\x07{value[5:]} three \x1b[0m\n".encode() * 3
    pieces = Pieces(MASKER, set())
    made = b"".join(pieces.feed(raw[at : at + size]) for at in range(0, len(raw), size)) + pieces.flush()
    assert made == MASKER.raw(raw) and made.count(b"[secret:API_TOKEN]") == 6


def test_a_secret_with_what_nobody_sees_in_it_is_masked_as_it_is_and_as_it_is_shown() -> None:
    value = "one\u200btwo\x07three"
    masker = Masker({"ODD": value})
    assert masker.text(f"<{value}>") == masker.text(f"<{clean(value)}>") == "<[secret:ODD]>"
