"""Convert the catalogue's prices of a model into periods and tiers, in the units of price entries.

Prices of other units, of service tiers and of hours become rates and variants. A price that depends on still more is an
estimate. What the package leaves out is added: rates and factors that vendors give as a rule, each with its source.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from typing import Any

from genai_prices.types import (
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

from runtally.money import to_price
from runtally.pricing.rates import MINUTES_A_DAY, Variant, rates_text, variants_text
from runtally.units import FURTHER, LINES, TOKEN_KINDS

PRICES = {
    "input_mtok": "input_per_million",
    "output_mtok": "output_per_million",
    "cache_read_mtok": "cache_read_per_million",
    "cache_write_mtok": "cache_write_per_million",
    "output_reasoning_mtok": "reasoning_per_million",
    "input_audio_mtok": "audio_input_per_million",
    "output_audio_mtok": "audio_output_per_million",
    "requests_kcount": "per_thousand_requests",
}
_UNITS = {
    "cache_write_1h_mtok": ("cacheWrite1h",),
    "input_image_mtok": ("imageInput",),
    "input_video_mtok": ("videoInput",),
    "cache_audio_read_mtok": ("cachedAudioInput",),
    "cache_image_read_mtok": ("cachedImageInput",),
    "output_image_mtok": ("imageOutput",),
    "output_citation_mtok": ("citationTokens",),
    "web_searches_kcount": ("webSearch",),
    "storage_searches_kcount": ("fileSearch",),
    "audio_hours": ("audioSeconds",),
    "input_audio_hours": ("audioSeconds",),
    "input_mchars": ("characters",),
    "input_document_kpages": ("pages",),
}
"""Units by the catalogue's names of their prices."""
_SEARCHES = {"google": ("webSearch", "grounding", "searchQueries"), "perplexity": ("webSearch", "searchQueries")}
"""What the vendors' answers count of their searches."""
_TOOLS = frozenset({"webSearch", "fileSearch", "grounding", "searchQueries"})
_LINE_OF = {kind.price_column: kind.line for kind in TOKEN_KINDS}
_TIER_OF = {("processing", "batch"): "batch", ("speed", "fast"): "fast"}
# DeepSeek charges more in some hours of these days since 2026-08-23, which the catalogue has no word for:
# https://api-docs.deepseek.com/quick_start/pricing.
_WORKING_DAYS = {
    "deepseek-flash": (1, 2, 3, 4, 5),
    "deepseek-v4-flash": (1, 2, 3, 4, 5),
    "deepseek-v4-pro": (1, 2, 3, 4, 5),
}
_BILLED_APART = (
    "output_audio_mtok",
    "output_image_mtok",
    "output_video_mtok",
    "output_citation_mtok",
)
_SPEECH = re.compile(r"transcribe|whisper|speech|voxtral")
_FREE = re.compile(r"\bfree of charge\b|\bincluded in the subscription\b", re.IGNORECASE)
# Free by the vendors' price lists; the catalogue gives no price and no reason.
_KNOWN_FREE = frozenset({("google", "gemma-3"), ("google", "gemma-3n"), ("openai", "moderation")})

BILLED_APART = "Bills more than text tokens: audio, images or citations."
FREE = "Free."

Amounts = dict[str, Decimal]
Tiers = dict[int, dict[str, Any]]
"""Prices by column name, for each number of input tokens above which they hold; 0 is the base."""

Hours = list[tuple[tuple[int, int] | None, ModelPrice]]
"""The prices of one day, each with the minutes from and until which it is in force; None is the rest of the day."""


@dataclass(frozen=True, slots=True)
class Period:
    """The prices of a model from a day on; `end` is the first day of the next period."""

    start: date | None
    end: date | None
    tiers: Tiers
    estimated: bool = False
    note: str | None = None


def periods_of(provider: str, model: ModelInfo) -> list[Period]:
    """List the periods that have a price in tokens, or that are known to be free; a missing price is not free."""
    starts = _by_start(model)
    ends = [start for start, _ in starts[1:]]
    found: list[Period] = []
    for (start, hours), end in zip(starts, [*ends, None], strict=True):
        period = _period(provider, model, hours, start, end)
        if period is None:
            continue
        if not period.estimated and _bills_apart(model.id, [price for _, price in hours]):
            period = replace(period, estimated=True, note=BILLED_APART)
        found.append(period)
    return found


def _by_start(model: ModelInfo) -> list[tuple[date | None, Hours]]:
    """Group the prices by first day, in order. Prices for a time of day belong to the period listed before them."""
    conditions = [ConditionalPrice(prices=model.prices)] if isinstance(model.prices, ModelPrice) else model.prices
    starts: dict[date | None, Hours] = {}
    current: date | None = None
    for condition in conditions:
        constraint = condition.constraint
        if isinstance(constraint, TimeOfDateConstraint):
            window = tuple(60 * at.hour + at.minute for at in (constraint.start_time, constraint.end_time))
            starts[current].append(((window[0], window[1]), condition.prices))
        else:
            current = constraint.start_date if isinstance(constraint, StartDateConstraint) else None
            starts[current] = [(None, condition.prices)]
    return sorted(starts.items(), key=lambda item: item[0] or date.min)


