"""What the catalogue's package leaves out: rates and factors that vendors give as a rule, each with its source.

Independent of the package, so that tests read it without loading 100 MB.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal

from runtally.money import to_price
from runtally.pricing.rates import Variant

_ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing, 2026-11-27"
_OPENAI = "https://developers.openai.com/api/docs/pricing, by litellm 1.110.2"
_GEMINI = "https://ai.google.dev/gemini-api/docs/pricing, by litellm 1.110.2"
_BEDROCK = "https://aws.amazon.com/bedrock/pricing/, by litellm 1.110.2"
_VERTEX = "https://cloud.google.com/vertex-ai/generative-ai/pricing, by litellm 1.110.2"

_RESELLERS = frozenset({"anthropic", "aws", "azure", "google"})
"""Who sells Claude at Anthropic's terms for caches."""
# Writing to a cache for an hour costs twice the input, where a price names only five minutes.
_HOUR_OF_INPUT = 2
# From GPT-5.6 on OpenAI charges for writing: 1.25 times the input for half an hour, 2.5 times for twelve.
_TWELVE_HOURS_OF_WRITE = 2
_CHARGED_BY_REGION = re.compile(
    r"claude-(?:opus-(?:4-[6-9]|[5-9])|sonnet-(?:4-[6-9]|[5-9])|haiku-[5-9]|fable-|mythos-)"
)
_OPENAI_BY_REGION = re.compile(r"gpt-(?:5\.[4-9]|6|realtime-2\.1)")
_VERTEX_BY_REGION = re.compile(
    r"claude-(?:(?:opus|sonnet|haiku)-(?:4-[5-9]|[5-9])|fable-)|gemini-(?:3\.[5-9]-flash|3\.1-flash-(?:lite|image)|4-)"
)
_GEMINI_TIERS = re.compile(r"gemini-(?:2\.5|[3-9])(?!.*(?:tts|live|embedding))")
_ULTRAFAST = frozenset({"gpt-6-astra", "gpt-6.1-sol"})


def derived_rates(provider: str, model: str, amounts: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return the rates of further units that follow from a price's own, or are the same for all of a vendor's models."""
    return {name: usd for name, usd in _rates_of(provider, model, amounts).items() if name not in amounts}


def _rates_of(provider: str, model: str, amounts: Mapping[str, Decimal]) -> dict[str, Decimal]:
    if provider == "perplexity":
        # The fee of a request, or the price of tokens, includes them where a model has no price for them.
        return {"citationTokens": Decimal(0), "searchQueries": Decimal(0), "webSearch": Decimal(0)}
    if provider == "x-ai" and "input_per_million" in amounts:
        # $25 for a thousand sources of a live search: https://docs.x.ai/docs/models.
        return {"searchSources": Decimal(25)}
    found = _written_rates(provider, model, amounts)
    if provider == "openai" and "webSearch" in amounts:
        # $0.03 for a container: https://developers.openai.com/api/docs/pricing.
        found["codeExecution"] = Decimal(30)
    return found


def _written_rates(provider: str, model: str, amounts: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return the rates of longer cache writes."""
    read, written = amounts.get("input_per_million"), amounts.get("cache_write_per_million")
    if read is None or written is None:
        return {}
    if "claude" in model and provider in _RESELLERS:
        return {"cacheWrite1h": to_price(read * _HOUR_OF_INPUT)}
    if provider == "openai":
        return {"cacheWrite12h": to_price(written * _TWELVE_HOURS_OF_WRITE)}
    return {}


def added_variants(provider: str, model: str, tiers: Collection[str]) -> Iterator[Variant]:
    """Yield the factors on all of a model's tokens, except for service tiers with rates of their own."""
    for tier, factor, source in _factors_of(provider, model):
        if tier not in tiers:
            yield Variant(tiers=(tier,), factor=Decimal(factor), source=source)
    if provider == "anthropic" and _CHARGED_BY_REGION.match(model):
        yield Variant(regions=("us",), factor=Decimal("1.1"), source=_ANTHROPIC)
    if provider == "openai" and _OPENAI_BY_REGION.match(model):
        yield Variant(regions=("us", "eu"), factor=Decimal("1.1"), source=_OPENAI)
    if provider == "google" and _VERTEX_BY_REGION.match(model):
        yield Variant(regions=("!global",), factor=Decimal("1.1"), source=_VERTEX)


def _factors_of(provider: str, model: str) -> Iterator[tuple[str, str, str]]:
    """Yield service tiers with their factor and its source."""
    if provider == "openai" and model in _ULTRAFAST:
        yield "ultrafast", "6", _OPENAI
    if provider == "aws":
        yield "batch", "0.5", _BEDROCK
        if "claude" not in model:
            yield "flex", "0.5", _BEDROCK
            yield "priority", "1.75", _BEDROCK
    if provider == "google" and "claude" in model:
        yield "batch", "0.5", _VERTEX
    if provider == "google" and _GEMINI_TIERS.match(model):
        yield "batch", "0.5", _GEMINI
        yield "flex", "0.5", _GEMINI
        yield "priority", "1.8", _GEMINI
