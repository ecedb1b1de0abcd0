"""Change the registry by hand: add a price, correct it, add its successor, end it, withdraw it.

An amount is never overwritten, because runs point at the entry that priced them. A correction withdraws the entry and
adds another one for the same time. Every change takes the registry's lock, because names are compared here.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from sqlalchemy import ColumnElement, text
from sqlmodel import col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import Detail, InvalidPrice, NotFound, OverlappingPrice
from runtally.models.price import PriceEntry, PriceSource
from runtally.pricing.catalogue_queries import LOCK_CATALOGUE
from runtally.pricing.draft import FIELDS, Draft
from runtally.pricing.providers import provider_key

# Fields that may change without making another price.
IN_PLACE = frozenset({"aliases", "effective_to", "estimated", "note"})


async def lock(session: AsyncSession) -> None:
    """Lock out other changes of the registry, until the transaction ends: before reading what a change is made of."""
    await (await session.connection()).execute(text(LOCK_CATALOGUE))


async def get(session: AsyncSession, entry_id: int) -> PriceEntry:
    """Return the price entry. Raises `NotFound`."""
    entry = await session.get(PriceEntry, entry_id)
    if entry is None:
        raise NotFound("There is no such price.")
    return entry


async def list_current(session: AsyncSession, project_id: str | None) -> Sequence[PriceEntry]:
    """List the entries of a project, or of all, that price something or will."""
    now_or_later = or_(col(PriceEntry.effective_to).is_(None), col(PriceEntry.effective_to) > func.now())
    query = select(PriceEntry).where(col(PriceEntry.withdrawn_at).is_(None), now_or_later)
    query = query.where(col(PriceEntry.project_id).is_not_distinct_from(project_id))
    return (
        await session.exec(query.order_by(col(PriceEntry.provider), col(PriceEntry.model), col(PriceEntry.id)))
    ).all()


async def list_history(session: AsyncSession, entry: PriceEntry) -> Sequence[PriceEntry]:
    """List the entries for the same names in any tier, the newest start first, withdrawn ones last."""
    slots = {(kind, name) for *_, kind, name in slots_of(entry)}
    rows = await session.exec(
        select(PriceEntry)
        .where(_provider_is(entry.provider))
        .order_by(
            col(PriceEntry.withdrawn_at).desc().nulls_first(),
            col(PriceEntry.effective_from).desc().nulls_last(),
            col(PriceEntry.above_input_tokens),
            col(PriceEntry.id).desc(),
        )
    )
    return [row for row in rows if any((kind, name) in slots for *_, kind, name in slots_of(row))]


async def add(session: AsyncSession, by: Actor, draft: Draft, now: datetime) -> PriceEntry:
    """Add a price. Raises `OverlappingPrice`."""
    await lock(session)
    await _demand_room(session, draft)
    entry = _entry(draft, by, now)
    session.add(entry)
    await session.flush()
    record(session, by, Change("price.added", target_of(entry), entry.project_id, after=_shown(draft)))
    return entry


async def change(session: AsyncSession, by: Actor, entry: PriceEntry, draft: Draft, now: datetime) -> PriceEntry:
    """Correct a price: in place if only names, end or notes differ, else by another entry.

    Raises `InvalidPrice` and `OverlappingPrice`.
    """
    await _lock_current(session, entry)
    before, draft = Draft.of(entry), spelled_as(entry, draft)
    if draft == before:
        return entry
    await _demand_room(session, draft, excluding=entry)
    differing = {name for name in FIELDS if getattr(draft, name) != getattr(before, name)}
    if differing <= IN_PLACE:
        for name, value in draft.values.items():
            setattr(entry, name, value)
        _touch(entry, now)
        after = entry
    else:
        await _withdraw(session, entry, now)
        after = _entry(draft, by, now)
    session.add(after)
    await session.flush()
    record(
        session,
        by,
        Change("price.corrected", target_of(after), after.project_id, _shown(before), _shown(draft)),
    )
    return after


async def follow(session: AsyncSession, by: Actor, entry: PriceEntry, draft: Draft, now: datetime) -> PriceEntry:
    """Add a price that follows `entry` from a time on. Raises `InvalidPrice` and `OverlappingPrice`."""
    await _lock_current(session, entry)
    draft, start = spelled_as(entry, draft), draft.effective_from
    if start is None or (entry.effective_from is not None and start <= entry.effective_from):
        why = "Say from when on: a time after the start of the price that it follows."
        raise InvalidPrice.at("effective_from", why)
    if entry.effective_to is not None and start > entry.effective_to:
        why = "The price that it follows ends before that; add a price instead, or choose the day it ends."
        raise InvalidPrice.at("effective_from", why)
    before = Draft.of(entry)
    entry.effective_to = start
    _touch(entry, now)
    session.add(entry)
    await session.flush()
    await _demand_room(session, draft)
    successor = _entry(draft, by, now)
    session.add(successor)
    await session.flush()
    record(session, by, Change("price.changed", target_of(entry), entry.project_id, _shown(before), _shown(draft)))
    return successor


async def end(session: AsyncSession, by: Actor, entry: PriceEntry, at: datetime, now: datetime) -> None:
    """End the price at this time, exclusive. Raises `InvalidPrice`."""
    await _lock_current(session, entry)
    if entry.effective_from is not None and at <= entry.effective_from:
        raise InvalidPrice.at("effective_to", "The end must come after the start; withdraw the price if it never held.")
    before = {"effective_to": entry.effective_to}
    await _demand_room(session, replace(Draft.of(entry), effective_to=at), excluding=entry)
    entry.effective_to = at
    _touch(entry, now)
    session.add(entry)
    record(session, by, Change("price.ended", target_of(entry), entry.project_id, before, {"effective_to": at}))


async def withdraw(session: AsyncSession, by: Actor, entry: PriceEntry, now: datetime) -> None:
    """Withdraw the price, so that it prices nothing; runs that it priced keep their cost until they are repriced."""
    await _lock_current(session, entry)
    await _withdraw(session, entry, now)
    record(session, by, Change("price.withdrawn", target_of(entry), entry.project_id, before=_shown(Draft.of(entry))))


async def find_conflict(
    session: AsyncSession, draft: Draft, *, excluding: PriceEntry | None = None
) -> PriceEntry | None:
    """Find an entry for one of the same names at one of the same times, except the one that the draft replaces."""
    query = select(PriceEntry).where(
        _provider_is(draft.provider),
        col(PriceEntry.withdrawn_at).is_(None),
        PriceEntry.above_input_tokens == draft.above_input_tokens,
    )
    rows = [row for row in await session.exec(query) if excluding is None or row.id != excluding.id]
    return next(SlotIndex((row, row) for row in rows).conflicts_of(draft), None)


def target_of(entry: PriceEntry) -> str:
    return f"{entry.provider} {entry.model}"


def _provider_is(provider: str) -> ColumnElement[bool]:
    """Match the provider under any spelling, as runs do."""
    return func.regexp_replace(func.lower(PriceEntry.provider), r"[\s_./]+", "-", "g") == provider_key(provider)


def spelled_as(entry: PriceEntry, draft: Draft) -> Draft:
    """Keep the provider's spelling: another spelling of the same provider is no correction."""
    return replace(draft, provider=entry.provider) if provider_key(entry.provider) == draft.provider else draft


