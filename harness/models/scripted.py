"""A model that replays a file: the same prompts get the same replies, without network and without memory.

Which reply comes next follows from the prompt alone, so a run that was killed goes on at the right one.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from harness.errors import HarnessError
from harness.models import Call, Failure, Model, ModelRef, Opening, Prompt, Replied, Reply, Results, Stop, Turn
from harness.models.body import prefix_digest
from harness.models.failures import failure
from harness.models.script import FOREVER, Entry, Expect, Replies, load_script
from harness.models.verbs import calls_or_finish, make_call

if TYPE_CHECKING:
    from harness.executor import Cancel
    from harness.skills import Skill

DIALECT = "anthropic"
QUESTION = "prompt"
"""Whose replies a script plays to the questions that stages ask."""
BELOW = "replies of skill "
TAIL_LINES = 40
BEFORE_TURNS = ("policy", "protocol", "skill")


def named(name: str, source: str, skill: Skill | None = None) -> ModelRef:
    """The script of this file. Raises HarnessError for no name."""
    if not name:
        raise HarnessError("scripted: names no file", "write scripted:FILE", source)
    return ModelRef("scripted", name, source)


def opened(ref: ModelRef, how: Opening) -> Model:
    """The script, read; for a worker its list for that skill. Raises HarnessError for one that cannot be used."""
    name = how.skill.name if how.skill is not None else QUESTION
    return Scripted(how.folder / ref.name, name if how.worker else None, ref=ref)


class Scripted:
    """Plays the replies of a script; for a worker, those under its name. Raises HarnessError for a bad file.

    A prompt that does not fit, a missing reply and a left-over reply are the failure `script_mismatch`.
    """

    def __init__(self, path: Path, worker: str | None = None, *, ref: ModelRef | None = None) -> None:
        self.ref = ref or ModelRef("scripted", str(path))
        script = load_script(path)
        self.digest, self.file = script.digest, script.file
        self._list = "replies" if worker is None else f"{BELOW}{worker}"
        self._replies = script.replies if worker is None else script.workers.get(worker, Replies(()))
        self._used: dict[int, int] | None = None

    def __call__(
        self, prompt: Prompt, *, on: Callable[[str], None], cancel: Cancel | None = None
    ) -> Reply | Failure:
        used = self._spent(prompt)
        entry = self._next(prompt, used)
        if isinstance(entry, str):
            return failure("script_mismatch", self._complaint(entry, prompt))
        self._used = {**used, entry.number: used.get(entry.number, 0) + 1}
        started = time.monotonic()
        if not _waited(entry.delay, prompt.deadline):
            return failure("cancelled", f"the time was over {entry.delay:g} s before reply {entry.number} was due")
        return entry.fail or _reply(entry, prompt, self.ref.text, round((time.monotonic() - started) * 1000), on)

    def left_over(self, below: Sequence[str] = ()) -> str | None:
        """After a run: which replies the script still holds, or what did not fit below; None where all is as it says.

        `below` is why runs below it failed. A run that asked for no reply is not judged, and a worker that none began:
        the same script may be played where its call is refused.
        """
        if self._used is None:
            return None
        misfits = (error for error in below if error.startswith(f"{self.file}: {BELOW}"))
        return self._left(self._used) or next(misfits, None)

    def _left(self, used: Mapping[int, int]) -> str | None:
        counted = [entry for entry in self._replies.entries if entry.repeat != FOREVER]
        given = [(entry, used.get(entry.number, 0)) for entry in counted]
        never = ", ".join(str(entry.number) for entry, times in given if not times)
        left = [f"reply {never} was never asked for"] if never else []
        some = ((entry, times) for entry, times in given if 0 < times < entry.repeat)
        left += [f"reply {e.number} was asked for {times} times of {e.repeat}" for e, times in some]
        return f"{self.file}: {self._list}: {'; '.join(left)}" if left else None

    def warm(self) -> None:
        """Nothing to do ahead."""

    def close(self) -> None:
        """Nothing to close."""

    def _spent(self, prompt: Prompt) -> dict[int, int]:
        """How often each entry was given already."""
        if self._replies.match:
            return _matched(self._replies.entries, (*prompt.earlier, *prompt.turns))
        return _in_order(self._replies.entries, prompt.turn - 1 + prompt.failed)

    def _next(self, prompt: Prompt, used: dict[int, int]) -> Entry | str:
        """The entry to give, or what is wrong."""
        left = [e for e in self._replies.entries if e.repeat == FOREVER or used.get(e.number, 0) < e.repeat]
        if not left:
            count = len(self._replies.entries)
            return f"no reply is left for turn {prompt.turn}; {count} in the list; add one, or record the run anew"
        if self._replies.match:
            found = next((e for e in left if not unmet(e.expect, prompt)), None)
            numbers = ", ".join(str(e.number) for e in left)
            return found or f"none of the unused replies fits turn {prompt.turn}: {numbers}; mend what one expects"
        broken = unmet(left[0].expect, prompt)
        if not broken:
            return left[0]
        way = changed(self._replies.made_with, left[0].expect, prompt) or "mend what it expects, or record the run anew"
        return f"reply {left[0].number} (line {left[0].line}): {'; '.join(broken)}; {way}"

    def _complaint(self, message: str, prompt: Prompt) -> str:
        tail = "\n".join(f"  {line}" for line in prompt_lines(prompt)[-TAIL_LINES:])
        return f"{self.file}: {self._list}: {message}\nthe prompt ends with:\n{tail}"


def _in_order(entries: Sequence[Entry], count: int) -> dict[int, int]:
    used: dict[int, int] = {}
    for entry in entries:
        given = count if entry.repeat == FOREVER else min(count, entry.repeat)
        used[entry.number] = given
        count -= given
    return used


def _matched(entries: Sequence[Entry], turns: Sequence[Turn]) -> dict[int, int]:
    """What was given, told from the replies themselves: each is the first entry that would have said just this."""
    used: dict[int, int] = {}
    replies = [turn for turn in turns if isinstance(turn, Replied)]
    for number, turn in enumerate(replies, 1):
        for entry in entries:
            free = entry.repeat == FOREVER or used.get(entry.number, 0) < entry.repeat
            if free and _content(entry, number) == turn.content:
                used[entry.number] = used.get(entry.number, 0) + 1
                break
    return used


def _waited(delay: float, deadline: float | None) -> bool:
    """Wait for `delay` seconds; False when the deadline came first."""
    left = math.inf if deadline is None else deadline - time.monotonic()
    time.sleep(max(0.0, min(delay, left)))
    return delay <= left or not delay


def _reply(entry: Entry, prompt: Prompt, served: str, ms: int, on: Callable[[str], None]) -> Reply:
    content = _content(entry, prompt.turn)
    text = "".join(str(block.get("text", "")) for block in content if block.get("type") == "text")
    calls = tuple(_call(block, entry.errors) for block in content if block.get("type") == "tool_use")
    if text:
        on(text)
    if entry.stop is None:
        calls = calls_or_finish(text, calls)
    stop = cast(Stop, entry.stop or ("calls" if any(not call.implicit for call in calls) else "end"))
    detail = {"message": entry.message} if entry.message else {}
    return Reply(content, DIALECT, text, calls, stop, entry.stop or "", entry.usage, ms, None, served, detail=detail)


def _content(entry: Entry, turn: int) -> list[Any]:
    """The blocks of a reply: the script's own verbatim, or text and calls with ids that name the turn."""
    if entry.content is not None:
        return [dict(block) for block in entry.content]
    said: list[Any] = [{"type": "text", "text": entry.text}] if entry.text else []
    calls = enumerate(entry.calls, 1)
    return said + [
        {"type": "tool_use", "id": f"call_{turn}_{i}", "name": verb, "input": dict(given)} for i, (verb, given) in calls
    ]


