"""Changes of the registry by people: add a price, correct it, let another one follow, end it, withdraw it.

An amount is never overwritten: runs point at the entry that priced them. A correction withdraws the entry and makes
another for the same time. Whoever changes the registry holds its lock, because names are compared here.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import ColumnElement, text
from sqlmodel import col, func, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.audit import Actor, Change, record
from runtally.errors import Detail, InvalidPrice, NotFound, OverlappingPrice
from runtally.models.price import PriceEntry, PriceSource
from runtally.pricing.catalogue_queries import LOCK_CATALOGUE
from runtally.pricing.draft import FIELDS, Draft
from runtally.pricing.overlap import Taken, slots_of
from runtally.pricing.providers import provider_key

# What may change without making another price of it.
IN_PLACE = frozenset({"aliases", "effective_to", "estimated", "note"})


async def lock(session: AsyncSession) -> None:
    """Wait for whoever else changes the registry; holds until the transaction ends."""
    await (await session.connection()).execute(text(LOCK_CATALOGUE))


async def get(session: AsyncSession, entry_id: int) -> PriceEntry:
    """Raises `NotFound`."""
    entry = await session.get(PriceEntry, entry_id)
    if entry is None:
        raise NotFound("There is no such price.")
    return entry


async def history(session: AsyncSession, entry: PriceEntry) -> Sequence[PriceEntry]:
    """The entries for the same names in any tier, the newest start first, withdrawn ones last."""
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
    """A new price. Raises `OverlappingPrice`."""
    await lock(session)
    await _demand_room(session, draft)
    entry = _entry(draft, by, now)
    session.add(entry)
    await session.flush()
    record(session, by, Change("price.added", target_of(entry), entry.project_id, after=_shown(draft)))
    return entry


async def change(session: AsyncSession, by: Actor, entry: PriceEntry, draft: Draft, now: datetime) -> PriceEntry:
    """The corrected price: the same entry if names, end or notes are all that differs, else one in its place.

    Raises `InvalidPrice`, and `OverlappingPrice`.
    """
    await lock(session)
    _demand_current(entry)
    before, draft = Draft.of(entry), _spelled_as(entry, draft)
    if draft == before:
        return entry
    await _demand_room(session, draft, beside=entry)
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
    """A new price from a time on, until when `entry` holds. Raises `InvalidPrice`, and `OverlappingPrice`."""
    await lock(session)
    _demand_current(entry)
    draft, start = _spelled_as(entry, draft), draft.effective_from
    if start is None or (entry.effective_from is not None and start <= entry.effective_from):
        why = "Say from when on: a time after the start of the price that it follows."
        raise InvalidPrice(why, details=(Detail("effective_from", why),))
    if entry.effective_to is not None and start > entry.effective_to:
        why = "The price that it follows ends before that; add a price instead, or choose the day it ends."
        raise InvalidPrice(why, details=(Detail("effective_from", why),))
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
    """In force until then, exclusive. Raises `InvalidPrice`."""
    await lock(session)
    _demand_current(entry)
    if entry.effective_from is not None and at <= entry.effective_from:
        why = "The end must come after the start; withdraw the price if it never held."
        raise InvalidPrice(why, details=(Detail("effective_to", why),))
    before = {"effective_to": entry.effective_to}
    await _demand_room(session, replace(Draft.of(entry), effective_to=at), beside=entry)
    entry.effective_to = at
    _touch(entry, now)
    session.add(entry)
    record(session, by, Change("price.ended", target_of(entry), entry.project_id, before, {"effective_to": at}))


async def withdraw(session: AsyncSession, by: Actor, entry: PriceEntry, now: datetime) -> None:
    """It prices nothing any more, at whatever time; runs that it priced keep their cost until they are repriced."""
    await lock(session)
    _demand_current(entry)
    await _withdraw(session, entry, now)
    record(session, by, Change("price.withdrawn", target_of(entry), entry.project_id, before=_shown(Draft.of(entry))))


async def find_in_the_way(
    session: AsyncSession, draft: Draft, *, beside: PriceEntry | None = None
) -> PriceEntry | None:
    """An entry for one of the same names at one of the same times; not the one that it takes the place of."""
    query = select(PriceEntry).where(
        _provider_is(draft.provider),
        col(PriceEntry.withdrawn_at).is_(None),
        PriceEntry.above_input_tokens == draft.above_input_tokens,
    )
    rows = [row for row in await session.exec(query) if beside is None or row.id != beside.id]
    return next(Taken((row, row) for row in rows).in_the_way_of(draft), None)


def target_of(entry: PriceEntry) -> str:
    return f"{entry.provider} {entry.model}"


def _provider_is(provider: str) -> ColumnElement[bool]:
    """Under any spelling, as runs find them."""
    return func.regexp_replace(func.lower(PriceEntry.provider), r"[\s_./]+", "-", "g") == provider_key(provider)


def _spelled_as(entry: PriceEntry, draft: Draft) -> Draft:
    """Another spelling of the provider is no correction."""
    return replace(draft, provider=entry.provider) if provider_key(entry.provider) == draft.provider else draft


async def _demand_room(session: AsyncSession, draft: Draft, *, beside: PriceEntry | None = None) -> None:
    other = await find_in_the_way(session, draft, beside=beside)
    if other is None:
        return
    since = f" from {other.effective_from:%Y-%m-%d %H:%M} UTC on" if other.effective_from else ""
    until = f" until {other.effective_to:%Y-%m-%d %H:%M} UTC" if other.effective_to else ""
    why = (
        f"Entry {other.id}, {target_of(other)}, is in force{f'{since}{until}' or ' at all times'} for one of these names. "
        "End it first, or choose times that it leaves free."
    )
    raise OverlappingPrice(why, entry_id=other.id or 0, details=(Detail("effective_from", why),))


def _demand_current(entry: PriceEntry) -> None:
    if entry.withdrawn_at is not None:
        raise InvalidPrice("This price was withdrawn; add another one.")


async def _withdraw(session: AsyncSession, entry: PriceEntry, now: datetime) -> None:
    entry.withdrawn_at = now
    _touch(entry, now)
    session.add(entry)
    # What takes its place is refused while it is there.
    await session.flush()


def _touch(entry: PriceEntry, now: datetime) -> None:
    """From now on it is an admin's, and a sync leaves it alone."""
    entry.source = PriceSource.ADMIN
    entry.updated_at = now


def _entry(draft: Draft, by: Actor, now: datetime) -> PriceEntry:
    return PriceEntry(
        **draft.values, source=PriceSource.ADMIN, author=by.label or by.name, created_at=now, updated_at=now
    )


def _shown(draft: Draft) -> dict[str, object]:
    """For the audit log: what is filled in."""
    return {name: value for name, value in draft.values.items() if value is not None and value not in ([], False)}
