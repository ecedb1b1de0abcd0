"""One price of the catalogue before it is stored. Independent of the catalogue's package and of the database."""

from datetime import date, datetime
from decimal import Decimal
from operator import attrgetter

import msgspec

from runtally.models.price import AMOUNT_COLUMNS, RATE_COLUMNS


class CatalogueEntry(msgspec.Struct, kw_only=True, frozen=True):
    """A future row of the registry, with the names of the columns of `PriceEntry`."""

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
    unit_rates: str | None = None
    variants: str | None = None
    effective_from: datetime | None = None
    effective_to: datetime | None = None
    estimated: bool = False
    catalogue_key: str
    note: str | None = None

    @property
    def project_id(self) -> str | None:
        """None: prices of the catalogue apply to all projects."""
        return None

    @property
    def amounts(self) -> tuple[Decimal | str | None, ...]:
        """The amounts that a run is charged; a change of these makes another price, any other change does not."""
        found: tuple[Decimal | str | None, ...] = _rates_of(self)
        return found

    def only_adds_to(self, other: "CatalogueEntry") -> bool:
        """Return whether it only has rates of further units and variants in addition: other runs are charged the same."""
        return (other.unit_rates, other.variants) == (None, None) and _amounts_of(self) == _amounts_of(other)


_amounts_of, _rates_of = attrgetter(*AMOUNT_COLUMNS), attrgetter(*RATE_COLUMNS)


class ExportedEntry(CatalogueEntry, kw_only=True, frozen=True):
    """An entry as the catalogue's process prints it; the day is not stored."""

    checked_on: date | None = None


class CheckedDay(msgspec.Struct, frozen=True):
    """The day on which the price was last checked, if the catalogue states it."""

    catalogue_key: str
    checked_on: date | None = None


def key_of(provider: str, model: str, start: date | None, above: int) -> str:
    """Return the key of a price in the catalogue: `google/gemini-2.5-pro@2025-06-17>200000`.

    The parts after the model are present only if set.
    """
    return f"{provider}/{model}" + (f"@{start.isoformat()}" if start else "") + (f">{above}" if above else "")