def _call(block: dict[str, Any], errors: Mapping[str, str]) -> Call:
    call = make_call(str(block.get("id", "")), str(block.get("name", "")), block.get("input"))
    return replace(call, error=errors.get(call.id, call.error))


def unmet(expect: Expect, prompt: Prompt) -> list[str]:
    """Each expectation that does not hold, in words."""
    fresh = "\n".join(new_texts(prompt))
    callable_now = [offer.name for offer in prompt.offer]
    broken = [f"expected to contain {text!r}" for text in expect.contains if text not in fresh]
    broken += [f"expected not to contain {word!r}" for word in expect.not_contains if _has_word(word, fresh)]
    broken += [_missing("callable", name, callable_now) for name in expect.callable if name not in callable_now]
    broken += [_missing("waiting", name, prompt.waiting) for name in expect.waiting if name not in prompt.waiting]
    if expect.turn not in (None, prompt.turn):
        broken.append(f"expected turn {expect.turn}, this is turn {prompt.turn}")
    if expect.context not in (None, prompt.context):
        broken.append(f"expected context {expect.context}, this is {prompt.context}")
    tokens = math.ceil(prompt.bytes / 3)
    if expect.tokens_at_most is not None and tokens > expect.tokens_at_most:
        broken.append(f"expected at most {expect.tokens_at_most} tokens, estimated {tokens}")
    if expect.prefix is not None and not prefix_digest(prompt).startswith(expect.prefix):
        broken.append(f"expected prefix {expect.prefix}, it is {prefix_digest(prompt)[:12]}")
    return broken + _unmet_result(expect, prompt)


