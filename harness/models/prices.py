"""What tokens cost: the shipped table and a user's own entries, and the exact cost of a request.

Money is whole nano-dollars. A price that nobody wrote down is unknown, never 0.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any

from harness.config import user_file
from harness.documents import Node, YamlError, read_yaml
from harness.errors import HarnessError
from harness.models import Facts, Price, Prompt, Usage
from harness.models.fields import Fields
from harness.tools.regular import read_regular

MAX_BYTES = 256 * 1024
OLD_DAYS = 90
SHIPPED = Path(__file__).with_name("prices.yaml")
_RATES = {"in": "input", "out": "out", "write": "written", "write_1h": "written_1h", "read": "cached"}
_CACHE = ("written", "written_1h", "cached")
_KEYS = (*_RATES, "over", "times", "window", "max_out", "images", "thinking", "source", "checked")
_DATED = re.compile(r"-20[0-9]{6}$")
_PER_NANO = Decimal(1000)  # a dollar for a million tokens is 1,000 nano-dollars a token
PICTURE_TOKENS = 1_600
_FIRST_BYTES_A_TOKEN = Decimal(3)


@dataclass(frozen=True, slots=True)
class Table:
    """The entries of a file by model string, and the day on which they were true."""

    as_of: date | None = None
    entries: Mapping[str, Facts] = field(default_factory=dict)


def tables(env: Mapping[str, str] | None = None) -> tuple[tuple[str, Table], ...]:
    """The user's own prices, where there are any, and the shipped ones: (whose, table)."""
    own = _users(env)
    return ((("your", own),) if own.entries else ()) + (("shipped", shipped()),)


def facts_of(text: str, env: Mapping[str, str] | None = None) -> Facts:
    """What is known of the model of this string: the user's entry, else the shipped one, else nothing.

    The dated twin of a name is the same model. Raises HarnessError for a user's file that cannot be read as prices.
    """
    return _entry(_users(env).entries, text) or _entry(shipped().entries, text) or Facts()


def _entry(entries: Mapping[str, Facts], text: str) -> Facts | None:
    return entries.get(text) or entries.get(_DATED.sub("", text))


def rates(price: Price | None) -> str:
    """What tokens cost, in and out: `0.10/0.50 USD per M`, `free`, or that nobody knows."""
    if price is None:
        return "price unknown"
    return "free" if price.is_free else f"{price.input}/{price.out} USD per M"


def old_prices(today: date, env: Mapping[str, str] | None = None) -> str | None:
    """The warning about the shipped prices, or a user's own dated ones, where they are long out of date."""
    for table, what in ((_users(env), "your prices.yaml is"), (shipped(), "the shipped prices are")):
        if table.as_of is not None and (today - table.as_of).days > OLD_DAYS:
            return f"{what} of {table.as_of}: check them, and put what differs into {users_file(env)}"
    return None


def users_file(env: Mapping[str, str] | None = None) -> Path:
    """Where a user's own prices are."""
    return user_file(os.environ if env is None else env).with_name("prices.yaml")


@cache
def shipped() -> Table:
    """The table that ships with harness."""
    return read_table(SHIPPED)


def _users(env: Mapping[str, str] | None) -> Table:
    path = users_file(env)
    return read_table(path, shipped().entries) if path.exists() else Table()


def read_table(path: Path, known: Mapping[str, Facts] | None = None) -> Table:
    """Read a file of prices. What an entry does not say is as `known` has it. Raises HarnessError with line and fix."""
    try:
        data = read_regular(path, MAX_BYTES)
        if len(data) > MAX_BYTES:
            raise HarnessError(f"over {MAX_BYTES >> 10} KiB", "keep only prices in it", str(path))
        root = read_yaml(data.decode("utf-8")).root
    except (OSError, UnicodeDecodeError) as error:
        raise HarnessError(f"cannot read prices: {error}", "make it a readable UTF-8 file", str(path)) from error
    except YamlError as error:
        raise HarnessError(f"no YAML: {error.message}", "mend the YAML", f"{path}:{error.line}") from error
    return _Reader(str(path), known or {}).table(root) if root is not None else Table()


