"""One price of the catalogue before it is stored. Independent of the catalogue's package and of the database."""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from operator import attrgetter

import msgspec

from runtally.models.price import AMOUNT_COLUMNS, RATE_COLUMNS
from runtally.pricing.draft import Draft


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry(Draft):
    """A price of the catalogue, which applies to all projects, before it is stored."""

    catalogue_key: str

    @property
    def amounts(self) -> tuple[Decimal | str | None, ...]:
        """The amounts that a run is charged; a change of these makes another price, any other change does not."""
        found: tuple[Decimal | str | None, ...] = _rates_of(self)
        return found

    def only_adds_to(self, other: "CatalogueEntry") -> bool:
        """Return whether it only has rates of further units and variants in addition: other runs are charged the same."""
        return (other.unit_rates, other.variants) == (None, None) and _amounts_of(self) == _amounts_of(other)


_amounts_of, _rates_of = attrgetter(*AMOUNT_COLUMNS), attrgetter(*RATE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedEntry(CatalogueEntry):
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
