"""What the catalogue says that the registry does not, to be looked at before it is taken. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

import msgspec

from runtally.models.price import PriceSource
from runtally.pricing.catalogue_entry import CatalogueEntry
from runtally.pricing.catalogue_queries import KnownEntry
from runtally.pricing.overlap import Taken

COMPARED = tuple(name for name in CatalogueEntry.__struct_fields__ if name not in {"catalogue_key", "provider"})


class Kind(StrEnum):
    """What became of an entry of the catalogue."""

    NEW = "new"
    CHANGED = "changed"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class Difference:
    """An entry as the registry has it and as the catalogue has it, of which one may be missing."""

    kind: Kind
    before: CatalogueEntry | None
    after: CatalogueEntry | None
    kept_for: int | None = None
    """The admin's entry that it would be in the way of; then it is not taken."""
    checked_on: date | None = None
    """When the catalogue's keepers last checked it, where they say so."""

    @property
    def entry(self) -> CatalogueEntry:
        found = self.after or self.before
        if found is None:
            raise ValueError("a difference has an entry on one side")
        return found

    @property
    def fields(self) -> tuple[tuple[str, object, object], ...]:
        """Name, before and after of what differs."""
        sides = [{name: getattr(side, name, None) for name in COMPARED} for side in (self.before, self.after)]
        return tuple((name, sides[0][name], sides[1][name]) for name in COMPARED if sides[0][name] != sides[1][name])


def differences_of(catalogue: Iterable[CatalogueEntry], known: Sequence[KnownEntry]) -> tuple[Difference, ...]:
    """In the order of the catalogue, what it dropped last; what an admin has taken over is left out."""
    by_key = {row.entry.catalogue_key: row for row in known if row.entry.catalogue_key}
    admins = Taken((row.entry, row.id) for row in known if row.source is PriceSource.ADMIN and not row.is_withdrawn)
    vanished = {key: row for key, row in by_key.items() if row.source is PriceSource.CATALOGUE}
    found = []
    for entry in catalogue:
        vanished.pop(entry.catalogue_key, None)
        row = by_key.get(entry.catalogue_key)
        if row is None:
            found.append(Difference(Kind.NEW, None, entry, next(admins.in_the_way_of(entry), None)))
        elif row.source is PriceSource.CATALOGUE:
            # An entry that replaced another one starts later than the catalogue says, and that is no difference.
            after = msgspec.structs.replace(entry, effective_from=row.entry.effective_from)
            if after != row.entry:
                kept_for = next(admins.in_the_way_of(entry), None)
                found.append(Difference(Kind.CHANGED, row.entry, after, kept_for))
    return (*found, *(Difference(Kind.VANISHED, row.entry, None) for row in vanished.values()))
