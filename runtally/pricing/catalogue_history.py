"""Prices that the catalogue's package dropped, never had or has wrong, each with where it is from.

Past ones were publicly known at the time and cannot be looked up any more, so a cost computed from them is an estimate.
Those in force are of the vendor's page, as litellm 1.110.2 read it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from runtally.models.price import Match
from runtally.pricing.catalogue_entry import CatalogueEntry, key_of

_OVER = "Price of its time, until {:%Y-%m-%d}."
_BATCH = "tier batch: x 0.5"
_GEMINI_TIERS = "tier batch: x 0.5\ntier flex: x 0.5\ntier priority: x 1.8\nregion !global: x 1.1"
_DEEPSEEK_V2, _END_OF_DEEPSEEK_V3_OFFER = datetime(2024, 5, 6, tzinfo=UTC), datetime(2025, 2, 8, 16, tzinfo=UTC)
_DEEPSEEK_V3_1, _DEEPSEEK_V3_2 = datetime(2025, 9, 5, 16, tzinfo=UTC), datetime(2025, 9, 29, tzinfo=UTC)
_DEEPSEEK = "https://api-docs.deepseek.com/quick_start/pricing."
_MISTRAL = "https://docs.mistral.ai/models/{}."
_OPENAI = "https://developers.openai.com/api/docs/pricing."

_Price = tuple[datetime | None, str, str, str | None]
"""From when on, and US dollars per million tokens of input, output and cache reads."""


def _entries(
    provider: str,
    model: str,
    *prices: _Price,
    until: datetime | None = None,
    **more: Any,  # noqa: ANN401  # Of any type.
) -> Iterator[CatalogueEntry]:
    """Yield an entry for each price, until the next one begins; `more` are further fields of all of them."""
    for (start, read, written, cached), (end, *_) in pairwise((*prices, (until, "", "", None))):
        fields: dict[str, Any] = {
            "match": Match.EXACT,
            "input_per_million": Decimal(read),
            "output_per_million": Decimal(written),
            "cache_read_per_million": None if cached is None else Decimal(cached),
            "effective_from": start,
            "effective_to": end,
            "catalogue_key": key_of(provider, model, start and start.date(), more.get("above_input_tokens", 0)),
            "estimated": end is not None,
            **more,
        }
        yield CatalogueEntry(provider=provider, model=model, **fields | ({"note": _OVER.format(end)} if end else {}))


CORRECTED_NAMES = frozenset({("mistral", "codestral-latest"), ("mistral", "mistral-large-latest")})
"""Names that the package has at a price of another time; an entry here has each."""

HISTORY = (
    *_entries(
        "deepseek", "deepseek-chat", (_DEEPSEEK_V2, "0.14", "0.28", "0.014"), until=_END_OF_DEEPSEEK_V3_OFFER,
        aliases=("deepseek-coder",), note=_DEEPSEEK,
    ),
    *_entries(
        "deepseek", "deepseek-chat", (_DEEPSEEK_V3_1, "0.56", "1.68", "0.07"), (_DEEPSEEK_V3_2, "0.28", "0.42", "0.028"),
        aliases=("deepseek-coder",), note=_DEEPSEEK,
    ),
    *_entries(
        "deepseek", "deepseek-reasoner", (_DEEPSEEK_V3_1, "0.56", "1.68", "0.07"), (_DEEPSEEK_V3_2, "0.28", "0.42", "0.028"),
        note=_DEEPSEEK,
    ),
    *(
        entry
        for model in ("deepseek-v3", "qwen2p5-coder-32b-instruct")
        for entry in _entries(
            "fireworks", model, (None, "0.9", "0.9", None),
            aliases=(f"accounts/fireworks/models/{model}",), estimated=True, note="No longer offered; price of its time.",
        )
    ),
    *(
        CatalogueEntry(
            provider="cohere",
            model=model,
            match=Match.EXACT,
            unit_rates=f"searchUnits {usd}",
            catalogue_key=key_of("cohere", model, None, 0),
            note="https://cohere.com/pricing.",
        )
        for model, usd in (
            ("rerank-v4.0-pro", "2.5"),
            ("rerank-v4.0-fast", "2"),
            ("rerank-v3.5", "2"),
            ("rerank-english-v3.0", "2"),
            ("rerank-multilingual-v3.0", "2"),
        )
    ),
    *_entries(
        "mistral", "mistral-large-latest", (None, "2", "6", None), (datetime(2025, 12, 2, tzinfo=UTC), "0.5", "1.5", "0.05"),
        variants=_BATCH, note=_MISTRAL.format("mistral-large-3-25-12"),
    ),
    *_entries(
        "mistral", "codestral-latest", (None, "0.3", "0.9", None), (datetime(2025, 7, 30, tzinfo=UTC), "0.3", "0.9", "0.03"),
        variants=_BATCH, note=_MISTRAL.format("model-cards/codestral-25-08"),
    ),
    *_entries(
        "mistral", "magistral-medium-latest", (datetime(2026, 5, 1, tzinfo=UTC), "1.5", "7.5", "0.15"),
        variants=_BATCH, note="Mistral Medium 3.5 since spring 2026: " + _MISTRAL.format("model-cards/mistral-medium-3-5-26-04"),
    ),
    *_entries(
        "mistral", "devstral-medium-latest", (None, "0.4", "2", "0.04"),
        aliases=("devstral-latest",), variants=_BATCH, note="https://mistral.ai/news/devstral-2-vibe-cli.",
    ),
    *_entries(
        "google", "gemini-4-hydrogen", (None, "1.5", "7.5", "0.075"),
        variants=_GEMINI_TIERS, note="https://aistudio.google.com/docs/pricing#gemini-4-hydrogen.",
    ),
    *(
        entry
        for model, read, written, cached in (
            ("ft:gpt-4.1-2025-04-14", "3", "12", "0.75"),
            ("ft:gpt-4.1-mini-2025-04-14", "0.8", "3.2", "0.2"),
            ("ft:gpt-4.1-nano-2025-04-14", "0.2", "0.8", "0.05"),
            ("ft:o4-mini-2025-04-16", "4", "16", "1"),
        )
        for entry in _entries("openai", model, (None, read, written, cached), variants=_BATCH, match=Match.PREFIX, pattern=model, note=_OPENAI)
    ),
    # The name without a date and a region, at the price of a region, as all other bare names have it.
    *_entries(
        "aws", "anthropic.claude-haiku-4-5", (None, "1.1", "5.5", "0.11"), cache_write_per_million=Decimal("1.375"),
        unit_rates="cacheWrite1h 2.2", variants=_BATCH, note="https://aws.amazon.com/bedrock/pricing/.",
    ),
    *_entries("openrouter", "openai/gpt-5.5:flex", (None, "2.5", "15", "0.25"), note=_OPENAI),
    *_entries("openrouter", "openai/gpt-5.5:flex", (None, "5", "22.5", "0.5"), above_input_tokens=272_000, note=_OPENAI),
    *_entries(
        "cohere", "command-a-plus-05-2026", (None, "0.8", "3.2", None),
        estimated=True, note="Azure's price, by litellm 1.110.2: Cohere names none.",
    ),
)  # fmt: skip
