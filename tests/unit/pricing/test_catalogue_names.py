"""Real names against the installed catalogue: who is found, and who must not be."""

import csv
import gzip
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from runtally.pricing.book import PriceBook
from runtally.pricing.cost import total_usd
from runtally.pricing.draft import CatalogueEntry
from runtally.units import Usage
from tests.unit.pricing.candidates import NOW

AIDER = Path(__file__).parents[3].parent / "shared/data/aider.csv.gz"
BARE_NAMES = {"gpt-": "openai", "o1": "openai", "o3": "openai", "claude": "anthropic", "gemini": "google"}


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        ("openai", "gpt-4o", "openai/gpt-4o"),
        ("openai", "gpt-4o-2024-11-20", "openai/gpt-4o"),
        ("openai", "gpt-4o-2024-05-13", "openai/gpt-4o-2024-05-13"),
        ("openai", "gpt-4o-mini-2024-07-18", "openai/gpt-4o-mini"),
        ("openai", "gpt-4-0613", "openai/gpt-4"),
        ("openai", "gpt-4o-audio-preview-2024-12-17", "openai/gpt-4o-audio-preview"),
        ("openai", "o1-pro", "openai/o1-pro"),
        ("openai", "ft:gpt-4o-2024-08-06:acme::abc123", "openai/ft:gpt-4o"),
        ("anthropic", "claude-3-5-sonnet-20241022", "anthropic/claude-3-5-sonnet"),
        ("anthropic", "claude-3-5-sonnet-latest", "anthropic/claude-3-5-sonnet"),
        ("anthropic", "claude-2.1", "anthropic/claude-2"),
        ("gemini", "gemini-1.5-pro-latest", "google/gemini-1.5-pro"),
        ("google", "models/gemini-2.5-flash", "google/gemini-2.5-flash"),
        ("vertex_ai", "claude-3-7-sonnet@20250219", "google/claude-3-7-sonnet"),
        (
            "bedrock",
            "us.anthropic.claude-3-5-haiku-20241022-v1:0",
            "aws/regional.anthropic.claude-3-5-haiku-20241022-v1:0",
        ),
        ("aws.bedrock", "nova-lite-v1:0", "aws/amazon.nova-lite-v1:0"),
        ("aws.bedrock", "llama3-8b-instruct-v1:0", "aws/meta.llama3-8b-instruct-v1:0"),
        ("azure", "o3-mini-2025-01-31", "azure/o3-mini"),
        ("azure_openai", "gpt-4o-2024-08-06", "openai/gpt-4o~"),
        ("openrouter", "anthropic/claude-3.5-sonnet", "openrouter/anthropic/claude-3.5-sonnet"),
        ("openrouter", "openrouter/openai/gpt-4o", "openrouter/openai/gpt-4o"),
        ("openrouter", "openai/gpt-4o:nitro", "openrouter/openai/gpt-4o~"),
        ("openrouter", "anthropic/claude-2.1", "openrouter/anthropic/claude-2"),
        ("litellm", "openai/gpt-4o-mini", "openai/gpt-4o-mini"),
        ("mistralai", "codestral-latest", "mistral/codestral-latest"),
        ("xai", "grok-4.5", "x-ai/grok-4.5"),
        ("fireworks_ai", "accounts/fireworks/models/deepseek-v3", "fireworks/deepseek-v3~"),
        ("deepseek", "deepseek-coder", "deepseek/deepseek-chat"),
        ("anthropic", "claude-opus-latest", "anthropic/claude-opus-5-5"),
        ("anthropic", "claude-sonnet-latest", "anthropic/claude-sonnet-5-5"),
        ("openai", "gpt-sol-latest", "openai/gpt-6.1-sol"),
        ("gemini", "gemini-4-hydrogen", "google/gemini-4-hydrogen"),
        ("mistral", "devstral-medium-latest", "mistral/devstral-medium-latest"),
        ("mistral", "magistral-medium-latest", "mistral/magistral-medium-latest"),
        ("openai", "ft:gpt-4.1-2025-04-14:acme::abc", "openai/ft:gpt-4.1-2025-04-14"),
    ],
)
def test_a_real_name_finds_its_price(catalogue_book: PriceBook, provider: str, model: str, expected: str) -> None:
    price = catalogue_book.price_for(provider, model, NOW, 1000)

    assert price is not None
    assert f"{price.provider}/{price.model}{'~' if price.estimated else ''}" == expected


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o-audio-mega"),
        ("openai", "gpt-99"),
        ("openai", "o1-ultra"),
        ("azure", "o4-mini-mega"),
        ("anthropic", "claude-3-5-sonnet-fast"),
        ("anthropic", "claude-opus-99"),
        ("google", "gemini-1.5-flash-8b"),
        ("google", "gemini-3.6-flash-lite"),
        ("mistral", "mistral-large-2402"),
        ("openrouter", "openai/gpt-4o:free"),
        ("openrouter", "acme/gpt-4o"),
        ("groq", "gpt-4o"),
        ("ollama", "llama3.1"),
        ("", ""),
    ],
)
def test_a_name_without_a_price_stays_unknown(catalogue_book: PriceBook, provider: str, model: str) -> None:
    assert catalogue_book.price_for(provider, model, NOW, 1000) is None


