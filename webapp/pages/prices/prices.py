"""The registry of prices: search it, open an entry, and edit amounts in its row. Without JavaScript the form for a whole price does that."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.errors import InvalidPrice
from runtally.fields import MAX_ROW, parse_whole
from runtally.models.price import PriceEntry
from runtally.pricing import entries, registry
from runtally.pricing.draft import Draft, read_draft
from runtally.pricing.queries import MAX_MODELS, UsedModel
from webapp.form import Form, sent_form
from webapp.pages.prices.frame import AMOUNT_NAMES, LISTED, LISTED_NAMES, PriceRow, PricesFrame, prices_frame, rows_of
from webapp.rendering import Page, done, render, see_other
from webapp.security import admin

blueprint = Blueprint("prices", __name__)

ROW_PATH = "/admin/prices/<row:entry_id>/row"


SHOWN = 200


class PricesPage(Page, frozen=True):
    """Entries that a search finds, those in use first."""

    fragment: ClassVar[str] = "prices/_prices.html"
    tab_title: ClassVar[str] = "Prices"

    frame: PricesFrame
    search: Form
    rows: tuple[PriceRow, ...]
    number: int
    shown: str
    """Which of them these are, where there are more."""
    previous_url: str | None
    next_url: str | None
    unpriced: Sequence[UsedModel]
    """The most used models without a price; the runs of some have the cost that the client reported."""
    unpriced_number: int
    now: datetime
    is_cut: bool
    """Whether more models were used than were looked at."""
    days: int = registry.USED_WITHIN.days
    amounts: tuple[str, ...] = LISTED_NAMES
    most: int = MAX_MODELS


@blueprint.get("/admin/prices")
@admin
async def prices() -> ResponseReturnValue:
    """The entries in force, or all of them, that have the words in a name."""
    # Whose price was just saved is not without one any more.
    await services().prices.refresh()
    text, past, now = request.args.get("q", ""), request.args.get("past") == "1", services().clock()
    async with services().cells.snapshots(None, is_current=True) as snapshots:
        book, direct = services().prices.book, services().settings.direct_cost_providers
        used = await registry.list_used_models(snapshots, now)
        in_use = await registry.list_in_use(snapshots, used, book, now)
    unpriced = registry.unpriced_of(used, book, direct, now)
    number = parse_whole(request.args.get("page", ""), MAX_ROW) or 1
    async with services().control.database.session() as session:
        found = await registry.search(session, text, now, past=past, first=in_use, page=number)

    def url(page: int) -> str | None:
        query: dict[str, Any] = {"q": text or None, "past": 1 if past else None, "page": page if page > 1 else None}
        return url_for(".prices", **query) if 1 <= page <= -(-found.number // registry.MAX_FOUND) else None

    before = (found.page - 1) * registry.MAX_FOUND
    page = PricesPage(
        frame=prices_frame("prices.prices"),
        search=Form(values={"q": (text,), "past": ("1" if past else "",)}),
        rows=rows_of(found.entries, now, in_use),
        number=found.number,
        shown=f"{before + 1:,} to {before + len(found.entries):,} of {found.number:,}",
        previous_url=url(found.page - 1),
        next_url=url(found.page + 1),
        unpriced=unpriced[:SHOWN],
        unpriced_number=len(unpriced),
        now=now,
        is_cut=len(used) == MAX_MODELS,
    )
    return await render(page)


@blueprint.get("/admin/prices/unpriced")
@admin
async def unpriced() -> ResponseReturnValue:
    """Redirect to the list of unpriced models."""
    return see_other(f"{url_for('.prices')}#unpriced")


class PriceRowPage(Page, frozen=True):
    """A price as a row of the list."""

    template: ClassVar[str] = "prices/row.html"
    fragment: ClassVar[str] = "prices/row.html"

    row: PriceRow


class EditedRowPage(Page, frozen=True):
    """The row with fields for its amounts."""

    template: ClassVar[str] = "prices/row_edit.html"
    fragment: ClassVar[str] = "prices/row_edit.html"

    row: PriceRow
    form: Form
    may_start_now: bool
    """Whether other amounts can follow now; those of a price that has not started can only be corrected."""
    amounts: tuple[tuple[str, str], ...] = tuple((name, AMOUNT_NAMES[name]) for name in LISTED)


@blueprint.get(ROW_PATH)
@admin
async def row(entry_id: int) -> ResponseReturnValue:
    """The price as it stands in the list."""
    async with services().control.database.session() as session:
        entry = await entries.get(session, entry_id)
    return await render(PriceRowPage(await _row(entry)))


@blueprint.get(f"{ROW_PATH}/edit")
@admin
async def edit(entry_id: int) -> ResponseReturnValue:
    """The price with its amounts to be corrected."""
    async with services().control.database.session() as session:
        entry = await entries.get(session, entry_id)
        [found] = rows_of([entry], services().clock())
    return await render(EditedRowPage(found, _shown(entry), found.is_current))


@blueprint.post(ROW_PATH)
@admin
async def save(entry_id: int) -> ResponseReturnValue:
    """Change the amounts from now on, or correct them: as in the forms for a whole price."""
    form, now = await sent_form(f"row-{entry_id}"), services().clock()
    async with services().control.database.session() as session:
        await entries.lock(session)
        entry = await entries.get(session, entry_id)
        [found] = rows_of([entry], now)
        if conflict := form.conflict_with(_shown(entry)):
            return await render(EditedRowPage(found, conflict, found.is_current), 422)
        try:
            draft = read_draft(Draft.of(entry).texts | {name: form.value(name) for name in LISTED})
            async with session.begin_nested():
                if form.value("applies") == "now":
                    draft = replace(draft, effective_from=now)
                    entry = await entries.follow(session, actor(), entry, draft, now)
                else:
                    entry = await entries.change(session, actor(), entry, draft, now)
        except InvalidPrice as error:
            return await render(EditedRowPage(found, form.refused(error), found.is_current), 422)
    await services().prices.refresh()
    return await done(PriceRowPage(await _row(entry)), else_to=url_for("price.price", entry_id=entry.id))


def _shown(entry: PriceEntry) -> Form:
    texts = Draft.of(entry).texts
    return Form.showing(f"row-{entry.id}", {name: texts[name] for name in LISTED}, of=texts)


async def _row(entry: PriceEntry) -> PriceRow:
    now = services().clock()
    async with services().cells.snapshots(None, is_current=True) as snapshots:
        used = await registry.list_used_models(snapshots, now)
        [found] = rows_of([entry], now, await registry.list_in_use(snapshots, used, services().prices.book, now))
    return found
