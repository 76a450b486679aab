"""Facts that only a provider can confirm, looked at again: `make live`. Needs a key, costs under 0.05 USD, never in CI.

Prints a table of what the code depends on, what was wanted and what was seen. Exit 1 where one does not hold, 4 without
a credential, 75 where nothing could be looked at. What the vendor says of its servers in words alone is not here.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.models import Facts, Failure, Opening, Price, Prompt, Replied, Reply, Said
from harness.models.exchange import PATIENCE, client_of, credential
from harness.models.ollama import FACTS_S, ask, base_of
from harness.models.prices import cost_nanos, shipped
from harness.models.resolve import open_model, resolve
from harness.models.verbs import TOOLS

HAIKU, SONNET = "anthropic:claude-haiku-5-5", "anthropic:claude-sonnet-5-5"
PAGE = "https://platform.claude.com/docs/en/about-claude/pricing.md"
COLUMNS = ("input", "written", "written_1h", "cached", "out")
"""Rates of a row of the page, in its order."""
LONG = "Each line of this text is here only to be kept by the provider's cache. " * 400
_USD = re.compile(r"\$([0-9.]+)")


@dataclass(frozen=True, slots=True)
class Fact:
    """`holds` is None where it could not be looked at; `seen` says why."""

    what: str
    wanted: str
    seen: str
    holds: bool | None


@dataclass(slots=True)
class Asked:
    """Asks models, and counts what that costs."""

    nanos: int = 0

    def __call__(self, text: str, prompt: Prompt) -> Reply | Failure:
        ref = resolve(text, source="make live")
        found = open_model(ref, Opening(Path.cwd(), None))(prompt, on=lambda _: None)
        if found.usage is not None:
            self.nanos += cost_nanos(ref.price, found.usage) or 0
        return found


def main(env: Mapping[str, str], page: str = PAGE) -> int:
    """Look at every fact and print the table."""
    if credential(env) is None:
        print("no credential: export ANTHROPIC_API_KEY=…; nothing was looked at", file=sys.stderr)
        return 4
    asked, facts = Asked(), []
    looks = (models, lambda: prices(page), lambda: cache(asked), forced, lambda: thinking(asked), lambda: cut(asked),
             lambda: ollama(env))  # fmt: skip
    for fact in (fact for look in looks for fact in looked_at(look)):
        facts.append(fact)
        mark = {True: "holds", False: "DIFFERS", None: "not looked at"}[fact.holds]
        print(f"{mark:<14}{fact.what:<58}{fact.wanted:<34}{fact.seen}", flush=True)
    print(f"cost: {Decimal(asked.nanos) / 10**9:f} USD")
    if any(fact.holds is False for fact in facts):
        return 1
    return 0 if any(fact.holds for fact in facts) else 75


def looked_at(look: Callable[[], Iterator[Fact]]) -> Iterator[Fact]:
    """The facts of a look; an error of the network or the SDK is one that could not be looked at."""
    try:
        yield from look()
    except Exception as error:  # noqa: BLE001 - whatever goes wrong, the other looks go on
        yield Fact("a look at the provider", "an answer", f"{type(error).__name__}: {error}"[:200], None)


def models() -> Iterator[Fact]:
    """What the provider says of the models of the shipped table."""
    for text, facts in shipped().entries.items():
        info = client_of(PATIENCE).models.retrieve(text.removeprefix("anthropic:"))
        yield from described(text, facts, info.to_dict())


def described(text: str, facts: Facts, info: Mapping[str, Any]) -> Iterator[Fact]:
    able = info.get("capabilities") or {}
    adaptive = bool(able["thinking"]["types"]["adaptive"]["supported"])
    images = bool(able["image_input"]["supported"])
    window, most = info.get("max_input_tokens") or 0, info.get("max_tokens") or 0
    yield Fact(f"{text}: window", f"at least {facts.window}", str(window), window >= facts.window)
    yield Fact(f"{text}: longest reply", f"at least {facts.max_out}", str(most), most >= facts.max_out)
    yield Fact(f"{text}: adaptive thinking", str(facts.thinking), str(adaptive), adaptive == facts.thinking)
    yield Fact(f"{text}: reads images", "True", str(images), images)


def prices(page: str) -> Iterator[Fact]:
    """The rates of the vendor's page."""
    with urllib.request.urlopen(page, timeout=20) as answer:
        lines = answer.read(4 << 20).decode("utf-8", "replace").splitlines()
    for text, facts in shipped().entries.items():
        assert facts.price is not None
        wanted = rates(facts.price)
        row = next((line for line in lines if line.startswith("|") and shown_name(text) in line), "")
        firsts = [_USD.search(cell) for cell in row.split("|")[2 : 2 + len(COLUMNS)]]  # a dearer tier comes second
        seen = tuple(Decimal(found[1]) for found in firsts if found is not None)
        if not seen:
            yield Fact(f"{text}: price", told(wanted), "no row of the page", None)
        else:
            yield Fact(f"{text}: price", told(wanted), told(seen), seen == wanted)


