"""Six secrets, every form in which they are planted, and a search of its own for what is left of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, quote_plus

SECRETS = {
    "API_TOKEN": "tok-4711-Az09qwertY",
    "LONGER_TOKEN": "tok-4711-Az09qwertY-and-more",
    "DB_PASSWORD": 'p@ss/w0rd+&"quoted"\\back<x>',
    "WORDS": "pässwörd mit Ümläuten €42",
    "SHORTEST": "Zx9!q_8w",
    "SIGN_KEY": "first line of a key\nsecond+/line==\nlast one",
}
"""One lies in another; one is of several lines; one is as short as may be."""


def planted(text: str) -> dict[str, str]:
    """Each listed form of a value, by name; base64 at the three places in which it may begin."""
    raw = text.encode()
    found = {
        "raw": text, "json": json.dumps(text)[1:-1], "json utf-8": json.dumps(text, ensure_ascii=False)[1:-1],
        "url": quote(text, safe=""), "url path": quote(text), "url form": quote_plus(text), "hex": raw.hex(),
        "HEX": raw.hex().upper(),
    }  # fmt: skip
    for shift in range(3):
        found[f"base64 +{shift}"] = base64.b64encode(b"#" * shift + raw + b"!?").decode()
    return found


def needles(text: str) -> dict[str, bytes]:
    """What to look for, for each form: of base64 the letters that are the same whatever stands before and after."""
    found = {name: form.encode() for name, form in planted(text).items() if not name.startswith("base64")}
    for shift in range(3):
        one, two = (base64.b64encode(edge * shift + text.encode() + edge * 2) for edge in (b"\0", b"\xff"))
        same = [at for at in range(len(one)) if one[at] == two[at]]
        run = max(_runs(same), key=len)
        found[f"base64 +{shift}"] = one[run[0] : run[-1] + 1]
    return found


def _runs(numbers: list[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for number in numbers:
        if run and number != run[-1] + 1:
            yield run
            run = []
        run.append(number)
    yield run


NEEDLES = {(name, form): needle for name, text in SECRETS.items() for form, needle in needles(text).items()}


def left_in(raw: bytes) -> list[tuple[str, str]]:
    """The (secret, form) that some bytes still hold."""
    return [key for key, needle in NEEDLES.items() if needle in raw]


def left_below(folders: Iterable[Path]) -> dict[str, list[tuple[str, str]]]:
    """The same for every file below some folders, its name and what a link leads to included."""
    found = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            raw = str(path.relative_to(folder)).encode("utf-8", "surrogateescape")
            raw += str(path.readlink()).encode() if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            if left := left_in(raw):
                found[str(path.relative_to(folder))] = left
    return found


def every_form() -> str:
    """All secrets in all forms, a line each."""
    return "\n".join(form for text in SECRETS.values() for form in planted(text).values()) + "\n"


SPILL = '''
import json, os, sys, time
sys.path.insert(0, {root!r})
from tests.planting import planted
names = {names!r}
values = {{n: os.environ[n] for n in names if n != "SIGN_KEY"}}
values["SIGN_KEY"] = open(os.environ["SIGN_KEY"]).read()
text = "\\n".join(form for value in values.values() for form in planted(value).values()) + "\\n"
how, out = sys.argv[1], os.environ["HARNESS_OUT"]
if how == "print":
    print(text)
elif how == "drip":
    for byte in text.encode():
        os.write(1, bytes([byte]))
elif how == "large":
    print(text * 40)
elif how == "binary":
    sys.stdout.buffer.write(b"\\0\\xff" + text.encode() + b"\\x80")
elif how == "complain":
    sys.stderr.write(text)
    sys.exit(1)
elif how == "say why":
    sys.exit(text)
elif how == "raise":
    raise RuntimeError(text)
elif how == "keep":
    os.makedirs(out + "/deep/er", exist_ok=True)
    open(out + "/deep/er/notes.txt", "w").write(text)
    open(out + "/deep/" + values["API_TOKEN"], "w").write("x")
    os.symlink("/nowhere/" + values["API_TOKEN"], out + "/deep/link")
    os.chmod(out + "/deep/er", 0)
    print("kept")
'''
HOWS = ("print", "drip", "large", "binary", "complain", "say why", "raise", "keep")


def spill(effect: str) -> str:
    """A tool that gives away its secrets in every form, in the way that its argument says."""
    root = str(Path(__file__).resolve().parent.parent)
    env = "".join(f"# @env {name}!{' <FILE>' if name == 'SIGN_KEY' else ''} a secret\n" for name in SECRETS)
    head = f"#!/usr/bin/env python3\n# @describe spills\n# @arg how! how\n# @meta effect {effect}\n{env}"
    return head + SPILL.format(root=root, names=tuple(SECRETS))


def policy_for(*tools: str) -> str:
    """The person's policy that gives these tools all six, from the environment."""
    lines = "".join(f"  {name}: {{tools: [{', '.join(tools)}], from: env}}\n" for name in SECRETS)
    return f"version: 1\nsandbox: {{require: none}}\nsecrets:\n{lines}"
