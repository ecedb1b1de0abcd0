"""Compare the catalogue with the registry, so that an admin can review changes before applying them. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

import msgspec

from runtally.models.price import PriceSource
from runtally.pricing.catalogue_entry import CatalogueEntry
from runtally.pricing.catalogue_queries import KnownEntry
from runtally.pricing.overlap import SlotIndex

COMPARED = tuple(name for name in CatalogueEntry.__struct_fields__ if name not in {"catalogue_key", "provider"})


class Kind(StrEnum):
    """The change of a catalogue entry."""

    NEW = "new"
    CHANGED = "changed"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class Difference:
    """An entry that differs between registry and catalogue; it may be missing in one of them."""

    kind: Kind
    before: CatalogueEntry | None
    after: CatalogueEntry | None
    kept_for: int | None = None
    """The admin's entry that it conflicts with; then it is not taken."""
    checked_on: date | None = None
    """The day on which the catalogue's maintainers last checked the price, if known."""

    @property
    def entry(self) -> CatalogueEntry:
        found = self.after or self.before
        if found is None:
            raise ValueError("a difference has an entry on one side")
        return found

    @property
    def fields(self) -> tuple[tuple[str, object, object], ...]:
        """The name, old and new value of each field that differs."""
        sides = [{name: getattr(side, name, None) for name in COMPARED} for side in (self.before, self.after)]
        return tuple((name, sides[0][name], sides[1][name]) for name in COMPARED if sides[0][name] != sides[1][name])


def differences_of(catalogue: Iterable[CatalogueEntry], known: Sequence[KnownEntry]) -> tuple[Difference, ...]:
    """List the differences in the order of the catalogue, dropped entries last.

    Entries that an admin took over are left out.
    """
    by_key = {row.entry.catalogue_key: row for row in known if row.entry.catalogue_key}
    admins = SlotIndex((row.entry, row.id) for row in known if row.source is PriceSource.ADMIN and not row.is_withdrawn)
    vanished = {key: row for key, row in by_key.items() if row.source is PriceSource.CATALOGUE}
    found = []
    for entry in catalogue:
        vanished.pop(entry.catalogue_key, None)
        row = by_key.get(entry.catalogue_key)
        if row is None:
            found.append(Difference(Kind.NEW, None, entry, next(admins.conflicts_of(entry), None)))
        elif row.source is PriceSource.CATALOGUE:
            # An entry that replaced another one starts later than the catalogue says, which is no difference.
            after = msgspec.structs.replace(entry, effective_from=row.entry.effective_from)
            if after != row.entry:
                kept_for = next(admins.conflicts_of(entry), None)
                found.append(Difference(Kind.CHANGED, row.entry, after, kept_for))
    return (*found, *(Difference(Kind.VANISHED, row.entry, None) for row in vanished.values()))
