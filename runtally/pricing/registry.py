"""The registry as people look through it, and the models that are used without a price."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement
from sqlmodel import col, func, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.db.database import Connection
from runtally.models.price import PriceEntry, ProjectDiscount
from runtally.pricing import queries
from runtally.pricing.book import PriceBook
from runtally.pricing.queries import UsedModel

# Whoever has not used a model for so long needs no price for it.
USED_WITHIN = timedelta(days=90)
MAX_WORDS = 8
MAX_USED = 50


@dataclass(frozen=True, slots=True)
class Found:
    """The first entries that a search finds, and how many there are in all."""

    entries: Sequence[PriceEntry]
    number: int


async def search(session: AsyncSession, sought: str, now: datetime, *, past: bool, limit: int) -> Found:
    """Entries with each of the words in a name, a project's own first; with `past` also those that hold no more."""
    conditions = [_has(word) for word in sought.lower().replace("\0", "").split()[:MAX_WORDS]]
    if not past:
        conditions.append(col(PriceEntry.withdrawn_at).is_(None))
        conditions.append(or_(col(PriceEntry.effective_to).is_(None), col(PriceEntry.effective_to) > now))
    query = (
        select(PriceEntry)
        .where(*conditions)
        .order_by(
            col(PriceEntry.project_id).is_(None),
            col(PriceEntry.provider),
            col(PriceEntry.model),
            col(PriceEntry.above_input_tokens),
            col(PriceEntry.effective_from).desc().nulls_last(),
            col(PriceEntry.id),
        )
        .limit(limit)
    )
    number = (await session.exec(select(func.count()).select_from(PriceEntry).where(*conditions))).one()
    return Found((await session.exec(query)).all(), number)


async def all_discounts(session: AsyncSession) -> Sequence[ProjectDiscount]:
    """By project, the latest start first."""
    start = col(ProjectDiscount.effective_from).desc().nulls_last()
    return (await session.exec(select(ProjectDiscount).order_by(col(ProjectDiscount.project_id), start))).all()


async def without_price(
    connection: Connection, book: PriceBook, direct_providers: Iterable[str], now: datetime
) -> tuple[UsedModel, ...]:
    """Models in use that have no price now, those with the most runs first.

    What a direct provider reports needs no price, as long as it is reported.
    """
    direct = {name.casefold() for name in direct_providers}
    used = await queries.select_used_models(connection, now - USED_WITHIN)
    return tuple(
        one
        for one in used
        if book.price_for(one.provider, one.model, now, 0) is None
        and (one.unpriced or one.provider.casefold() not in direct)
    )


async def priced_by(connection: Connection, book: PriceBook, entry: PriceEntry, now: datetime) -> tuple[UsedModel, ...]:
    """Models in use whose runs the entry prices now, if they are long enough for its tier; the most used first."""
    found = []
    for one in await queries.select_used_models(connection, now - USED_WITHIN):
        price = book.price_for(one.provider, one.model, now, entry.above_input_tokens + 1, entry.project_id)
        if price is not None and price.id == entry.id:
            found.append(one)
    return tuple(found[:MAX_USED])


def _has(word: str) -> ColumnElement[bool]:
    text = (
        func.lower(PriceEntry.provider)
        + " "
        + func.lower(PriceEntry.model)
        + " "
        + func.lower(func.array_to_string(PriceEntry.aliases, " "))
        + " "
        + func.lower(func.coalesce(PriceEntry.project_id, ""))
    )
    return func.strpos(text, word) > 0
