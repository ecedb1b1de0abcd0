"""Whether two prices are for the same name at the same time. Pure.

An exact name and a pattern over it are not in each other's way: the exact one wins. Nor are a project's price and
everybody's.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from runtally.pricing.providers import provider_key

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)

Slot = tuple[str | None, str, int, str, str]
"""What there is one price for at a time: project, provider, tier, kind of match and name or pattern."""


class Period(Protocol):
    """From a time on, until before another; None is without end."""

    @property
    def effective_from(self) -> datetime | None: ...
    @property
    def effective_to(self) -> datetime | None: ...


class Named(Period, Protocol):
    """An entry of the registry, or what is to become one."""

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


def meet(one: Period, other: Period) -> bool:
    """Whether there is a time at which both are in force."""
    starts = max(one.effective_from or _FIRST, other.effective_from or _FIRST)
    return starts < min(one.effective_to or _LAST, other.effective_to or _LAST)


class Taken(Generic[T]):
    """Entries by what they are for, each with how it is to be called."""

    def __init__(self, entries: Iterable[tuple[Named, T]] = ()) -> None:
        self._by_slot: dict[Slot, list[tuple[Named, T]]] = {}
        for entry, name in entries:
            self.put(entry, name)

    def put(self, entry: Named, name: T) -> None:
        for slot in slots_of(entry):
            self._by_slot.setdefault(slot, []).append((entry, name))

    def in_the_way_of(self, entry: Named) -> Iterator[T]:
        """Those with a slot in common at a common time; one with several such slots comes several times."""
        for slot in sorted(slots_of(entry), key=str):
            yield from (name for other, name in self._by_slot.get(slot, ()) if meet(other, entry))
