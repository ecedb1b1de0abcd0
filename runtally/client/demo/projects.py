"""The projects of the demo: what they ask of which models, and at which hours."""

from dataclasses import dataclass
from typing import Final

from runtally.client.demo.models import (
    FLASH,
    FLASH_LITE,
    HAIKU,
    MEDIUM,
    MINI,
    OWN,
    ROUTED,
    SMALL,
    SONNET,
    TERRA,
    Model,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of call: its models by weight, and the medians of its token counts."""

    feature: str
    models: dict[Model, float]
    input_tokens: int
    output_tokens: int
    cached: float = 0.0
    """Share of the input that is the same in each call, and so can come from a cache."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project's traffic. `steps` after the first are repeated until the trace is full."""

    id: str
    traces_per_workday: int
    weekend: float
    """Traffic of a Saturday or Sunday as a share of a workday's."""
    hours: tuple[int, ...]
    """Weight of each hour of the day (UTC)."""
    steps: tuple[Step, ...]
    trace_lengths: dict[int, float]
    """How many calls a trace has, by weight."""
    labels: dict[str, tuple[str, ...]]
    """Metadata of a trace: for each key the values of which it has one."""
    users: tuple[str, ...]
    """Those who start traces, the busiest first; a few of them start most."""
    tags: tuple[str, ...] = ()
    """Of which a trace has one, if there are any."""


_OFFICE: Final = (1, 1, 1, 1, 1, 2, 4, 9, 17, 22, 23, 20, 16, 20, 23, 22, 19, 14, 9, 7, 5, 4, 2, 1)
_TWO_CONTINENTS: Final = (4, 2, 1, 1, 1, 1, 2, 5, 9, 11, 12, 11, 10, 13, 18, 21, 22, 21, 19, 17, 15, 12, 8, 5)
_ROUND_THE_CLOCK: Final = (6, 5, 5, 5, 6, 8, 10, 13, 16, 18, 19, 18, 16, 17, 18, 18, 17, 15, 13, 12, 11, 10, 8, 7)

SUPPORT: Final = Project(
    id="support-agent",
    traces_per_workday=155,
    weekend=0.45,
    hours=_OFFICE,
    steps=(
        Step("triage", {HAIKU: 6, SMALL: 3, OWN: 1}, 640, 24, cached=0.5),
        Step("answer", {SONNET: 6, TERRA: 3, MEDIUM: 1}, 5200, 340, cached=0.65),
        Step("tool-call", {HAIKU: 8, MINI: 2}, 2300, 90, cached=0.6),
    ),
    trace_lengths={1: 1, 2: 2, 3: 4, 4: 3, 5: 2, 6: 1},
    labels={"region": ("eu-west-1", "eu-central-1")},
    users=tuple(f"customer-{number:03d}" for number in range(1, 181)),
    tags=("web", "mobile", "email"),
)
CODE_REVIEW: Final = Project(
    id="code-review-bot",
    traces_per_workday=130,
    weekend=0.15,
    hours=_TWO_CONTINENTS,
    steps=(
        Step("summary", {FLASH: 2, MINI: 1}, 4200, 210, cached=0.2),
        Step("review", {SONNET: 9, TERRA: 1}, 9500, 620, cached=0.3),
    ),
    trace_lengths={2: 3, 3: 3, 4: 2, 5: 1, 6: 1},
    labels={"region": ("us-east-1",), "repo": ("acme/storefront", "acme/payments", "acme/mobile-app", "acme/infra")},
    users=("anna", "tomas", "priya", "jonas", "mei", "kwame", "lucia", "sam", "noor", "elif", "yuki", "dario"),
)
DOC_SEARCH: Final = Project(
    id="doc-search",
    traces_per_workday=290,
    weekend=0.4,
    hours=_ROUND_THE_CLOCK,
    steps=(
        Step("rewrite", {FLASH_LITE: 5, MINI: 3, SMALL: 2}, 310, 36),
        Step("answer", {FLASH: 5, ROUTED: 3, MEDIUM: 2}, 3600, 230, cached=0.25),
    ),
    trace_lengths={1: 2, 2: 5, 3: 1},
    labels={"region": ("eu-west-1", "us-east-1", "ap-southeast-1")},
    users=("globex", "initech", "umbrella", "hooli", "stark", "wayne", "wonka", "tyrell", "cyberdyne", "soylent"),
    tags=("search-box", "assistant"),
)

PROJECTS: Final = (SUPPORT, CODE_REVIEW, DOC_SEARCH)
