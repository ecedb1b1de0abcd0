"""Convert the catalogue's prices of a model into periods and tiers, in the units of price entries.

Prices of other units, of service tiers and of hours become rates and variants. A price that depends on still more is an
estimate.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
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
from runtally.pricing.catalogue_rules import added_variants, derived_rates
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
    return sorted({0, *(tier.start for one in values if isinstance(one, TieredPrices) for tier in one.tiers)})


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
