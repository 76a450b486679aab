"""`harness tools new`: a script with a complete header, ready to be filled in."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, get_args

import typer

from harness.cli.options import globals_of, manual
from harness.cli.output import print_paths, say
from harness.cli.place import project_root
from harness.errors import HarnessError, near_text
from harness.tools import Effect

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}(/[a-z0-9][a-z0-9._-]{0,63}){0,3}")
RESERVED = ("read", "run", "ask", "finish")

SH = """\
#!/bin/sh
# @describe Say in one line what {name} tells or does
# @option --subject! <NAME>  what it is about
# @flag   --brief            one line only
# @meta effect {effect}
# @meta timeout 30
#
# The result goes to stdout, diagnostics to stderr. Exit: 0 ok, 2 bad arguments, 75 try again, 77 no credentials.
set -eu
subject= brief=
while [ $# -gt 0 ]; do
    case $1 in
        --subject) subject=$2; shift 2 ;;
        --subject=*) subject=${{1#*=}}; shift ;;
        --brief) brief=yes; shift ;;
        --help) echo "usage: {name} --subject NAME [--brief]   example: {name} --subject shop"; exit 0 ;;
        *) echo "{name}: unknown argument $1" >&2; exit 2 ;;
    esac
done
[ -n "$subject" ] || {{ echo "{name}: --subject is missing" >&2; exit 2; }}
if [ -n "$brief" ]; then echo "$subject"; else echo "nothing is known about $subject yet"; fi
"""

PYTHON = '''\
#!/usr/bin/env python3
# @describe Say in one line what {name} tells or does
# @option --subject! <NAME>  what it is about
# @flag   --brief            one line only
# @meta effect {effect}
# @meta timeout 30
"""The result goes to stdout, diagnostics to stderr. Exit: 0 ok, 2 bad arguments, 75 try again, 77 no credentials."""

import argparse
import json


def main() -> None:
    parser = argparse.ArgumentParser(epilog="example: {name} --subject shop")
    parser.add_argument("--subject", required=True, help="what it is about")
    parser.add_argument("--brief", action="store_true", help="one line only")
    options = parser.parse_args()
    found = {{"subject": options.subject, "summary": "nothing is known yet"}}
    print(options.subject if options.brief else json.dumps(found))


if __name__ == "__main__":
    main()
'''

TEMPLATES = {"sh": SH, "python": PYTHON}


@manual("harness tools new check-lag", "harness tools new restart-batch --lang python --effect external")
def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="its name: small letters, digits, - . _, / for folders")],
    lang: Annotated[str, typer.Option("--lang", metavar="LANG", help="sh or python")] = "sh",
    effect: Annotated[
        str, typer.Option("--effect", metavar="EFFECT", help="read, write, external, money or destructive")
    ] = "read",
) -> int:
    """Write bin/NAME in the project."""
    said = globals_of(ctx)
    check_choice("--lang", lang, tuple(TEMPLATES))
    check_choice("--effect", effect, get_args(Effect))
    if not NAME.fullmatch(name) or name in RESERVED:
        reason = "is one of the harness's own verbs" if name in RESERVED else "is no name for a tool"
        raise HarnessError(f"{name} {reason}", "use small letters, digits, - . and _, such as check-lag")
    path = project_root() / "bin" / name
    write_script(path, TEMPLATES[lang].format(name=name.split("/")[-1], effect=effect))
    print_paths(said, [path])
    say(said, f"next: edit it, then harness tools check {name}")
    return 0


def check_choice(option: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise HarnessError(f"{option} {word} is not known{near_text(word, known)}", f"use {', '.join(known)}")


def write_script(path: Path, text: str) -> None:
    """An executable file that was not there before. Raises HarnessError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o777)
    except FileExistsError as error:
        raise HarnessError(f"{path.name} is there already", "take another name, or edit it", str(path)) from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise HarnessError(f"cannot write it: {reason}", "make the folder writable", str(path)) from error
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
