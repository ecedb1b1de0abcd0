"""The models of the demo: eight that the price catalogue knows, a routing aggregator's, and one without a price."""

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
