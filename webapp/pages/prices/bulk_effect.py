"""What a change of several prices does in money: the last 30 days' tokens at the old and at the new prices."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from msgspec import Struct

from api.current import services
from runtally.pricing.bulk import Planned
from runtally.pricing.draft import Draft
from runtally.runs.model_usage import ModelUsage, read_usage_by_day
from runtally.runs.what_if import cost_at
from webapp.pages.prices.effect import SINCE, price_of


class Money(Struct, frozen=True):
    """The cost of the runs that a price applies to."""

    now_usd: Decimal
    then_usd: Decimal


async def effects_of(planned: Sequence[Planned], now: datetime) -> Mapping[int, Money]:
    """Return the effect on each price, by its id.

    Prices for long contexts have none: sums of tokens do not tell how long a context was.
    """
    await services().prices.refresh()
    drafts = {one.entry.id: (Draft.of(one.entry), one.draft) for one in planned if not one.entry.above_input_tokens}
    found = {id_: [Decimal(0), Decimal(0)] for id_ in drafts}
    for id_, sign, used in await _uses(now):
        if id_ in drafts:
            for place, draft in enumerate(drafts[id_]):
                found[id_][place] += sign * cost_at(used, price_of(draft))
    return {id_: Money(*amounts) for id_, amounts in found.items() if id_ is not None}


async def _uses(now: datetime) -> list[tuple[int, int, ModelUsage]]:
    """Return the usage that each price applies to now. Usage of projects with a price of their own is left out of the list price's."""
    book, found = services().prices.book, []

    def add(used: Sequence[ModelUsage], project_id: str | None, sign: int) -> None:
        for one in used:
            price = book.price_for(one.provider, one.model, now, 0, project_id)
            if price is not None:
                found.append((price.id, sign, one))

    async with services().cells.snapshots(None) as snapshots:
        for project_id in (None, *sorted(book.with_prices)):
            usage = await read_usage_by_day(snapshots, project_id, now - SINCE, now)
            add(usage.models, project_id, 1)
            if project_id is not None:
                add(usage.models, None, -1)
    return found