async def _demand_room(session: AsyncSession, draft: Draft, *, excluding: PriceEntry | None = None) -> None:
    other = await find_conflict(session, draft, excluding=excluding)
    if other is None:
        return
    since = f" from {other.effective_from:%Y-%m-%d %H:%M} UTC on" if other.effective_from else ""
    until = f" until {other.effective_to:%Y-%m-%d %H:%M} UTC" if other.effective_to else ""
    why = (
        f"Entry {other.id}, {target_of(other)}, is in force{f'{since}{until}' or ' at all times'} for one of these names. "
        "End it first, or choose times that it leaves free."
    )
    raise OverlappingPrice(why, entry_id=other.id or 0, details=(Detail("effective_from", why),))


async def _lock_current(session: AsyncSession, entry: PriceEntry) -> None:
    """Lock the registry, and read the entry again: others may have changed it since. Raises `InvalidPrice` and `NotFound`."""
    await lock(session)
    if await session.get(PriceEntry, entry.id, populate_existing=True) is None:
        raise NotFound("There is no such price.")
    if entry.withdrawn_at is not None:
        raise InvalidPrice("This price was withdrawn; add another one.")


async def _withdraw(session: AsyncSession, entry: PriceEntry, now: datetime) -> None:
    entry.withdrawn_at = now
    _touch(entry, now)
    session.add(entry)
    # Flush first: the entry that takes its place would conflict with it.
    await session.flush()


def _touch(entry: PriceEntry, now: datetime) -> None:
    """Mark the entry as an admin's, so that syncs leave it alone."""
    entry.source = PriceSource.ADMIN
    entry.updated_at = now


def _entry(draft: Draft, by: Actor, now: datetime) -> PriceEntry:
    return PriceEntry(
        **draft.values, source=PriceSource.ADMIN, author=by.label or by.name, created_at=now, updated_at=now
    )


def _shown(draft: Draft) -> dict[str, object]:
    """Return the fields that are filled in, for the audit log."""
    return {name: value for name, value in draft.values.items() if value is not None and value not in ([], False)}


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
    """Entries by slot, each with a label.

    An exact name and a pattern that matches it do not conflict: the exact one wins. Nor do a project's price and one for
    all projects.
    """

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
