"""Convert the catalogue's prices of a model into periods and tiers, in the units of price entries.

A price that depends on more than tokens, model and day (the hour, seconds of audio) is an estimate.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from genai_prices.types import (
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
    TieredPrices,
    TimeOfDateConstraint,
)

from runtally.money import to_price

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

MINUTES_A_DAY = 24 * 60
VARIES_BY_HOUR = "Varies with the time of day; this is the price of most hours."
BILLED_APART = "Bills more than text tokens: audio, images or citations."
FREE = "Free."

Tiers = dict[int, dict[str, Decimal]]
"""Prices by column name, for each number of input tokens above which they hold; 0 is the base."""

Variants = list[tuple[int, ModelPrice]]
"""The prices of one day, each with the number of minutes for which it is in force."""


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
    for (start, variants), end in zip(starts, [*ends, None], strict=True):
        period = _period(start, end, variants, free=_is_free(provider, model))
        if period is None:
            continue
        if not period.estimated and _bills_apart(model.id, [price for _, price in variants]):
            period = replace(period, estimated=True, note=BILLED_APART)
        found.append(period)
    return found


def _by_start(model: ModelInfo) -> list[tuple[date | None, Variants]]:
    """Group the prices by first day, in order. Prices for a time of day belong to the period listed before them."""
    conditions = [ConditionalPrice(prices=model.prices)] if isinstance(model.prices, ModelPrice) else model.prices
    starts: dict[date | None, Variants] = {}
    current: date | None = None
    for condition in conditions:
        if isinstance(condition.constraint, TimeOfDateConstraint):
            minutes = _minutes(condition.constraint)
            whole_day, price = starts[current][0]
            starts[current][0] = (whole_day - minutes, price)
            starts[current].append((minutes, condition.prices))
        else:
            constraint = condition.constraint
            current = constraint.start_date if isinstance(constraint, StartDateConstraint) else None
            starts[current] = [(MINUTES_A_DAY, condition.prices)]
    return sorted(starts.items(), key=lambda item: item[0] or date.min)


def _minutes(hours: TimeOfDateConstraint) -> int:
    start, end = (60 * moment.hour + moment.minute for moment in (hours.start_time, hours.end_time))
    return (end - start) % MINUTES_A_DAY


def _period(start: date | None, end: date | None, variants: Variants, *, free: bool) -> Period | None:
    if free and not any(_priced_by(price) for _, price in variants):
        zero = {"input_per_million": Decimal(0), "output_per_million": Decimal(0)}
        return Period(start, end, {0: zero}, note=FREE)
    minutes: dict[int, int] = {}
    tiers = [_tiers(price) for _, price in variants]
    for number, (length, _) in enumerate(variants):
        same = tiers.index(tiers[number])
        minutes[same] = minutes.get(same, 0) + length
    usual = tiers[max(minutes, key=lambda number: minutes[number])]
    if not usual[0]:
        return None
    by_hour = len(minutes) > 1
    return Period(start, end, usual, estimated=by_hour, note=VARIES_BY_HOUR if by_hour else None)


def _tiers(price: ModelPrice) -> Tiers:
    """Return the prices of each tier; a price without tiers counts with its base."""
    values = {column: value for key, column in PRICES.items() if (value := getattr(price, key)) is not None}
    starts = {tier.start for value in values.values() if isinstance(value, TieredPrices) for tier in value.tiers}
    return {
        above: {column: to_price(_above(value, above)) for column, value in values.items()}
        for above in sorted({0, *starts})
    }


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
