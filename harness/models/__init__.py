"""Models are one function: a prompt goes in, a reply or a failure comes out. What may run is decided elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Protocol

from harness.models.turns import Raw
from harness.models.turns import Replied as Replied
from harness.models.turns import Result as Result
from harness.models.turns import Results as Results
from harness.models.turns import Said as Said
from harness.models.turns import Turn as Turn

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from harness.executor import Cancel
    from harness.models.brief import Brief
    from harness.skills import Skill

LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Offer:
    """One released tool or worker: its name, usage line and one-line description."""

    name: str
    usage: str
    text: str


@dataclass(frozen=True, slots=True)
class Part:
    """One composed part of a prompt: `id@version`, the first 12 hex digits of its SHA-256, its bytes."""

    id: str
    sha: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The newest closed call of a tool, or of a verb that runs none. `why` and `out` read why it failed, all stdout.

    `before` says that the run has ended since, or was amended, and goes on anew.
    """

    error_class: str
    why: Callable[[], str]
    out: Callable[[], str]
    before: bool = False


@dataclass(frozen=True, slots=True)
class Prompt:
    """Everything a model is given. `system` is (rules, skill); `turns` only grow within a context.

    `offer` and `waiting` say what is callable now and what is not; `deadline` is seconds of the monotonic clock.
    `bytes` and `body` are length and SHA-256 of the canonical bytes, `new_bytes` those of the turns since the newest
    reply; `pictures` and `new_pictures` count images in the same way, and `raw` reads the bytes of one by its SHA-256.
    `estimate` is the input in tokens as reserved for.
    `turn` is 1 + the replies so far; `failed` counts the requests that failed by an answer, over the whole run.
    Without `verbs` no call is possible; `schema` is the form that a JSON reply must have. `ended` is for models that
    read results instead of text, `earlier` (the replies of the contexts before) for those that replay, `brief` for
    those that only choose; `spoken` says how to call in words, for providers that take no tools.
    """

    system: tuple[str, str]
    turns: tuple[Turn, ...]
    offer: tuple[Offer, ...]
    waiting: tuple[str, ...] = ()
    turn: int = 1
    failed: int = 0
    ended: Mapping[str, Ended] = field(default_factory=dict)
    earlier: tuple[Replied, ...] = ()
    verbs: bool = True
    schema: Mapping[str, Any] | None = None
    max_tokens: int = 16_000
    context: int = 0
    mark: str = ""
    parts: tuple[Part, ...] = ()
    bytes: int = 0
    new_bytes: int = 0
    body: str = ""
    pictures: int = 0
    new_pictures: int = 0
    raw: Raw = field(default=lambda sha: b"", compare=False)
    estimate: int = 0
    deadline: float | None = None
    spoken: str = ""
    brief: Brief | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a reply. `error` says what is wrong with its form; `implicit` marks a text that counts as finish."""

    id: str
    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request. `input` is all input; `cached` and `written` are part of it."""

    input: int = 0
    out: int = 0
    cached: int = 0
    written: int = 0
    written_1h: int = 0
    thinking: int = 0
    complete: bool = True
    estimated: bool = False


Stop = Literal["end", "calls", "length", "pause", "refusal", "overflow"]


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply: it exists only after the provider's own end marker. `detail` is what it says of its stop.

    `calls_from` is `text` where a call came as plain text from a provider that was given tools.
    """

    content: list[Any]
    dialect: str
    text: str
    calls: tuple[Call, ...]
    stop: Stop = "calls"
    stop_raw: str = ""
    usage: Usage | None = None
    ms: int = 0
    first_ms: int | None = None
    served: str = ""
    request_id: str | None = None
    demonstration: bool = False
    detail: Mapping[str, Any] = field(default_factory=dict)
    calls_from: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that brought no reply to act on. `exit_code` is that of a run that ends by it.

    `began` says that a part of a reply had arrived, which may have to be paid for, `free` that nothing has, whatever
    the reason. `retry_after` is in seconds; `status` and `code` are the provider's own. `content` and `stop_raw` are
    those of a reply that came and that nothing may act on.
    """

    reason: str
    error_class: str
    exit_code: int
    message: str
    retry: bool = False
    retry_after: float | None = None
    began: bool = False
    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    usage: Usage | None = None
    free: bool = False
    content: tuple[Any, ...] = ()
    stop_raw: str = ""


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens, by what the tokens are. Above `over` tokens of input all of them count `times` as much.

    `written` is what is written into a cache for five minutes, `written_1h` for an hour.
    """

    input: Decimal = Decimal(0)
    out: Decimal = Decimal(0)
    written: Decimal = Decimal(0)
    written_1h: Decimal = Decimal(0)
    cached: Decimal = Decimal(0)
    over: int | None = None
    times: Decimal = Decimal(1)

    @property
    def is_free(self) -> bool:
        return not any((self.input, self.out, self.written, self.written_1h, self.cached))


FREE = Price()
PICTURED = frozenset({"anthropic", "openai", "ollama"})
"""Schemes whose format has a place for images."""
NEVER_PAID = frozenset({"scripted", "none", "local", "agent"})
"""Schemes whose models nobody is paid for."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a model, and when that was last checked.

    `window` and `max_out` are tokens; a `price` of None is unknown, which is never 0; `images` of None is as usual for
    its kind.
    """

    window: int = 200_000
    max_out: int = 32_000
    images: bool | None = None
    thinking: bool = False
    price: Price | None = None
    checked: date | None = None


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Which model: `text` is the model string; `source` says what chose it, `checks` what was looked at for that.

    `role` is strong or cheap; `base_url` is where it answers, None for the provider's own address.
    """

    scheme: str
    name: str
    source: str = "flag"
    role: str = "strong"
    checks: tuple[str, ...] = ()
    base_url: str | None = field(default=None, compare=False)
    facts: Facts = field(default=Facts(), compare=False)

    @property
    def text(self) -> str:
        return f"{self.scheme}:{self.name}" if self.name else self.scheme

    @property
    def demonstration(self) -> bool:
        """Whether this model only shows that the machinery works."""
        return self.scheme == LOCAL

    @property
    def shows_pictures(self) -> bool:
        """Whether images can be put before it."""
        return bool(self.facts.images) and self.scheme in PICTURED

    @property
    def price(self) -> Price | None:
        """What its tokens cost; None when nobody knows."""
        return FREE if self.scheme in NEVER_PAID else self.facts.price


@dataclass(frozen=True, slots=True)
class Opening:
    """What a model may need to be opened: the folder that paths begin in, the skill and the argv of its pipeline.

    Without a skill it is asked a single question. With `worker` it speaks for a worker of the run. `cache` is how long
    a provider keeps a prefix: 5m or 1h; `effort` is low to max, for those that take the word. `keys` are names of keys
    by base URL. `heard` is given what a program says on stderr, in lines.
    """

    folder: Path
    skill: Skill | None
    args: tuple[str, ...] = ()
    worker: bool = False
    cache: str = "5m"
    effort: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    heard: Callable[[str], None] = field(default=lambda line: None)


class Model(Protocol):
    """`on` is given text as it arrives, for a view; it never enters a log. A provider's misbehaviour is a Failure.

    Called in a thread that nobody waits for once `cancel` is raised: then it frees what it holds and returns at once.
    """

    ref: ModelRef

    def __call__(
        self, prompt: Prompt, *, on: Callable[[str], None], cancel: Cancel | None = None
    ) -> Reply | Failure: ...

    def warm(self) -> None: ...

    def close(self) -> None: ...