@pytest.mark.parametrize(
    ("model", "others"),
    [
        ("gpt-4o", ["gpt-4o-mini", "gpt-4o-audio-preview", "gpt-4o-realtime-preview", "gpt-4o-transcribe"]),
        ("o1", ["o1-pro", "o1-mini"]),
        ("o4-mini", ["o4-mini-deep-research"]),
    ],
)
def test_a_model_is_not_priced_as_another_of_its_family(
    catalogue_book: PriceBook, model: str, others: list[str]
) -> None:
    own = catalogue_book.price_for("openai", model, NOW, 1000)

    for other in others:
        price = catalogue_book.price_for("openai", other, NOW, 1000)
        assert own is not None
        assert price is None or price.id != own.id


def test_every_entry_is_found_under_its_own_names(catalogue: list[CatalogueEntry], catalogue_book: PriceBook) -> None:
    lost = []
    for entry in catalogue:
        names = entry.aliases if entry.pattern else (entry.model, *entry.aliases)
        # Any moment of its period will do.
        at = entry.effective_from or entry.effective_to or NOW
        if entry.effective_from is None and entry.effective_to is not None:
            at = datetime(2020, 1, 1, tzinfo=UTC)
        for name in names:
            price = catalogue_book.price_for(entry.provider, name, at, entry.above_input_tokens + 1)
            if price is None or (price.provider, price.model) != (entry.provider, entry.model):
                lost.append((entry.provider, name, entry.model, price and price.model))

    assert lost == []


def priced_runs() -> Iterator[tuple[str, str, datetime, Usage, Decimal]]:
    """Runs of the aider workload that cost something and name their model."""
    with gzip.open(AIDER, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            name, cost = row["main_model"], Decimal(row["cost_usd"] or 0)
            if cost <= 0 or name in {"", "None"} or name.endswith("REDACTED"):
                continue
            provider, slash, model = name.partition("/")
            if not slash:
                provider = next((vendor for prefix, vendor in BARE_NAMES.items() if name.startswith(prefix)), "")
                model = name
            usage = Usage(int(row["prompt_tokens"] or 0), int(row["completion_tokens"] or 0))
            yield provider, model, datetime.fromtimestamp(int(row["time_unix"]), UTC), usage, cost


@pytest.mark.skipif(not AIDER.exists(), reason=f"the aider workload is not at {AIDER}")
def test_the_runs_of_a_real_workload_find_a_price(catalogue_book: PriceBook) -> None:
    missing: Counter[str] = Counter()
    found, computed, published = 0, Decimal(0), Decimal(0)
    for provider, model, at, usage, cost in priced_runs():
        price = catalogue_book.price_for(provider, model, at, usage.input_tokens or 0)
        if price is None:
            missing[f"{provider}/{model}"] += 1
            continue
        found, computed, published = found + 1, computed + total_usd(usage, price), published + cost

    assert found / (found + missing.total()) >= 0.95, missing
    assert abs(computed - published) / published < Decimal("0.02")
