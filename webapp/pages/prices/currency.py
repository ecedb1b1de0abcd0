"""The page of the currency that pages show instead of dollars, with its rates by day."""

from collections.abc import Sequence
from datetime import date
from typing import ClassVar

from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.errors import InvalidPrice, NotFound
from runtally.models.price import CurrencyRate
from runtally.pricing import currency
from webapp.form import Form, sent_form
from webapp.pages.prices.frame import PricesFrame, prices_frame
from webapp.rendering import Page, render, see_other
from webapp.security import admin

PATH = "/admin/prices/currency"
FIELDS = ("currency", "since", "rate")

blueprint = Blueprint("currency", __name__)


class CurrencyPage(Page, frozen=True):
    """All rates, and the form for a new one."""

    fragment: ClassVar[str] = "prices/_currency.html"
    tab_title: ClassVar[str] = "Currency"

    frame: PricesFrame
    rows: Sequence[CurrencyRate]
    today: date
    form: Form
    codes: Sequence[str]


@blueprint.get(PATH)
@admin
async def rates() -> ResponseReturnValue:
    """The rates, the latest day first."""
    async with services().control.database.session() as session:
        return await render(await _page(session, Form()))


@blueprint.post(PATH)
@admin
async def add() -> ResponseReturnValue:
    """Add a rate."""
    form = await sent_form()
    async with services().control.database.session() as session:
        try:
            sent = {name: form.value(name) for name in FIELDS}
            row = await currency.add(session, actor(), sent, services().clock())
        except InvalidPrice as error:
            return await render(await _page(session, form.refused(error)), 422)
    await services().prices.refresh()
    return see_other(url_for(".rates"), flash=f"Rate saved. Pages show {row.currency}; what is stored stays dollars.")


@blueprint.post(f"{PATH}/<since>/remove")
@admin
async def remove(since: str) -> ResponseReturnValue:
    """Remove the rate since a day."""
    try:
        day = date.fromisoformat(since)
    except ValueError as error:
        raise NotFound from error
    async with services().control.database.session() as session:
        await currency.remove(session, actor(), day)
    await services().prices.refresh()
    return see_other(url_for(".rates"), flash="Rate removed.")


async def _page(session: AsyncSession, form: Form) -> CurrencyPage:
    rows = await currency.list_rates(session)
    shown = form if form.values or not rows else Form(values={"currency": (rows[0].currency,)})
    return CurrencyPage(
        frame=prices_frame("currency.rates"),
        rows=rows,
        today=services().clock().date(),
        form=shown,
        codes=tuple(sorted(currency.CODES)),
    )