def _period(provider: str, model: ModelInfo, hours: Hours, start: date | None, end: date | None) -> Period | None:
    if _is_free(provider, model) and not any(_priced_by(price) for _, price in hours):
        zero = {"input_per_million": Decimal(0), "output_per_million": Decimal(0)}
        return Period(start, end, {0: zero}, note=FREE)
    (_, rest), *others = hours = _usual_first(hours)
    by_tier = list(_by_tier(model, end))
    prices = [rest, *(price for _, price in others), *(price for _, price in by_tier)]
    found: Tiers = {}
    for above in _starts(prices):
        amounts = _amounts(provider, rest, above)
        if amounts.keys() <= _TOOLS:
            return None
        amounts |= derived_rates(provider, model.id, amounts)
        variants = [
            *(Variant((tier,), rates=_rates(provider, model.id, price, above)) for tier, price in by_tier),
            *_at_hours(provider, model.id, hours, above),
            *added_variants(provider, model.id, {tier for tier, _ in by_tier}),
        ]
        found[above] = {name: usd for name, usd in amounts.items() if name not in FURTHER}
        further = rates_text({name: amounts[name] for name in FURTHER if name in amounts})
        found[above] |= {"unit_rates": further} if further else {}
        found[above] |= {"variants": variants_text(variants)} if variants else {}
    return Period(start, end, found)


def _usual_first(hours: Hours) -> Hours:
    """Return the prices of a day with that of most hours as the one of the rest of the day."""
    if len(hours) == 2:  # noqa: PLR2004  # Two prices change places.
        (_, rest), (window, price) = hours
        if window and (window[1] - window[0]) % MINUTES_A_DAY > MINUTES_A_DAY // 2:
            return [(None, price), ((window[1], window[0]), rest)]
    return hours


def _by_tier(model: ModelInfo, end: date | None) -> Iterator[tuple[str, ModelPrice]]:
    """Yield the prices of each service tier for a period: the first that begins before its end.

    The day is when the catalogue learned of the tier, which had that price before.
    """
    tiers: dict[str, ModelPrice] = {}
    for variant in model.price_variants or ():
        tier = _tier_of(variant)
        starts = variant.constraint.start_date if isinstance(variant.constraint, StartDateConstraint) else date.min
        if tier and tier not in tiers and starts < (end or date.max) and _priced_by(variant.prices):
            tiers[tier] = variant.prices
    yield from tiers.items()


def _tier_of(variant: PriceVariant) -> str | None:
    """Return the service tier of a variant; None for one that depends on anything else."""
    if len(variant.when) != 1:
        return None
    [(name, value)] = variant.when.items()
    return value if name == "service_tier" else _TIER_OF.get((name, value))


def _at_hours(provider: str, model: str, hours: Hours, above: int) -> Iterator[Variant]:
    """Yield a variant for each price of some hours, with all hours that have it."""
    windows: dict[str, list[tuple[int, int]]] = {}
    rates: dict[str, Mapping[str, Decimal]] = {}
    for window, price in hours:
        if window is not None:
            found = _rates(provider, model, price, above)
            windows.setdefault(rates_text(found), []).append(window)
            rates[rates_text(found)] = found
    for text, spans in windows.items():
        yield Variant(hours=tuple(spans), weekdays=_WORKING_DAYS.get(model, ()), rates=rates[text])


def _rates(provider: str, model: str, price: ModelPrice, above: int) -> Mapping[str, Decimal]:
    """Return the rates by the name of their line, in the order of lines."""
    amounts = _amounts(provider, price, above)
    amounts |= derived_rates(provider, model, amounts)
    named = {_LINE_OF.get(name, name): usd for name, usd in amounts.items()}
    return {name: named[name] for name in LINES if name in named}


def _starts(prices: Iterable[ModelPrice]) -> list[int]:
    """Return the numbers of input tokens above which any price changes, with 0."""
    values = (getattr(price, key) for price in prices for key in _priced_by(price) if key in PRICES or key in _UNITS)
    return sorted({0, *(tier.start for value in values if isinstance(value, TieredPrices) for tier in value.tiers)})


def _amounts(provider: str, price: ModelPrice, above: int) -> Amounts:
    """Return the prices above so many input tokens by their columns and units; one without tiers counts with its base."""
    found: Amounts = {}
    for key, column in PRICES.items():
        if (value := getattr(price, key)) is not None:
            found[column] = to_price(_above(value, above))
    for key, units in _UNITS.items():
        if (value := getattr(price, key)) is not None:
            named = _SEARCHES.get(provider, units) if key == "web_searches_kcount" else units
            found |= dict.fromkeys(named, to_price(_above(value, above)))
    return found


def _above(value: Decimal | TieredPrices, tokens: int) -> Decimal:
    if isinstance(value, Decimal):
        return value
    reached = [tier.price for tier in value.tiers if tier.start <= tokens and tokens]
    return reached[-1] if reached else value.base


def _is_free(provider: str, model: ModelInfo) -> bool:
    return (
        model.id.endswith(":free")
        or (provider, model.id) in _KNOWN_FREE
        or _FREE.search(model.price_comments or "") is not None
    )


def _bills_apart(model_id: str, prices: Iterable[ModelPrice]) -> bool:
    """Return whether token counts may not give the whole bill: audio and images may cost more than text."""
    keys = {key for price in prices for key in _priced_by(price)}
    return not keys.isdisjoint(_BILLED_APART) or bool("input_audio_mtok" in keys and _SPEECH.search(model_id))


def _priced_by(price: ModelPrice) -> list[str]:
    return [key for key, value in price.__dict__.items() if value is not None]


_ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing, 2026-11-27"
_OPENAI = "https://developers.openai.com/api/docs/pricing, by litellm 1.110.2"
_GEMINI = "https://ai.google.dev/gemini-api/docs/pricing, by litellm 1.110.2"
_BEDROCK = "https://aws.amazon.com/bedrock/pricing/, by litellm 1.110.2"
_MISTRAL = "https://docs.mistral.ai/capabilities/batch: half of the usual price"
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
    if provider == "mistral":
        yield "batch", "0.5", _MISTRAL
    if provider == "google" and _GEMINI_TIERS.match(model):
        yield "batch", "0.5", _GEMINI
        yield "flex", "0.5", _GEMINI
        yield "priority", "1.8", _GEMINI
