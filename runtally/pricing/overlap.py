"""Decide whether two prices are for the same name at the same time. Pure.

An exact name and a pattern that matches it do not conflict: the exact one wins. Nor do a project's price and one for
all projects.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from runtally.pricing.providers import provider_key

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)

Slot = tuple[str | None, str, int, str, str]
"""The key of a price, of which one may be in force at a time: project, provider, tier, kind of match, name or
pattern.
"""


class Period(Protocol):
    """A time from a start until an exclusive end; None is without limit."""

    @property
    def effective_from(self) -> datetime | None: ...
    @property
    def effective_to(self) -> datetime | None: ...


class Named(Period, Protocol):
    """An entry of the registry, or a future one."""

    @property
    def project_id(self) -> str | None: ...
    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def aliases(self) -> Sequence[str]: ...
    @property
    def match(self) -> str: ...
    @property
    def pattern(self) -> str | None: ...
    @property
    def above_input_tokens(self) -> int: ...


T = TypeVar("T")


def slots_of(entry: Named) -> frozenset[Slot]:
    where = entry.project_id, provider_key(entry.provider), entry.above_input_tokens
    names = entry.aliases if entry.pattern is not None else (entry.model, *entry.aliases)
    exact = {(*where, "exact", name.strip().lower()) for name in names}
    return frozenset(exact if entry.pattern is None else exact | {(*where, str(entry.match), entry.pattern)})


def overlap(one: Period, other: Period) -> bool:
    """Return whether there is a time at which both are in force."""
    starts = max(one.effective_from or _FIRST, other.effective_from or _FIRST)
    return starts < min(one.effective_to or _LAST, other.effective_to or _LAST)


class SlotIndex(Generic[T]):
    """Entries by slot, each with a label."""

    def __init__(self, entries: Iterable[tuple[Named, T]] = ()) -> None:
        self._by_slot: dict[Slot, list[tuple[Named, T]]] = {}
        for entry, name in entries:
            self.put(entry, name)

    def put(self, entry: Named, name: T) -> None:
        for slot in slots_of(entry):
            self._by_slot.setdefault(slot, []).append((entry, name))

    def conflicts_of(self, entry: Named) -> Iterator[T]:
        """Yield the labels of entries that share a slot and a time with this one.

        An entry that shares several slots comes several times.
        """
        for slot in sorted(slots_of(entry), key=str):
            yield from (name for other, name in self._by_slot.get(slot, ()) if overlap(other, entry))