def rates(price: Price) -> tuple[Decimal, ...]:
    return tuple(getattr(price, name) for name in COLUMNS)


def told(figures: tuple[Decimal, ...]) -> str:
    return " ".join(f"{figure.normalize():f}" for figure in figures)


def shown_name(text: str) -> str:
    """`anthropic:claude-opus-4-8` as the page writes it: `Claude Opus 4.8 `."""
    family, *numbers = text.removeprefix("anthropic:claude-").split("-")
    return f"Claude {family.title()} {'.'.join(numbers)} "


def cache(asked: Asked) -> Iterator[Fact]:
    """A prefix is written once and read by the next request; another array of tools voids it."""
    prompt = Prompt((f"{secrets.token_hex(4)} {LONG}", "Answer in one word."), (Said(("Say ok.",)),), (), max_tokens=64)
    first, second = asked(HAIKU, prompt), asked(HAIKU, prompt)
    other = asked(HAIKU, replace(prompt, verbs=False))
    if isinstance(first, Failure) or isinstance(second, Failure) or isinstance(other, Failure):
        yield refused("a prefix is kept", next(got for got in (first, second, other) if isinstance(got, Failure)))
        return
    kept, read, void = (got.usage for got in (first, second, other))
    assert kept is not None and read is not None and void is not None
    yield Fact("a prefix is written at first", "over 0", str(kept.written), kept.written > 0)
    yield Fact("the next request reads it", f"about {kept.written}", str(read.cached), read.cached > 0.9 * kept.written)
    yield Fact("other tools void it", "0", str(void.cached), void.cached == 0)


def forced() -> Iterator[Fact]:
    """Why no tool is ever forced."""
    import anthropic

    said: dict[str, Any] = {"messages": [{"role": "user", "content": "go"}], "tools": list(TOOLS)}
    try:
        client_of(PATIENCE).messages.create(
            model=SONNET.removeprefix("anthropic:"), max_tokens=1, tool_choice={"type": "any"}, **said
        )
        seen = 200
    except anthropic.APIStatusError as error:
        seen = error.status_code
    yield Fact(f"{SONNET}: a forced tool is refused", "400", str(seen), seen == 400)


def thinking(asked: Asked) -> Iterator[Fact]:
    """A reply with its thinking goes back as it came."""
    question = Said(("Which is larger, 17 times 23 or 19 times 21? Think first, then answer in one word.",))
    prompt = Prompt(("Answer in words.", ""), (question,), (), verbs=False, max_tokens=1024)
    first = asked(SONNET, prompt)
    if isinstance(first, Failure):
        yield refused("thinking goes back verbatim", first)
        return
    turns = (question, Replied(first.dialect, first.content), Said(("And the smaller one?",)))
    again = asked(SONNET, replace(prompt, turns=turns))
    kinds = [block.get("type") for block in first.content]
    seen = again.message if isinstance(again, Failure) else f"accepted: {', '.join(map(str, kinds))}"
    yield Fact(f"{SONNET}: thinking goes back verbatim", "accepted", seen[:120], isinstance(again, Reply))


def cut(asked: Asked) -> Iterator[Fact]:
    """How a reply ends that was given too little room."""
    found = asked(HAIKU, Prompt(("Count.", ""), (Said(("Count to a hundred.",)),), (), verbs=False, max_tokens=8))
    if isinstance(found, Failure):
        yield refused("a reply without room ends as cut", found)
    else:
        yield Fact("a reply without room ends as cut", "max_tokens", found.stop_raw, found.stop_raw == "max_tokens")


def refused(what: str, found: Failure) -> Fact:
    return Fact(what, "a reply", f"{found.reason}: {found.message}"[:120], None)


def ollama(env: Mapping[str, str]) -> Iterator[Fact]:
    """What an Ollama on this machine says of a model, and of what is loaded."""
    root = base_of("", env).removesuffix("/v1")
    status, found = ask(root, "/api/tags", None, FACTS_S)
    names = [model.get("name") for model in (found or {}).get("models", ())] if isinstance(found, dict) else []
    if status != 200 or not names:
        yield Fact("Ollama says what a model can do", "capabilities", f"no model at {root}", None)
        return
    shown = ask(root, "/api/show", {"model": names[0]}, FACTS_S)[1]
    able = shown.get("capabilities") if isinstance(shown, dict) else None
    yield Fact("Ollama says what a model can do", "a list of capabilities", str(able), isinstance(able, list))
    loaded = (ask(root, "/api/ps", None, FACTS_S)[1] or {}).get("models") or []
    seen = loaded[0].get("context_length") if loaded else None
    yield Fact("Ollama says what a loaded model reads", "context_length", "none is loaded" if not loaded else str(seen),
               isinstance(seen, int) if loaded else None)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(os.environ))
