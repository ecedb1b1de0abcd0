"""Edit the amounts of one price in its row of the list. Without JavaScript the form for a whole price does it."""

from dataclasses import replace
from typing import ClassVar

from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.errors import InvalidPrice
from runtally.models.price import PriceEntry
from runtally.pricing import entries, registry
from runtally.pricing.draft import Draft, read_draft
from webapp.form import Form, sent_form
from webapp.pages.prices.frame import AMOUNT_NAMES, LISTED, PriceRow, rows_of
from webapp.rendering import Page, done, render
from webapp.security import admin

PATH = "/admin/prices/<row:entry_id>/row"

blueprint = Blueprint("price_row", __name__)


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


@blueprint.get(PATH)
@admin
async def row(entry_id: int) -> ResponseReturnValue:
    """The price as it stands in the list."""
    async with services().control.database.session() as session:
        entry = await entries.get(session, entry_id)
    return await render(PriceRowPage(await _row(entry)))


@blueprint.get(f"{PATH}/edit")
@admin
async def edit(entry_id: int) -> ResponseReturnValue:
    """The price with its amounts to be corrected."""
    async with services().control.database.session() as session:
        entry = await entries.get(session, entry_id)
        [found] = rows_of([entry], services().clock())
    return await render(EditedRowPage(found, _shown(entry), found.is_current))


@blueprint.post(PATH)
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
