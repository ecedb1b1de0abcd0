"""Saved views of a project: the menu on its report pages, and the page that lists, renames and deletes them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import ClassVar
from urllib.parse import parse_qsl, urlencode, urlsplit
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, Response, current_app, request
from quart.typing import ResponseReturnValue
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from api.current import actor, services
from runtally.access import projects, saved_views
from runtally.access.saved_views import MAX_QUERY
from runtally.access.scopes import Scope, demand
from runtally.errors import InvalidFilter, InvalidName, NotFound
from runtally.models.project import Project, SavedView
from runtally.usage.dimensions import METADATA, NO_VALUE, OTHER, canonical_key
from webapp.addresses import path_to, safe_path
from webapp.form import Form, sent_form
from webapp.project_pages import PLACES, REPORTS, SIDES, VALUE, is_known
from webapp.rendering import Page, render, see_other, wants_part
from webapp.security import signed_in
from webapp.zone import FIELD, LATER, in_utc

blueprint = Blueprint("saved_views", __name__)

PATH = "/projects/<project_id:project_id>/views"
FORM = Form("view")


_MARKS = {OTHER, NO_VALUE}
# Where in a list somebody is, and whether it follows new runs, is no part of a view.
_LEFT_OUT = PLACES | {"project"}


class SavedAddress(Struct, frozen=True):
    """What an address shows: a report page, by its stored name, and its query without the project."""

    page: str
    query: str
    values: tuple[tuple[str, str], ...]
    """The values of keys that the query names, each with its key."""


def parse_address(address: str, project_id: str) -> SavedAddress:
    """Read the path and query of a report page of the project.

    Raises `InvalidFilter` for any other address, and for a query that is too long or has unknown parameters.
    """
    try:
        parts = urlsplit(address)
        pairs = parse_qsl(parts.query)
    except ValueError:
        raise InvalidFilter("This page cannot be saved as a view.") from None
    page = None if parts.netloc else _page_at(parts.path, dict(pairs), project_id)
    if page is None:
        raise InvalidFilter("Only report pages of this project can be saved as a view.")
    kept = [(name, value) for name, value in _in_utc(pairs) if name not in _LEFT_OUT]
    unknown = sorted({name for name, _ in kept if not is_known(name)})
    if unknown:
        raise InvalidFilter(f"A view cannot keep the parameter {unknown[0][:40]!r}. Remove it from the address first.")
    query = urlencode(kept)
    if len(query) > MAX_QUERY:
        raise InvalidFilter(
            f"The filters of this page are longer than {MAX_QUERY:,} characters. Remove some of them first."
        )
    return SavedAddress(page, query, tuple(_values_in(kept)))


def _page_at(path: str, query: Mapping[str, str], project_id: str) -> str | None:
    """Return the stored name of the page with this path; None unless it is one of the project."""
    try:
        endpoint, values = current_app.url_map.bind("").match(path.removeprefix(request.root_path), method="GET")
    except (HTTPException, RequestRedirect):
        return None
    asked = values.get("project_id", query.get("project"))
    return next((name for name, page in REPORTS.items() if page.endpoint == endpoint and asked == project_id), None)


def _in_utc(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the parameters that have a value, with their times in UTC, whatever zone their form was in."""
    query, times = dict(pairs), dict[str, str]()
    of_form = {name: query[name] for name in (FIELD, LATER) if name in query}
    for start in ("", *SIDES):
        of_side = {name.removeprefix(start): value for name, value in pairs if name.startswith(start)}
        moved = in_utc({**of_side, **of_form})
        times |= {f"{start}{name}": moved[name] for name in ("since", "until") if name in moved}
    return [(name, times.get(name, value)) for name, value in pairs if name not in of_form and value]


def _values_in(pairs: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield key and value of each filter, and of each value that is compared; a mark stands for several values, or none."""
    for name, value in pairs:
        side = next((start for start in SIDES if name.startswith(start)), "")
        of = name.removeprefix(side)
        named_by = {VALUE: "by", "metadataValue": f"{side}metadataKey"}.get(of)
        # Every time that the other parameter is there: which of them a page reads is the page's.
        keys = [of] if named_by is None else [other for said, other in pairs if said == named_by]
        if value not in _MARKS:
            for key in (key.removeprefix(METADATA) for key in keys):
                yield canonical_key(key), value
                # A key with dots may be the way down to a value inside of another key's.
                yield canonical_key(key.partition(".")[0]), value


class ViewsPage(Page, frozen=True):
    """The views of a project, and the form that saves the page at `here`."""

    template: ClassVar[str] = "project/views.html"
    fragment: ClassVar[str] = "project/_views_menu.html"

    project: Project
    views: tuple[SavedView, ...]
    here: str
    """The path and query of the page that can be saved; empty where there is none."""
    now: datetime
    form: Form = FORM
    refused: Form | None = None
    """The form of the view that could not be renamed."""

    @property
    def document_title(self) -> str | None:
        """The menu keeps the title of the page that it is on."""
        return None if wants_part() else f"Saved views · {self.project.name}"

    def page_of(self, view: SavedView) -> str:
        return REPORTS[view.page].label

    def url_of(self, view: SavedView) -> str:
        return REPORTS[view.page].saved_address(view.project_id, view.query)

    def may_change(self, view: SavedView) -> bool:
        return saved_views.may_change(actor(), view)

    def form_of(self, view: SavedView) -> Form:
        return self.refused if self.refused and self.refused.id == str(view.id) else _form(view)


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
        shown = parse_address(form.value("here"), project_id)
        async with services().cells.for_project(project_id).database.session() as session:
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
        async with services().cells.for_project(project_id).database.session() as session:
            await projects.get(session, project_id, is_locked=True)
            stored = next(
                (view for view in await saved_views.list_views(session, project_id) if view.id == view_id), None
            )
            refused = form.conflict_with(_form(stored)) if stored else None
            if refused is None:
                view = await saved_views.rename(session, actor(), project_id, view_id, form.value("name"))
    except InvalidName as error:
        refused = form.refused(error, "name")
    if refused is not None:
        return await render(replace(await _page(project_id, ""), refused=refused), 422)
    return _back(project_id, f"View renamed: {view.name}.")


@blueprint.post(f"{PATH}/<uuid:view_id>/remove")
@signed_in
async def remove(project_id: str, view_id: UUID) -> ResponseReturnValue:
    """Delete a view."""
    _demand(project_id)
    async with services().cells.for_project(project_id).database.session() as session:
        view = await saved_views.remove(session, actor(), project_id, view_id)
    return _back(project_id, f"View deleted: {view.name}.")


def _demand(project_id: str) -> None:
    """Raises `NotFound` for a project that the reader may not see, for keys, and for readers of a shared link: views may name users."""
    if not saved_views.may_save(actor()):
        raise NotFound
    demand(actor(), Scope.METRICS_READ, project_id)


async def _page(project_id: str, here: str) -> ViewsPage:
    """Raises `NotFound`."""
    async with services().cells.for_project(project_id).database.session() as session:
        project = await projects.get(session, project_id)
        views = await saved_views.list_views(session, project_id)
        session.expunge_all()
    try:
        parse_address(here, project_id)
    except InvalidFilter:
        here = ""
    shown = (one for one in views if one.page in REPORTS and REPORTS[one.page].is_open_to(actor(), project_id))
    return ViewsPage(project, tuple(shown), here, services().clock())


def _form(view: SavedView) -> Form:
    return Form.showing(str(view.id), {"name": view.name})


def _back(project_id: str, said: str) -> Response:
    return see_other(path_to("saved_views.show", project_id=project_id), flash=said)
