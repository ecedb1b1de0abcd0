"""Preview the effect of a price while it is entered: the last 30 days' tokens at the current and at the new price."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from msgspec import Struct

from api.current import services
from runtally.errors import InvalidPrice
from runtally.pricing import amounts
from runtally.pricing.book import PriceBook
from runtally.pricing.cost import Price, total_usd
from runtally.pricing.covered import Covered
from runtally.pricing.draft import Draft, read_draft
from runtally.runs.model_usage import ModelUsage, read_usage_by_day
from runtally.runs.what_if import Target, cost_at, suppose
from runtally.units import Usage
from webapp import changes, formats
from webapp.report import Column, Head, Table, table_of

SINCE = timedelta(days=30)
SHOWN = 10
EXAMPLE = Usage(input_tokens=10_000, output_tokens=1_000)


class Effect(Struct, frozen=True):
    """The effect on all models together, and on the most expensive ones."""

    now: str
    then: str
    change: str
    example: str
    table: Table
    more: int


async def effect_of(sent: Mapping[str, str], covered: Covered, now: datetime) -> Effect | None:
    """Return the effect of a price that is filled in; None while it is not, or cannot be read."""
    try:
        draft = read_draft(sent)
    except InvalidPrice:
        return None
    # What was just saved is the price now.
    await services().prices.refresh()
    async with services().cells.snapshots(draft.project_id) as snapshots:
        used = await read_usage_by_day(snapshots, draft.project_id, now - SINCE, now)
    names = {(one.provider, one.model) for one in covered.models}
    return _effect(draft, [one for one in used.models if (one.provider, one.model) in names], now)


def _effect(draft: Draft, used: Sequence[ModelUsage], now: datetime) -> Effect:
    price, book = price_of(draft), services().prices.book
    pairs = [(one, _now(book, one, draft.project_id, now), cost_at(one, price)) for one in used]
    pairs.sort(key=lambda pair: -max(pair[1] or Decimal(0), pair[2]))
    known = [before for _, before, _ in pairs if before is not None]
    was, then = sum(known, Decimal(0)), sum((after for _, _, after in pairs), Decimal(0))
    change = changes.change(then, was) if len(known) == len(pairs) else None
    money_now, money_then = formats.column_money(known), formats.column_money(after for _, _, after in pairs)
    columns: tuple[Column[tuple[ModelUsage, Decimal | None, Decimal]], ...] = (
        Column("Runs", lambda row: formats.count(row[0].runs), "number"),
        Column("Price now", lambda row: "no price" if row[1] is None else money_now(row[1]), "number"),
        Column("New price", lambda row: money_then(row[2]), "number"),
    )
    return Effect(
        now=formats.money(was) if known else "no price",
        then=formats.money(then),
        change=f"{change.arrow}{change.text}" if change and change.arrow else "",
        example=formats.money_exact(total_usd(EXAMPLE, price)),
        table=table_of("Model", lambda row: Head(name=row[0].model), columns, pairs[:SHOWN]),
        more=max(len(pairs) - SHOWN, 0),
    )


def _now(book: PriceBook, used: ModelUsage, project_id: str | None, now: datetime) -> Decimal | None:
    [supposed] = suppose([used], book, Target(now), project_id)
    return supposed.would_cost_usd


def price_of(draft: Draft) -> Price:
    """Return the price with the amounts of a draft, whatever the length of a context."""
    return amounts.price_of(
        partial(getattr, draft),
        id=0,
        provider=draft.provider,
        model=draft.model,
        above_input_tokens=0,
        estimated=draft.estimated,
    )
