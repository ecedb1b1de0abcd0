"""The registry of prices: search it, and open an entry."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue

from api.current import services
from runtally.pricing import registry
from runtally.pricing.queries import MAX_MODELS, UsedModel
from webapp.form import Form
from webapp.pages.prices.frame import LISTED_NAMES, PriceRow, PricesFrame, prices_frame, rows_of
from webapp.rendering import Page, render, see_other
from webapp.security import admin

blueprint = Blueprint("prices", __name__)


SHOWN = 200


class PricesPage(Page, frozen=True):
    """Entries that a search finds, those in use first."""

    fragment: ClassVar[str] = "prices/_prices.html"
    tab_title: ClassVar[str] = "Prices"

    frame: PricesFrame
    search: Form
    rows: tuple[PriceRow, ...]
    number: int
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
    async with services().control.database.session() as session:
        found = await registry.search(session, text, now, past=past, first=in_use)
    page = PricesPage(
        frame=prices_frame("prices.prices"),
        search=Form(values={"q": (text,), "past": ("1" if past else "",)}),
        rows=rows_of(found.entries, now, in_use),
        number=found.number,
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


def prices_url(text: str) -> str:
    """The entries with these words in a name."""
    return url_for("prices.prices", q=text)
