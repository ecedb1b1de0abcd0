"""One price of the catalogue on its way into the registry. Knows neither the package it comes from nor the database."""

from datetime import date, datetime
from decimal import Decimal
from operator import attrgetter

import msgspec

from runtally.models.price import AMOUNT_COLUMNS


class CatalogueEntry(msgspec.Struct, kw_only=True, frozen=True):
    """A row to be; named like the columns of `PriceEntry`."""

    provider: str
    model: str
    aliases: tuple[str, ...] = ()
    match: str
    pattern: str | None = None
    above_input_tokens: int = 0
    input_per_million: Decimal | None = None
    output_per_million: Decimal | None = None
    cache_read_per_million: Decimal | None = None
    cache_write_per_million: Decimal | None = None
    reasoning_per_million: Decimal | None = None
    audio_input_per_million: Decimal | None = None
    audio_output_per_million: Decimal | None = None
    per_thousand_requests: Decimal | None = None
    effective_from: datetime | None = None
    effective_to: datetime | None = None
    estimated: bool = False
    catalogue_key: str
    note: str | None = None

    @property
    def project_id(self) -> str | None:
        """The catalogue's prices are for everybody."""
        return None

    @property
    def amounts(self) -> tuple[Decimal | None, ...]:
        """What a run is charged; a change of these is another price, any other change is not."""
        found: tuple[Decimal | None, ...] = _amounts_of(self)
        return found


_amounts_of = attrgetter(*AMOUNT_COLUMNS)


class ExportedEntry(CatalogueEntry, kw_only=True, frozen=True):
    """As the catalogue's process prints it; the day is no part of the row to be."""

    checked_on: date | None = None


class CheckedDay(msgspec.Struct, frozen=True):
    """When somebody looked whether the price is right, where the catalogue says so."""

    catalogue_key: str
    checked_on: date | None = None


def key_of(provider: str, model: str, start: date | None, above: int) -> str:
    """The place in the catalogue: `google/gemini-2.5-pro@2025-06-17>200000`, the parts after the model only if set."""
    return f"{provider}/{model}" + (f"@{start.isoformat()}" if start else "") + (f">{above}" if above else "")