class _Reader(Fields):
    """Turns the nodes of one file into a table. `known` are the entries that its own ones begin from."""

    def __init__(self, file: str, known: Mapping[str, Facts]) -> None:
        super().__init__(file)
        self.known = known

    def table(self, root: Node) -> Table:
        keys = self.mapping(root, "prices", ("schema", "as-of", "models"))
        if "schema" in keys and keys["schema"].value != "1":
            raise self.refuse("not prices of schema 1", "write schema: 1", keys["schema"].line)
        as_of = self.day(keys["as-of"], "as-of") if "as-of" in keys else None
        entries = self.any_mapping(keys["models"], "models") if "models" in keys else {}
        return Table(as_of, {name: self.facts(node, name) for name, node in entries.items()})

    def facts(self, node: Node, name: str) -> Facts:
        keys = self.mapping(node, name, _KEYS)
        given: dict[str, Any] = {key: self.whole(keys[key], key, 1) for key in ("window", "max_out") if key in keys}
        for key in ("images", "thinking"):
            if key in keys:
                given[key] = self.one_of(keys[key], key, ("yes", "no")) == "yes"
        known = _entry(self.known, name) or Facts()
        given["checked"] = self.day(keys["checked"], "checked") if "checked" in keys else None
        return replace(known, price=self.price(keys, known.price, node, name), **given)

    def price(self, keys: Mapping[str, Node], known: Price | None, node: Node, name: str) -> Price:
        """What is not said is as it is known; beside another price of input a cache costs that, or more if it did."""
        if known is None and not {"in", "out"} <= keys.keys():
            raise self.refuse(f"{name} wants in and out", "write {in: USD, out: USD} a million tokens", node.line)
        base = known or Price()
        found: dict[str, Any] = {field: self.money(keys[key], key) for key, field in _RATES.items() if key in keys}
        if "in" in keys:
            found = {kind: max(found["input"], getattr(base, kind)) for kind in _CACHE} | found
        if "over" in keys:
            found["over"] = self.whole(keys["over"], "over", 1)
        if "times" in keys:
            found["times"] = max(self.money(keys["times"], "times"), Decimal(1))
        return replace(base, **found)

    def day(self, node: Node, what: str) -> date:
        try:
            return date.fromisoformat(self.text(node, what))
        except ValueError as error:
            raise self.refuse(f"{what} must be a day, not {node.value!r}", "write YYYY-MM-DD", node.line) from error

    def money(self, node: Node, what: str) -> Decimal:
        try:
            amount = Decimal(self.text(node, what))
        except InvalidOperation:
            amount = Decimal(-1)
        if not amount.is_finite() or amount < 0:
            raise self.refuse(f"{what} must be an amount, 0 or more", "write USD per million tokens: 0.10", node.line)
        return amount


def cost_nanos(price: Price | None, usage: Usage) -> int | None:
    """Nano-dollars of a request by what its tokens were, in the tier of its whole input; None for an unknown price.

    A part of a nano-dollar counts as a whole one.
    """
    if price is None:
        return None
    plain = max(0, usage.input - usage.cached - usage.written)
    hour = min(usage.written_1h, usage.written)
    rates = ((plain, price.input), (usage.out, price.out), (usage.cached, price.cached))
    written = ((usage.written - hour, price.written), (hour, price.written_1h))
    total = sum((tokens * rate for tokens, rate in (*rates, *written)), Decimal(0))
    return _nanos(total * _tier(price, usage.input))


def reserved_nanos(price: Price | None, estimate: int, max_tokens: int) -> int | None:
    """The most that a request can cost: all input at its dearest rate, and all the output it may have."""
    if price is None:
        return None
    return _nanos((estimate * _dearest(price) + max_tokens * price.out) * _tier(price, estimate))


def affordable(price: Price, estimate: int, left_nanos: Decimal) -> int:
    """How many tokens of output so much money buys behind this input; negative when it does not buy the input."""
    tier = _tier(price, estimate) * _PER_NANO
    rest = left_nanos - estimate * _dearest(price) * tier
    if not price.out:
        return 0 if rest < 0 else 1 << 40
    return int((rest / (price.out * tier)).to_integral_value(rounding="ROUND_FLOOR"))


def prompt_tokens(prompt: Prompt, last: tuple[int, int, int] | None) -> int:
    """What a request is estimated to hold, its images too. `last` is as below."""
    pictures = prompt.pictures if last is None or not last[1] else prompt.new_pictures
    return estimate_tokens(prompt.bytes, prompt.new_bytes, last) + PICTURE_TOKENS * pictures


def estimate_tokens(size: int, new: int, last: tuple[int, int, int] | None) -> int:
    """Tokens of a prompt of `size` bytes. `last` is (bytes, input, output) of the newest reply in its context.

    Nothing counts tokens here: what the provider counted of the same text is the measure of what is `new` in it.
    """
    if last is None or not last[1]:
        return int((size / _FIRST_BYTES_A_TOKEN).to_integral_value(rounding=ROUND_CEILING))
    observed, taken, out = last
    rate = min(Decimal(4), max(Decimal(2), Decimal("0.9") * observed / taken))
    return taken + out + int((new / rate).to_integral_value(rounding=ROUND_CEILING))


def _dearest(price: Price) -> Decimal:
    return max(price.input, price.written, price.written_1h, price.cached)


def _tier(price: Price, tokens: int) -> Decimal:
    return price.times if price.over is not None and tokens > price.over else Decimal(1)


def _nanos(dollars_a_million: Decimal) -> int:
    return int((dollars_a_million * _PER_NANO).to_integral_value(rounding=ROUND_CEILING))
