"""Repricing: find past runs whose cost differs at current prices, and update them."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import ClassVar

from quart import Blueprint, request, url_for
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.errors import InvalidPrice
from runtally.models.price import Repricing, RepricingState
from runtally.pricing.repricing import repricer
from runtally.pricing.repricing.repricer import Group, Scope, select_number
from webapp import formats
from webapp.form import Form, sent_form
from webapp.pages.admin.counted import Act, WorkPage, WorkRow
from webapp.pages.prices.frame import Names, PricesFrame, names_in_use, period_of, prices_frame, time_in
from webapp.rendering import Page, render, see_other
from webapp.report import Column, Head, Table, table_of
from webapp.security import admin

PATH = "/admin/prices/repricing"
SHOWN = 100
FIELDS = ("project", "provider", "model", "since", "until")

blueprint = Blueprint("repricing", __name__)


START = Act("start", "Update these costs", "button-main")
RESUME = Act("start", "Resume", "button-main")
PAUSE = Act("pause", "Pause")
CANCEL = Act("cancel", "Cancel", "button-danger")
STATES = {"start": RepricingState.RUNNING, "pause": RepricingState.PAUSED, "cancel": RepricingState.CANCELLED}
ACTS = {
    RepricingState.COMPARING: (CANCEL,),
    RepricingState.COMPARED: (START, CANCEL),
    RepricingState.RUNNING: (PAUSE, CANCEL),
    RepricingState.PAUSED: (RESUME, CANCEL),
    RepricingState.DONE: (),
    RepricingState.CANCELLED: (),
}
RESULT_TEXT = {
    RepricingState.COMPARING: "Comparing. Nothing changes yet.",
    RepricingState.RUNNING: "Updating costs. Totals on every page stay correct.",
    RepricingState.PAUSED: "Paused. Costs changed so far are kept.",
    RepricingState.DONE: "Done.",
    RepricingState.CANCELLED: "Cancelled. Costs changed before that are kept.",
}


class RepricingsPage(Page, frozen=True):
    """The latest repricings, and a form for another."""

    fragment: ClassVar[str] = "prices/_repricings.html"
    tab_title: ClassVar[str] = "Repricing"

    frame: PricesFrame
    form: Form
    rows: tuple[WorkRow, ...]
    projects: tuple[tuple[str, str], ...]
    names: Names


class RepricingPage(WorkPage, frozen=True):
    """A repricing: its scope, its progress and its changes."""

    fragment: ClassVar[str] = "prices/_repricing.html"
    kind: ClassVar[str] = "Repricing"

    frame: PricesFrame
    hidden: int


@blueprint.get(PATH)
@admin
async def repricings() -> ResponseReturnValue:
    """The latest, and a form that the address may fill in."""
    form = Form(values={name: (request.args[name],) for name in FIELDS if name in request.args})
    async with services().control.database.session() as session:
        return await render(await _list(session, form))


@blueprint.post(PATH)
@admin
async def plan() -> ResponseReturnValue:
    """Compare what the form says."""
    form = await sent_form()
    try:
        scope = _scope(form)
    except InvalidPrice as error:
        async with services().control.database.session() as session:
            return await render(await _list(session, form.refused(error)), 422)
    cells = services().cells
    runs = 0
    for one in cells.every if scope.project_id is None else (cells.for_project(scope.project_id),):
        async with one.database.connection() as connection:
            runs += await select_number(connection, scope)
    async with services().control.database.session() as session:
        made = await repricer.plan(session, actor(), scope, runs, services().clock())
    return see_other(url_for(".repricing", repricing_id=made.id))


@blueprint.get(f"{PATH}/<row:repricing_id>")
@admin
async def repricing(repricing_id: int) -> ResponseReturnValue:
    """Build the page of a repricing: what would change, or how far it has changed."""
    async with services().control.database.session() as session:
        return await render(_page(await repricer.get(session, repricing_id), Form()))


@blueprint.post(f"{PATH}/<row:repricing_id>/<any(start, pause, cancel):act>")
@admin
async def move(repricing_id: int, act: str) -> ResponseReturnValue:
    """Start, go on, pause or cancel."""
    async with services().control.database.session() as session:
        try:
            await repricer.move(session, actor(), repricing_id, STATES[act], services().clock())
        except InvalidPrice as error:
            found = await repricer.get(session, repricing_id)
            return await render(_page(found, Form().refused(error)), 422)
    return see_other(url_for(".repricing", repricing_id=repricing_id))


def _scope(form: Form) -> Scope:
    """Read the scope of a repricing from a form. Raises `InvalidPrice`."""
    since, until = (time_in(form.value(name), name) for name in ("since", "until"))
    if since and until and since >= until:
        raise InvalidPrice.at("until", "The end must come after the start.")
    project_id, provider, model = (form.value(name).strip() or None for name in ("project", "provider", "model"))
    return Scope(project_id, provider, model, since, until)


async def _list(session: AsyncSession, form: Form) -> RepricingsPage:
    known = [project.id for project in await services().cells.list_projects()]
    now = services().clock()
    return RepricingsPage(
        frame=prices_frame("repricing.repricings"),
        form=form,
        rows=tuple(_row(one, now) for one in await repricer.list_latest(session)),
        projects=(("", "All projects"), *((one, one) for one in known)),
        names=await names_in_use(),
    )


def _page(repricing: Repricing, form: Form) -> RepricingPage:
    groups, state = repricer.groups_of(repricing), RepricingState(repricing.state)
    nothing_changes = state is RepricingState.COMPARED and not groups
    compared = "Nothing would change." if nothing_changes else "Compared. Nothing has changed yet."
    return RepricingPage(
        frame=prices_frame("repricing.repricings"),
        one=_row(repricing, services().clock()),
        says=RESULT_TEXT.get(state, compared),
        acts=() if nothing_changes else ACTS[state],
        table=_table(groups),
        hidden=max(len(groups) - SHOWN, 0),
        form=form,
    )


def _row(repricing: Repricing, now: datetime) -> WorkRow:
    state = RepricingState(repricing.state)
    names = [name for name in (repricing.project_id, repricing.provider, repricing.model) if name]
    period = period_of(repricing.since, repricing.until)
    is_moving = state in {RepricingState.COMPARING, RepricingState.RUNNING}
    # The number of runs is rounded up to whole buckets, and more may have come.
    progress = (
        f"{formats.count(repricing.seen)} of about {formats.count(max(repricing.runs, repricing.seen))} runs checked."
    )
    return WorkRow(
        repricing,
        url_for("repricing.repricing", repricing_id=repricing.id),
        " · ".join((*(names or ["All runs"]), *([] if period == "always" else [period]))),
        formats.ago(repricing.created_at, now),
        is_moving,
        max(repricing.runs, repricing.seen + 1),
        progress if is_moving or state is RepricingState.PAUSED else "",
    )


def _table(groups: Sequence[Group]) -> Table:
    """Return what changes for each model of a project, and for all, of which not all may be shown."""
    before = formats.column_money(group.before_usd for group in groups)
    after = formats.column_money(group.after_usd for group in groups)
    apart = formats.column_money(group.after_usd - group.before_usd for group in groups)

    def head(group: Group) -> Head:
        if group is total:
            return Head(name="All")
        notes = ((group.priced, "without a cost before"), (group.unpriced, "without a cost after"))
        said = [group.provider, ", ".join(f"{formats.count(number)} {what}" for number, what in notes if number)]
        summary = f"{group.project_id} · {formats.runs(group.runs)}"
        return Head(name=group.model, note=" · ".join(filter(None, said)), summary=summary)

    total = Group(
        *("", "", ""),
        sum(group.runs for group in groups),
        sum((group.before_usd for group in groups), Decimal(0)),
        sum((group.after_usd for group in groups), Decimal(0)),
        priced=0,
        unpriced=0,
    )
    columns: tuple[Column[Group], ...] = (
        Column("Project", lambda row: row.project_id, "fold"),
        Column("Runs", lambda row: formats.count(row.runs)),
        Column("Before", lambda row: before(row.before_usd), "number"),
        Column("After", lambda row: after(row.after_usd), "number"),
        Column("Change", lambda row: formats.money_apart(row.after_usd - row.before_usd, apart), "number"),
    )
    return table_of("Model", head, columns, groups[:SHOWN], total)
