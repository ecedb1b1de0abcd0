"""Models that are used and have no price: what to enter next."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue

from api.current import services
from runtally.pricing import registry
from runtally.pricing.queries import UsedModel
from webapp import formats
from webapp.pages.prices.frame import PricesFrame, prices_frame
from webapp.pages.runs.views import runs_url
from webapp.rendering import Page, render
from webapp.security import admin

SHOWN = 200

blueprint = Blueprint("prices_unpriced", __name__)


@dataclass(frozen=True, slots=True)
class UnpricedRow:
    """A model without a price; `kept` says that its runs have the cost that the client reported."""

    provider: str
    model: str
    runs: str
    kept: str
    tokens: str
    last_used: str
    add_url: str
    runs_url: str


@dataclass(frozen=True, slots=True)
class UnpricedPage(Page):
    """The models that wait for a price."""

    template: ClassVar[str] = "prices/unpriced.html"
    fragment: ClassVar[str] = "prices/_unpriced.html"

    frame: PricesFrame
    rows: tuple[UnpricedRow, ...]
    number: int
    days: int = registry.USED_WITHIN.days

    @property
    def document_title(self) -> str:
        return "Unpriced models"


@blueprint.get("/admin/prices/unpriced")
@admin
async def unpriced() -> ResponseReturnValue:
    """Models of the last months that have no price now, the most used first."""
    # Whose price was just saved is not among them any more.
    await services().prices.refresh()
    now, direct = services().clock(), services().settings.direct_cost_providers
    async with services().database.connection() as connection:
        found = await registry.without_price(connection, services().prices.book, direct, now)
    page = UnpricedPage(
        frame=prices_frame("prices_unpriced.unpriced"),
        rows=tuple(_row(one, now) for one in found[:SHOWN]),
        number=len(found),
    )
    return await render(page)


def _row(one: UsedModel, now: datetime) -> UnpricedRow:
    kept = one.runs - one.unpriced
    return UnpricedRow(
        provider=one.provider,
        model=one.model,
        runs=formats.runs(one.runs),
        kept=f"{formats.count(kept)} at the cost reported" if kept else "",
        tokens=f"{formats.tokens(one.input_tokens)} in · {formats.tokens(one.output_tokens)} out",
        last_used=formats.ago(one.last_used_at, now),
        add_url=url_for("price_forms.new", provider=one.provider, model=one.model),
        runs_url=runs_url(provider=one.provider, model=one.model),
    )
