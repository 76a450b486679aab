"""What a verdict costs with 200 rules, as a ratio to the plainest look at 200 rules. A measurement, not a test.

The yardstick walks over the same number of pairs and compares each with the call's tool: what the least that must look
at every rule would do, on the same machine in the same minute.
"""

from __future__ import annotations

import sys
import timeit
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from harness.policy import Policy, Rule, Test
from harness.policy.decide import decide
from harness.policy.request import Destination, Request, Typed

RULES, ROUNDS, CALLS = 200, 7, 2_000
BODY = ("--body", Test("len_max", ("4000",)))


def rules(same_tool: bool) -> tuple[Rule, ...]:
    """Allow rules with two tests each: all of the call's own tool, or each of another one."""
    return tuple(
        Rule("allow", ("send" if same_tool else f"tool-{n}",), place=f"policy.yaml:{n}",
             where=(("--to", Test("eq", (f"p{n}@x.io",))), BODY))
        for n in range(RULES)
    )  # fmt: skip


REQUEST = Request(
    "send", ("--to", "ann@x.io", "--body", "hi"), dests=(Destination("--to", "ann@x.io", named=True),),
    typed={"--to": Typed("text", ("ann@x.io",)), "--body": Typed("text", ("hi",))},
)  # fmt: skip


def microseconds(what: object) -> float:
    """Of one call of `what`: the median of some rounds."""
    return median(timeit.repeat(what, number=CALLS, repeat=ROUNDS)) / CALLS * 1e6  # type: ignore[call-overload,no-any-return]


def compare(name: str, same_tool: bool) -> None:
    policy = Policy(rules=rules(same_tool), budget={"calls": 200, "external": 20})
    pairs = [(rule.tools[0], rule.place) for rule in policy.rules]
    bare = microseconds(lambda: [place for tool, place in pairs if tool == REQUEST.tool])
    took = microseconds(lambda: decide(REQUEST, policy))
    print(f"decide, {RULES} rules {name:<14}| yardstick {bare:.1f} us | {took:.1f} us | {took / bare:.1f}x")


if __name__ == "__main__":
    compare("of other tools", same_tool=False)
    compare("of this tool", same_tool=True)
