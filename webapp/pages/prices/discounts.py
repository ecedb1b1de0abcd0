"""The page of discounts that projects have on list prices."""

from datetime import datetime
from typing import ClassVar

from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import projects
from runtally.errors import InvalidPrice
from runtally.models.price import ProjectDiscount
from runtally.pricing import discounts as project_discounts
from runtally.pricing import registry
from webapp.addresses import requested_project
from webapp.form import Form, sent_form
from webapp.pages.prices.frame import Names, PricesFrame, names_in_use, period_of, prices_frame
from webapp.rendering import Page, render, see_other
from webapp.security import admin

PATH = "/admin/prices/discounts"
FIELDS = ("provider", "percent", "effective_from", "effective_to", "note")

blueprint = Blueprint("price_discounts", __name__)


class DiscountsPage(Page, frozen=True):
    """All discounts, and the form for a new one."""

    fragment: ClassVar[str] = "prices/_discounts.html"
    tab_title: ClassVar[str] = "Discounts"

    frame: PricesFrame
    rows: tuple[ProjectDiscount, ...]
    now: datetime
    projects: tuple[tuple[str, str], ...]
    form: Form
    names: Names

    def period_of(self, discount: ProjectDiscount) -> str:
        """Return in which time a discount holds."""
        period = period_of(discount.effective_from, discount.effective_to)
        return "no end date" if period == "always" else period


@blueprint.get(PATH)
@admin
async def discounts() -> ResponseReturnValue:
    """The discounts of all projects."""
    async with services().control.database.session() as session:
        return await render(await _page(session, Form()))


@blueprint.post(PATH)
@admin
async def add() -> ResponseReturnValue:
    """Give a project a discount."""
    form = await sent_form()
    project_id = requested_project({"project": form.value("project")}) or ""
    async with services().sessions_of(project_id) as (session, cell):
        try:
            project = await projects.get(cell, project_id)
            sent = {name: form.value(name) for name in FIELDS}
            await project_discounts.add(session, actor(), project.id, sent, services().clock())
        except InvalidPrice as error:
            return await render(await _page(session, form.refused(error)), 422)
    return see_other(
        url_for(".discounts"), flash="Discount saved. It applies to new runs; reprice past runs to apply it to them."
    )


@blueprint.post(f"{PATH}/<row:discount_id>/end")
@admin
async def end(discount_id: int) -> ResponseReturnValue:
    """Let a discount hold until now."""
    async with services().control.database.session() as session:
        await project_discounts.end(session, actor(), discount_id, services().clock())
    return see_other(url_for(".discounts"), flash="The discount has ended.")


async def _page(session: AsyncSession, form: Form) -> DiscountsPage:
    return DiscountsPage(
        frame=prices_frame("price_discounts.discounts"),
        rows=tuple(await registry.list_discounts(session)),
        now=services().clock(),
        projects=tuple((project.id, project.id) for project in await services().cells.list_projects()),
        form=form,
        names=await names_in_use(),
    )