def changed(made_with: Mapping[str, str], expect: Expect, prompt: Prompt) -> str:
    """What of the beginning is not as it was recorded, and what to do; empty where the beginning is as expected."""
    if expect.prefix is None or prefix_digest(prompt).startswith(expect.prefix):
        return ""
    now = beginning(prompt)
    skill = [name for name in made_with if name.startswith("skill@") and name not in now]
    rules = [name for name, sha in made_with.items() if not name.startswith("skill@") and now.get(name) != sha]
    what = "the skill's text (its body, or the names of its files) changed" if skill else ""
    what = " and ".join(filter(None, (what, f"this harness says {', '.join(rules)} otherwise" if rules else "")))
    what = what or "the skill's text changed, or harness is another version"
    return f"{what}: record the run anew (--record), or take prefix out of what its replies expect"


def beginning(prompt: Prompt) -> dict[str, str]:
    """The parts that stand before every turn, `id@version` → digest: harness's rules and the skill."""
    return {part.id: part.sha for part in prompt.parts if part.id.partition("@")[0] in BEFORE_TURNS}


def _missing(what: str, name: str, there: Sequence[str]) -> str:
    return f"expected {name} to be {what}; {what}: {', '.join(there) or 'none'}"


def _unmet_result(expect: Expect, prompt: Prompt) -> list[str]:
    if expect.result is None:
        return []
    tool, wanted = expect.result
    ended = prompt.ended.get(tool)
    if ended is None:
        return [f"expected a result of {tool}; there is none"]
    if wanted in (None, ended.error_class):
        return []
    return [f"expected {tool} to end {wanted}, it ended {ended.error_class}"]


def _has_word(word: str, text: str) -> bool:
    """As a whole word: `rm` is not in `format`."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def new_texts(prompt: Prompt) -> list[str]:
    """What the model has not been given before: the newest user turn; at first the skill's text too."""
    texts = turn_texts(prompt.turns[-1])
    return texts if any(isinstance(turn, Replied) for turn in prompt.turns) else [prompt.system[1], *texts]


def turn_texts(turn: Turn) -> list[str]:
    """The texts of a turn; a reply's are those of its text blocks."""
    if isinstance(turn, Replied):
        return [str(block["text"]) for block in turn.content if isinstance(block, dict) and "text" in block]
    if isinstance(turn, Results):
        return [block for result in turn.results for block in result.blocks] + list(turn.said)
    return list(turn.texts)


def prompt_lines(prompt: Prompt) -> list[str]:
    """The whole prompt as lines, for a person to read."""
    texts = [*prompt.system, *(text for turn in prompt.turns for text in turn_texts(turn))]
    return [line for text in texts for line in text.split("\n")]
