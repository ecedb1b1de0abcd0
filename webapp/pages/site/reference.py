"""The API reference as a page, rendered from the OpenAPI document, because existing viewers need inline styles."""

from contextlib import suppress
from types import ModuleType
from typing import ClassVar

from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.current import actor, services
from api.openapi import described
from runtally.access import keys, projects
from runtally.access.scopes import Permission, demand, may, parse_scopes
from runtally.errors import StoreUnavailable
from webapp import formats, openapi_view
from webapp.addresses import requested_project, server_url
from webapp.form import Form, sent_form
from webapp.pages.project.keys import offered_permissions
from webapp.rendering import Page, render, render_once
from webapp.security import open_to_all, signed_in
from webapp.zone import local

blueprint = Blueprint("reference", __name__)
FORM = Form("try")


class TrialKeyPage(Page, frozen=True):
    """The form that makes a key for the requests of the page, and the key that it made."""

    template: ClassVar[str] = "site/_trial_key.html"
    fragment: ClassVar[str] = "site/_trial_key.html"

    projects: tuple[tuple[str, str], ...]
    """Those that the reader may make keys for."""
    form: Form = FORM
    secret: str = ""
    until: str = ""


class ReferencePage(Page, frozen=True):
    """The API reference: operations, types and authentication."""

    template: ClassVar[str] = "site/reference.html"
    fragment: ClassVar[str] = "site/_reference.html"
    tab_title: ClassVar[str] = "API reference"

    document: openapi_view.Node
    base_url: str
    trial: TrialKeyPage
    view: ClassVar[ModuleType] = openapi_view
    """What puts parts of the document into words."""


@blueprint.get("/docs")
@open_to_all
async def show() -> ResponseReturnValue:
    """The reference; of the API it shows nothing that /api/openapi.json does not."""
    return await render(ReferencePage(described(), server_url(), TrialKeyPage(await _projects())))


@blueprint.post("/docs/key")
@signed_in
async def make_key() -> ResponseReturnValue:
    """Make a key for an hour, and show it, this once, to the forms of the page."""
    form = await sent_form(FORM.id)
    project_id = requested_project(form.sent)
    demand(actor(), Permission.EDIT_PROJECT, project_id)
    scopes = parse_scopes(scope for scope, _, _ in offered_permissions())
    async with services().sessions_of(project_id or "") as (session, cell):
        project = await projects.get(cell, project_id or "", is_locked=True)
        issued = await keys.issue_for_trying(session, services().clock(), actor(), project.id, scopes)
    until = formats.minute(local(services().clock() + keys.TRIED_FOR))
    return await render_once(TrialKeyPage(await _projects(), form, issued.secret, until))


async def _projects() -> tuple[tuple[str, str], ...]:
    """Return the projects that the reader may make keys for; none without the database, as the reference needs none."""
    with suppress(StoreUnavailable):
        listed = await services().cells.list_projects() if actor().scopes or actor().grants else ()
        return tuple((one.id, one.name) for one in listed if may(actor(), Permission.EDIT_PROJECT, one.id))
    return ()
