"""Saved views of a project: the menu on its report pages, and the page that lists, renames and deletes them."""

from collections.abc import Sequence
from typing import ClassVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue

from api.current import actor, services
from runtally.access import projects, saved_views
from runtally.access.scopes import Scope, demand, may
from runtally.errors import InvalidFilter, InvalidName, NotFound
from runtally.models.project import Project
from runtally.models.saved_view import SavedView
from webapp import formats
from webapp.addresses import path_to
from webapp.form import Form, sent_form
from webapp.links import safe_path
from webapp.query_names import PAGES
from webapp.rendering import Page, render, see_other, wants_part
from webapp.saved_pages import shown_at
from webapp.security import signed_in

blueprint = Blueprint("saved_views", __name__)

PATH = "/projects/<project_id:project_id>/views"
FORM = Form("view")


class ViewRow(Struct, frozen=True):
    """A saved view."""

    id: str
    name: str
    page: str
    url: str
    saved: str
    may_change: bool
    form: Form


class ViewsPage(Page, frozen=True):
    """The views of a project, and the form that saves the page at `here`."""

    template: ClassVar[str] = "project/views.html"
    fragment: ClassVar[str] = "project/_views_menu.html"

    project: Project
    rows: tuple[ViewRow, ...]
    here: str
    """The path and query of the page that can be saved; empty where there is none."""
    form: Form = FORM

    @property
    def document_title(self) -> str | None:
        """The menu keeps the title of the page that it is on."""
        return None if wants_part() else f"Saved views · {self.project.name}"


@blueprint.get(PATH)
@signed_in
async def show(project_id: str) -> ResponseReturnValue:
    """The project's views."""
    _demand(project_id)
    return await render(await _page(project_id, request.args.get("here", "")))


@blueprint.post(PATH)
@signed_in
async def save(project_id: str) -> ResponseReturnValue:
    """Save the page at `here` under a name, and return to it."""
    _demand(project_id)
    form = await sent_form("view")
    try:
        shown = shown_at(form.value("here"), project_id)
        async with services().cells.of(project_id).database.session() as session:
            view = await saved_views.save(
                session,
                services().clock(),
                actor(),
                project_id=project_id,
                name=form.value("name"),
                page=shown.page,
                query=shown.query,
                values=shown.values,
            )
    except (InvalidFilter, InvalidName) as error:
        page = await _page(project_id, form.value("here"))
        return await render(replace(page, form=form.refused(error, "name")), 422)
    return see_other(safe_path(form.value("here")), flash=f"View saved: {view.name}.")


@blueprint.post(f"{PATH}/<uuid:view_id>/rename")
@signed_in
async def rename(project_id: str, view_id: UUID) -> ResponseReturnValue:
    """Rename a view."""
    _demand(project_id)
    form = await sent_form(str(view_id))
    try:
        async with services().cells.of(project_id).database.session() as session:
            await projects.get(session, project_id, is_locked=True)
            stored = next((one for one in await saved_views.list_views(session, project_id) if one.id == view_id), None)
            refused = form.conflict_with(_form(stored)) if stored else None
            if refused is None:
                view = await saved_views.rename(session, actor(), project_id, view_id, form.value("name"))
    except InvalidName as error:
        refused = form.refused(error, "name")
    if refused is not None:
        page = await _page(project_id, "")
        rows = tuple(replace(row, form=refused) if row.id == str(view_id) else row for row in page.rows)
        return await render(replace(page, rows=rows), 422)
    return _back(project_id, f"View renamed: {view.name}.")


@blueprint.post(f"{PATH}/<uuid:view_id>/remove")
@signed_in
async def remove(project_id: str, view_id: UUID) -> ResponseReturnValue:
    """Delete a view."""
    _demand(project_id)
    async with services().cells.of(project_id).database.session() as session:
        view = await saved_views.remove(session, actor(), project_id, view_id)
    return _back(project_id, f"View deleted: {view.name}.")


def _demand(project_id: str) -> None:
    """Raises `NotFound` for a project that the reader may not see, for keys, and for readers of a shared link: views may name users."""
    if not saved_views.may_save(actor()):
        raise NotFound
    demand(actor(), Scope.METRICS_READ, project_id)


async def _page(project_id: str, here: str) -> ViewsPage:
    """Raises `NotFound`."""
    async with services().cells.of(project_id).database.session() as session:
        project = await projects.get(session, project_id)
        found = await saved_views.list_views(session, project_id)
        session.expunge_all()
    try:
        shown_at(here, project_id)
    except InvalidFilter:
        here = ""
    return ViewsPage(project, tuple(_rows(found)), here)


def _rows(views: Sequence[SavedView]) -> list[ViewRow]:
    now = services().clock()
    return [
        ViewRow(
            id=str(view.id),
            name=view.name,
            page=PAGES[view.page].label,
            url=PAGES[view.page].url(view.project_id, view.query),
            saved=f"saved {formats.ago(view.created_at, now)} by {view.created_by}",
            may_change=saved_views.may_change(actor(), view),
            form=_form(view),
        )
        for view in views
        if view.page in PAGES and may(actor(), PAGES[view.page].scope, view.project_id)
    ]


def _form(view: SavedView) -> Form:
    return Form.showing(str(view.id), {"name": view.name})


def _back(project_id: str, said: str) -> Response:
    return see_other(path_to("saved_views.show", project_id=project_id), flash=said)
