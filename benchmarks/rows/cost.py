"""Row 14: the price and the cost of a run, without server and database."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from benchmarks.options import Options
from benchmarks.result import Figures, Row
from benchmarks.store import Postgres
from runtally.models.price import Match
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price, Rates, resolve_cost
from runtally.pricing.match import PriceCandidate
from runtally.units import INPUT, Usage

ENTRIES, FEW_ENTRIES = 5_000, 50
GOAL_US = 5.0
RUNS = 100_000
# A model has as many periods.
PERIODS = 5
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def costs(_postgres: Postgres, options: Options) -> list[Row]:
    """Row 14: microseconds a run, among many prices and among few."""
    many, few = _book(ENTRIES), _book(FEW_ENTRIES)
    _check(many)
    rounds: tuple[list[float], list[float]] = ([], [])
    for number in range(options.rounds + 1):
        for (book, entries), found in zip(((many, ENTRIES), (few, FEW_ENTRIES)), rounds, strict=True):
            took = _microseconds(book, _models(entries))
            if number:
                found.append(took)
    with_many, with_few = map(Figures.of, rounds)
    return [
        Row(
            number=14,
            measure=f"price and cost of a run, {ENTRIES:,} entries",
            service=f"{with_many:,.2f} µs",
            yardstick=f"{FEW_ENTRIES} entries {with_few:,.2f} µs",
            result=f"{with_many.over(with_few):.2f} x",
            goal=f"< {GOAL_US:.0f} µs",
            reached=with_many.median < GOAL_US,
            figures={"microseconds": with_many, "microseconds_among_few": with_few},
        )
    ]


def _models(entries: int) -> list[str]:
    return [f"model-{number}" for number in range(entries // PERIODS)]


def _book(entries: int) -> PriceBook:
    """Models with a price for each of several periods; a tenth are found by a pattern."""
    candidates = []
    for place, model in enumerate(_models(entries)):
        is_pattern = place % 10 == 0
        for period in range(PERIODS):
            price = Price(
                id=place * PERIODS + period,
                provider=f"provider-{place % 10}",
                model=model,
                above_input_tokens=0,
                rates=Rates.of(input=1_000_000 + period, output=5_000_000, cache_read=100_000),
                estimated=False,
                effective_from=BEGIN + timedelta(days=period),
                effective_to=BEGIN + timedelta(days=period + 1),
            )
            match, pattern = (Match.REGEX, rf"{model}(?:-\d+)?") if is_pattern else (Match.EXACT, None)
            candidates.append(PriceCandidate(price, match=match, pattern=pattern))
    return PriceBook(candidates)


def _check(book: PriceBook) -> None:
    """Check that the price that is timed is the right one: that of its day."""
    for period in range(PERIODS):
        price = book.price_for("provider-7", "model-7", BEGIN + timedelta(days=period, hours=1), 1000)
        if price is None or price.rates[INPUT] != 1_000_000 + period:
            raise RuntimeError("The book found another price than that of the day")


def _microseconds(book: PriceBook, models: Sequence[str]) -> float:
    """Return the microseconds per run, over many runs of these models in turn."""
    at = [BEGIN + timedelta(days=period, hours=1) for period in range(PERIODS)]
    calls = [(f"provider-{place % 10}", model) for place, model in enumerate(models)]
    usage = Usage(12_000, 350, cached_input_tokens=8_000)
    began = time.perf_counter()
    for number in range(RUNS):
        provider, model = calls[number % len(calls)]
        price = book.price_for(provider, model, at[number % PERIODS], 12_000)
        resolve_cost(usage, price, direct=False, reported=None, upstream_reported=None)
    return (time.perf_counter() - began) / RUNS * 1_000_000
