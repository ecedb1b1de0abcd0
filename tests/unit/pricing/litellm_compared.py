"""The registry's costs compared with those of litellm's price map, each difference with its reason.

`python -m tests.unit.pricing.litellm_compared` lists them all.
"""

import asyncio
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from runtally.money import from_pico, pico_per_token
from runtally.pricing.book import PriceBook
from runtally.pricing.catalogue import read_catalogue
from runtally.pricing.cost import Price, total_usd
from runtally.units import TOKEN_KINDS, Usage
from tests.unit.pricing.candidates import candidates_of
from tests.unit.pricing.litellm_costs import Model, Rates, models

AT = datetime(2026, 11, 1, 20, tzinfo=UTC)
MIXES = (
    {"input": 1000, "output": 500},
    {"input": 1_500_000, "output": 70_000},
    {"input": 250_000, "output": 1, "cached": 200_000},
    {"input": 10_000, "output": 100, "cached": 3000, "written": 2000},
    {"input": 500, "output": 12_345, "reasoning": 12_000},
    {"input": 2000, "output": 800, "heard": 1500, "spoken": 600},
)
# Half of the seventh decimal of a price per million is half a pico-dollar a token.
MOST_A_TOKEN = Decimal("0.5e-12")

INPUT, OUTPUT, CACHED, WRITTEN, REASONING, HEARD, SPOKEN = TOKEN_KINDS


class Reason(StrEnum):
    """Why the registry computes another cost than litellm, where it may: what the two sources say, not how it is added up."""

    UNKNOWN = "the catalogue has no such model"
    ESTIMATE = "the price is another vendor's, or otherwise marked as an estimate"
    TIER = "only one of them has other prices above so many input tokens, or they begin elsewhere"
    CACHE = "only one of them has a price for cached tokens, or they name another"
    AUDIO = "only one of them has a price for audio, or they name another"
    REASONING = "only one of them has a price for reasoning tokens, or they name another"
    AMOUNT = "they name other prices for input or output"
    FEE = "the catalogue has a fee for each request"
    DECIMALS = "litellm has more than 6 decimals per million"
    UNEXPLAINED = "unexplained"


class Difference(NamedTuple):
    """A cost that differs."""

    provider: str
    model: str
    mix: int
    ours: Decimal | None
    theirs: Decimal


def compared(known: list[Model], book: PriceBook) -> tuple[Counter[str], dict[Reason, list[Difference]]]:
    """How many mixes of each model cost the same, and those that do not, by reason."""
    same: Counter[str] = Counter()
    differing: dict[Reason, list[Difference]] = defaultdict(list)
    for model in known:
        for number, mix in enumerate(MIXES):
            price = book.price_for(model.provider, model.name, AT, mix["input"])
            theirs = model.rates_for(mix["input"]).cost(mix)
            ours = None if price is None else total_usd(usage(mix), price)
            if ours == theirs:
                same[model.name] += 1
            else:
                reason = _reason(price, model.rates_for(mix["input"]), mix, _tiers(book, model) == list(model.tiers))
                differing[reason].append(Difference(model.provider, model.name, number, ours, theirs))
    return same, differing


def _reason(price: Price | None, rates: Rates, mix: dict[str, int], has_same_tiers: bool) -> Reason:  # noqa: PLR0911  # One question after the other.
    if price is None:
        return Reason.UNKNOWN
    theirs = [pico(amount) for amount in (rates.input, rates.output)]
    ours = [price.rates[INPUT], price.rates[OUTPUT]]
    apart = abs(total_usd(usage(mix), price) - from_pico(price.request_pico) - rates.cost(mix))
    if apart <= sum(mix.values()) * MOST_A_TOKEN:
        return Reason.FEE if price.request_pico else Reason.DECIMALS
    if price.estimated:
        return Reason.ESTIMATE
    if not has_same_tiers and mix["input"] > 1000:
        return Reason.TIER
    if [amount or 0 for amount in ours] != [amount or 0 for amount in theirs]:
        return Reason.AMOUNT
    if mix.get("cached") and (price.rates[CACHED], price.rates[WRITTEN]) != (
        pico(rates.cache_read),
        pico(rates.cache_write),
    ):
        return Reason.CACHE
    if mix.get("reasoning") and price.rates[REASONING] != pico(rates.reasoning):
        return Reason.REASONING
    theirs = [pico(amount) for amount in (rates.audio_input, rates.audio_output)]
    if mix.get("heard") and [price.rates[HEARD], price.rates[SPOKEN]] != theirs:
        return Reason.AUDIO
    return Reason.UNEXPLAINED


def _tiers(book: PriceBook, model: Model) -> list[int]:
    """Above how many input tokens the registry has other prices, as far as the mixes and their tiers tell."""
    asked = sorted({*model.tiers, *(mix["input"] for mix in MIXES)})
    found = (book.price_for(model.provider, model.name, AT, tokens + 1) for tokens in asked)
    return sorted({price.above_input_tokens for price in found if price and price.above_input_tokens})


def pico(per_million: Decimal | None) -> int | None:
    return None if per_million is None else pico_per_token(per_million)


def usage(mix: dict[str, int]) -> Usage:
    return Usage(
        mix["input"],
        mix["output"],
        mix.get("cached"),
        mix.get("written"),
        mix.get("reasoning"),
        mix.get("heard"),
        mix.get("spoken"),
    )


def main() -> None:
    same, differing = compared(models(), PriceBook(candidates_of(asyncio.run(read_catalogue()))))
    for reason, found in differing.items():
        for one in found:
            sys.stdout.write(f"{reason}\t{one.provider}\t{one.model}\t{one.mix}\t{one.ours}\t{one.theirs}\n")
    for reason, found in differing.items():
        sys.stderr.write(f"{len(found):6,} {reason}\n")
    sys.stderr.write(f"{sum(same.values()):6,} the same, of {len(same):,} models\n")


if __name__ == "__main__":
    main()
