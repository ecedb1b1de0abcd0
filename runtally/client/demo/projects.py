"""The projects of the demo, their hours of use, and the models that they call.

The price catalogue knows eight of the models; one is a routing aggregator's, and one has no price.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final


@dataclass(frozen=True, slots=True)
class Model:
    """A model and how fast it is: time to the first token, output tokens per second."""

    provider: str
    name: str
    first_token_ms: int
    tokens_per_s: int
    reasoning: float = 0.0
    """Usual share of the output spent on reasoning."""
    caches: bool = True
    usd_per_million: tuple[Decimal, Decimal] | None = None
    """Input and output price that the provider itself bills and reports."""


SONNET: Final = Model("anthropic", "claude-sonnet-5-5", 900, 75)
HAIKU: Final = Model("anthropic", "claude-haiku-4-5", 420, 150)
TERRA: Final = Model("openai", "gpt-6.1-terra", 1100, 95, reasoning=0.45)
MINI: Final = Model("openai", "gpt-5.4-mini", 480, 140)
FLASH: Final = Model("google", "gemini-3.5-flash", 520, 180)
FLASH_LITE: Final = Model("google", "gemini-3.5-flash-lite", 260, 260)
MEDIUM: Final = Model("mistral", "mistral-medium-3-5", 600, 85)
SMALL: Final = Model("mistral", "mistral-small-2603", 300, 160)
ROUTED: Final = Model(
    "openrouter",
    "deepseek/deepseek-v4-flash",
    850,
    60,
    caches=False,
    usd_per_million=(Decimal("0.15"), Decimal("0.6")),
)
OWN: Final = Model("vllm", "acme-triage-8b", 90, 110, caches=False)


@dataclass(frozen=True, slots=True)
class Step:
    """A kind of call in the demo: its models by weight, and its median token counts."""

    feature: str
    models: dict[Model, float]
    input_tokens: int
    output_tokens: int
    cached: float = 0.0
    """Share of the input that is the same in each call, and so can come from a cache."""
    labels: tuple[tuple[str, str], ...] = ()
    """Metadata of the call."""


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
    """The tags, of which a trace has one, if there are any."""
    agent: str = ""
    """The coding agent whose calls these are; a project has traffic of several."""


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

_DEVELOPERS: Final = ("anna", "tomas", "priya", "jonas", "mei", "kwame", "lucia", "sam")
_REPOSITORIES: Final = ("acme/storefront", "acme/payments", "acme/mobile-app", "acme/infra")
_PLAN: Final = {"costBasis": ("API list price",)}
"""What runs of developers say who are on a plan and do not pay by token."""


def _of_agent(agent: str, prompts: int, steps: tuple[Step, ...], labels: Mapping[str, tuple[str, ...]]) -> Project:
    # Whom an agent's traffic is of most differs.
    first = prompts % len(_DEVELOPERS)
    return Project(
        id="coding-agents",
        traces_per_workday=prompts,
        weekend=0.08,
        hours=_TWO_CONTINENTS,
        steps=steps,
        trace_lengths={2: 1, 3: 2, 4: 3, 5: 3, 6: 2},
        labels={"agent": (agent,), "repo": _REPOSITORIES, **labels},
        users=_DEVELOPERS[first:] + _DEVELOPERS[:first],
        agent=agent,
    )


_MAIN: Final = (("querySource", "repl_main_thread"),)
_EXPLORER: Final = (("querySource", "agent:explorer"), ("agentName", "explorer"))
_REVIEWER: Final = (("querySource", "agent:reviewer"), ("agentName", "reviewer"))
CLAUDE_CODE: Final = _of_agent(
    "claude-code",
    12,
    (
        Step("plan", {SONNET: 1}, 26_000, 700, cached=0.8, labels=_MAIN),
        Step("search", {HAIKU: 1}, 14_000, 320, cached=0.7, labels=_EXPLORER),
        Step("search", {HAIKU: 1}, 17_000, 280, cached=0.7, labels=_EXPLORER),
        Step("review", {SONNET: 1}, 22_000, 650, cached=0.7, labels=_REVIEWER),
        Step("edit", {SONNET: 1}, 34_000, 520, cached=0.9, labels=_MAIN),
        Step("compact", {SONNET: 1}, 90_000, 2_400, cached=0.9, labels=(("querySource", "compact"),)),
    ),
    {},
)
CODEX: Final = _of_agent("codex", 9, (Step("edit", {TERRA: 1}, 30_000, 900, cached=0.85),), _PLAN)
GEMINI_CLI: Final = _of_agent(
    "gemini-cli",
    6,
    (
        Step("route", {FLASH_LITE: 1}, 2_800, 30, cached=0.3, labels=(("role", "utility_router"),)),
        Step("edit", {FLASH: 1}, 24_000, 480, cached=0.7, labels=(("role", "main"),)),
    ),
    _PLAN,
)

PROJECTS: Final = (SUPPORT, CODE_REVIEW, DOC_SEARCH, CLAUDE_CODE, CODEX, GEMINI_CLI)
