"""Erase a person: count all runs of a user, then delete them, with progress and a record without the name."""

from typing import Any, ClassVar

from quart import Blueprint, url_for
from quart.typing import ResponseReturnValue

from api.current import actor, services
from api.erasures import STATES, planned
from runtally.access import erasures
from runtally.errors import InvalidErasure
from runtally.models.audit import Erasure, ErasureState
from webapp import formats
from webapp.form import Form, sent_form
from webapp.pages.admin.counted import Act, WorkPage, WorkRow
from webapp.pages.admin.frame import Frame, frame
from webapp.rendering import Page, render, see_other
from webapp.report import Column, Head, Table, table_of
from webapp.security import admin

PATH = "/admin/erasures"
FORM = Form("erasure")
CANCEL = Act("cancel", "Cancel")
ACTS = {
    ErasureState.COUNTING: (CANCEL,),
    ErasureState.COUNTED: (Act("start", "Erase these runs for good", "button-danger"), CANCEL),
    ErasureState.ERASING: (CANCEL,),
}
SAYS = {
    ErasureState.COUNTING: "Counting. Nothing is deleted yet.",
    ErasureState.COUNTED: "Counted. Nothing is deleted yet.",
    ErasureState.ERASING: "Erasing, project after project.",
    ErasureState.DONE: "Done. The name is forgotten; this record and the audit log have its hash.",
    ErasureState.CANCELLED: "Cancelled. What was erased before stays so.",
}

blueprint = Blueprint("admin_erasures", __name__)


class ErasuresPage(Page, frozen=True):
    """The latest erasures, and the form for another."""

    fragment: ClassVar[str] = "admin/_erasures.html"
    tab_title: ClassVar[str] = "Erasures"

    frame: Frame
    rows: tuple[WorkRow, ...]
    form: Form


class ErasurePage(WorkPage, frozen=True):
    """An erasure: what was counted or erased of each project."""

    fragment: ClassVar[str] = "admin/_erasure.html"
    kind: ClassVar[str] = "Erasure"

    frame: Frame
    names: tuple[str, ...]


@blueprint.get(PATH)
@admin
async def erasures_list() -> ResponseReturnValue:
    """The latest, and a form for another."""
    return await render(await _list(FORM))


@blueprint.post(PATH)
@admin
async def plan() -> ResponseReturnValue:
    """Count the runs of the user that the form names."""
    form = await sent_form(FORM.id)
    try:
        made = await planned(form.value("user"))
    except InvalidErasure as error:
        return await render(await _list(form.refused(error)), 422)
    return see_other(url_for(".erasure", erasure_id=made.id))


@blueprint.get(f"{PATH}/<row:erasure_id>")
@admin
async def erasure(erasure_id: int) -> ResponseReturnValue:
    """What would be erased, or how far that is."""
    async with services().control.database.session() as session:
        return await render(_page(await erasures.get(session, erasure_id), FORM))


@blueprint.post(f"{PATH}/<row:erasure_id>/<any(start, cancel):act>")
@admin
async def move(erasure_id: int, act: str) -> ResponseReturnValue:
    """Erase what was counted, or cancel."""
    async with services().control.database.session() as session:
        try:
            await erasures.move(session, actor(), erasure_id, STATES[act], services().clock())
        except InvalidErasure as error:
            return await render(_page(await erasures.get(session, erasure_id), FORM.refused(error)), 422)
    return see_other(url_for(".erasure", erasure_id=erasure_id))


async def _list(form: Form) -> ErasuresPage:
    async with services().control.database.session() as session:
        rows = tuple(map(_row, await erasures.list_latest(session)))
    return ErasuresPage(frame("admin_erasures.erasures_list"), rows, form)


def _page(erasure: Erasure, form: Form) -> ErasurePage:
    state = ErasureState(erasure.state)
    nothing = state is ErasureState.COUNTED and not erasure.found
    return ErasurePage(
        frame=frame("admin_erasures.erasures_list"),
        one=_row(erasure),
        names=tuple(erasure.names),
        says="No project has runs of this user." if nothing else SAYS[state],
        acts=(CANCEL,) if nothing else ACTS.get(state, ()),
        table=_table(erasure),
        form=form,
    )


def _row(erasure: Erasure) -> WorkRow:
    url, whole = url_for("admin_erasures.erasure", erasure_id=erasure.id), max(erasure.projects, erasure.seen, 1)
    is_moving = erasure.state in {ErasureState.COUNTING, ErasureState.ERASING}
    progress = (
        f"{formats.count(erasure.seen)} of {formats.count(max(erasure.projects, erasure.seen))} projects."
        if is_moving
        else ""
    )
    at = formats.ago(erasure.created_at, services().clock())
    return WorkRow(erasure, url, erasure.label, at, is_moving, whole, progress)


def _table(erasure: Erasure) -> Table:
    columns: tuple[Column[dict[str, Any]], ...] = (
        Column("Live", lambda each: formats.count(each["live"])),
        Column("Archived", lambda each: formats.count(each["archived"])),
        Column("Reported", lambda each: formats.count(each["reported"])),
    )
    total = {key: sum(each[key] for each in erasure.found) for key in ("live", "archived", "reported")} | {
        "project": "All"
    }
    return table_of("Project", lambda each: Head(name=each["project"]), columns, erasure.found, total)
