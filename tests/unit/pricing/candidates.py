"""Candidates for tests: prices with names, and nothing else worth saying."""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from runtally.models.price import Match, PriceSource
from runtally.pricing.cost import Price, Rates
from runtally.pricing.draft import CatalogueEntry
from runtally.pricing.match import PriceCandidate, price_of

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def make_candidate(  # noqa: PLR0913  # A test names only what it is about.
    provider: str,
    model: str,
    *,
    number: int = 1,
    aliases: Iterable[str] = (),
    match: Match = Match.EXACT,
    pattern: str | None = None,
    source: PriceSource = PriceSource.CATALOGUE,
    **price: Any,  # noqa: ANN401  # Any field of a price.
) -> PriceCandidate:
    fields: dict[str, Any] = {
        "above_input_tokens": 0,
        "rates": Rates.of(input=1_000_000, output=2_000_000),
        "estimated": False,
    }
    return PriceCandidate(
        Price(id=number, provider=provider, model=model, **(fields | price)), tuple(aliases), match, pattern, source
    )


def candidates_of(catalogue: Iterable[CatalogueEntry]) -> list[PriceCandidate]:
    """The catalogue's entries as the registry would hand them out."""
    return [
        make_candidate(
            entry.provider,
            entry.model,
            number=number,
            aliases=entry.aliases,
            match=Match(entry.match),
            pattern=entry.pattern,
            above_input_tokens=entry.above_input_tokens,
            rates=priced.rates,
            variants=priced.variants,
            estimated=entry.estimated,
            effective_from=entry.effective_from,
            effective_to=entry.effective_to,
            request_pico=priced.request_pico,
        )
        for number, entry in enumerate(catalogue, start=1)
        for priced in [_priced(entry)]
    ]


def _priced(entry: CatalogueEntry) -> Price:
    fields: dict[str, Any] = {"id": 0, "provider": "", "model": "", "above_input_tokens": 0, "estimated": False}
    return price_of(partial(getattr, entry), **fields)
