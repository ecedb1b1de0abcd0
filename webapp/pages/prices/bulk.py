"""Change several prices at once: select them, see the new amounts and their effect in money, and schedule the change."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, request
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.errors import InvalidPrice
from runtally.fields import MAX_ROW, parse_whole
from runtally.pricing import bulk as changes_of_prices
from runtally.pricing import entries, registry
from runtally.pricing.bulk import ALL_AMOUNTS, How, Planned
from runtally.pricing.draft import Draft
from runtally.runs.what_if import ModelUsage, cost_at, read_usage
from runtally.usage.window import Range
from webapp import formats
from webapp.addresses import address_of, path_to
from webapp.form import Form, sent_form
from webapp.pages.prices.forms import price_of
from webapp.pages.prices.frame import (
    AMOUNT_NAMES,
    LISTED_NAMES,
    PriceRow,
    PricesFrame,
    amount,
    prices_frame,
    rows_of,
)
from webapp.rendering import Page, render, see_other
from webapp.report import Cell, Column, Head, Table, table_of
from webapp.security import admin
from webapp.zone import last_30_days

PATH = "/admin/prices/bulk"
HOWS = ((How.PERCENT, "By percent"), (How.SET, "To an amount"))
COMPONENTS = ((ALL_AMOUNTS, "All amounts"), *AMOUNT_NAMES.items())

blueprint = Blueprint("price_bulk", __name__)


class Money(Struct, frozen=True):
    """The cost of the runs that a price applies to."""

    now_usd: Decimal
    then_usd: Decimal


async def effects_of(planned: Sequence[Planned], now: datetime) -> Mapping[int, Money]:
    """Return the effect on each price, by its id.

    Prices for long contexts have none: sums of tokens do not tell how long a context was.
    """
    await services().prices.refresh()
    drafts = {
        change.entry.id: (Draft.of(change.entry), change.draft)
        for change in planned
        if not change.entry.above_input_tokens
    }
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
            usage = await read_usage(snapshots, project_id, last_30_days(now).since, now)
            add(usage, project_id, 1)
            if project_id is not None:
                add(usage, None, -1)
    return found


class Amounts(Struct, frozen=True):
    """The amounts of a price that change, by name, before and after; or why there are none."""

    changes: tuple[tuple[str, str, str], ...]
    problem: str


class Preview(Struct, frozen=True):
    """What a change does to the selected prices."""

    table: Table
    now: str
    then: str
    change: str
    number: int
    """The prices that change."""
    has_problems: bool


class BulkPage(Page, frozen=True):
    """The form with the prices to select, and the preview once it was asked for."""

    fragment: ClassVar[str] = "prices/_bulk.html"
    tab_title: ClassVar[str] = "Change several prices"

    frame: PricesFrame
    search: Form
    form: Form
    rows: tuple[PriceRow, ...]
    number: int
    all_url: str
    preview: Preview | None = None
    days: int = Range.MONTH.length.days
    hows: tuple[tuple[str, str], ...] = HOWS
    components: tuple[tuple[str, str], ...] = COMPONENTS
    amounts: tuple[str, ...] = LISTED_NAMES


@blueprint.get(PATH)
@admin
async def bulk() -> ResponseReturnValue:
    """The prices in force that have the words in a name, to select from; with `all` all are selected."""
    tomorrow = services().clock() + timedelta(days=1)
    form = Form("bulk", {"effective_from": (f"{tomorrow:%Y-%m-%d}",)})
    async with services().control.database.session() as session:
        page = await _page(session, request.args.get("q", ""), form)
    if request.args.get("all"):
        every = tuple(str(row.id) for row in page.rows)
        page = replace(page, form=replace(form, values={**form.values, "entry": every}))
    return await render(page)


@blueprint.post(PATH)
@admin
async def change() -> ResponseReturnValue:
    """Preview the change, or schedule it for all selected prices."""
    form, now = await sent_form("bulk"), services().clock()
    async with services().control.database.session() as session:
        if form.value("act") == "schedule":
            await entries.lock(session)
        page = await _page(session, form.value("q"), form)
        try:
            asked = changes_of_prices.read_change(form.sent)
            planned = changes_of_prices.plan(await changes_of_prices.find(session, _ids(form)), asked)
            shown = form.at_version([Draft.of(change.entry).texts for change in planned])
            page = replace(page, preview=await _preview(planned, now), form=shown)
            if form.value("act") != "schedule":
                return await render(page)
            _demand_previewed(form, shown)
            async with session.begin_nested():
                saved = await changes_of_prices.schedule(session, actor(), _ids(form), asked, now)
        except InvalidPrice as error:
            return await render(replace(page, form=page.form.refused(error)), 422)
    number = "1 price" if len(saved) == 1 else f"{len(saved)} prices"
    return see_other(path_to("prices.prices"), flash=f"Change scheduled for {number} from {formats.day(asked.start)}.")


def _demand_previewed(form: Form, shown: Form) -> None:
    """Raise `InvalidPrice` where a price changed after the preview that is scheduled."""
    if form.is_behind(shown):
        raise InvalidPrice("Someone else changed a selected price. Check the new preview, then schedule it.")


def _ids(form: Form) -> Sequence[int]:
    numbers = (parse_whole(text, MAX_ROW) for text in form.chosen("entry"))
    return [number for number in numbers if number is not None]


async def _page(session: AsyncSession, text: str, form: Form) -> BulkPage:
    await services().prices.refresh()
    now = services().clock()
    async with services().cells.snapshots(None, is_current=True) as snapshots:
        used = await registry.list_used_models(snapshots, now)
        in_use = await registry.list_in_use(snapshots, used, services().prices.book, now)
    found = await registry.search(session, text, now, past=False, first=in_use)
    chosen = set(_ids(form))
    rows = [row for row in rows_of(found.entries, now, in_use) if row.is_current or row.id in chosen]
    return BulkPage(
        frame=prices_frame("prices.prices"),
        search=Form(values={"q": (text,)}),
        form=form,
        rows=tuple(rows),
        number=found.number,
        all_url=address_of("price_bulk.bulk", {"q": text or None, "all": "1"}),
    )


async def _preview(planned: Sequence[Planned], now: datetime) -> Preview:
    effects = await effects_of([change for change in planned if change.is_scheduled], now)
    was = sum((effect.now_usd for effect in effects.values()), Decimal(0))
    then = sum((effect.then_usd for effect in effects.values()), Decimal(0))
    changed = formats.change(then, was)
    write = formats.column_money((was, then))
    return Preview(
        table=_table(planned, effects, now),
        now=write(was),
        then=write(then),
        change=f"{changed.arrow}{changed.text}" if changed and changed.arrow else "",
        number=sum(change.is_scheduled for change in planned),
        has_problems=any(change.problem for change in planned),
    )


def _table(planned: Sequence[Planned], effects: Mapping[int, Money], now: datetime) -> Table:
    rows = list(zip(planned, rows_of([change.entry for change in planned], now), strict=True))

    def head(row: tuple[Planned, PriceRow]) -> Head:
        price = row[1]
        return Head(name=price.model, note=" · ".join(filter(None, (price.provider, price.scope))), url=price.url)

    def amounts(row: tuple[Planned, PriceRow]) -> Cell:
        found = tuple((AMOUNT_NAMES[name], amount(before), amount(after)) for name, before, after in row[0].changes)
        return Cell(drawn=Amounts(found, row[0].problem or ("" if found else "Stays the same.")))

    def cost(of: Callable[[Money], Decimal]) -> Callable[[tuple[Planned, PriceRow]], str]:
        write = formats.column_money(map(of, effects.values()))

        def text(row: tuple[Planned, PriceRow]) -> str:
            money = effects.get(row[1].id)
            return write(of(money)) if money else formats.NOTHING

        return text

    columns: tuple[Column[tuple[Planned, PriceRow]], ...] = (
        Column("Change, USD per 1M tokens", amounts, "", "prices-change"),
        Column("Cost now", cost(lambda money: money.now_usd)),
        Column("At new price", cost(lambda money: money.then_usd)),
    )
    return table_of("Model", head, columns, rows)
