"""The page that explains how to send runs to a project, with a new key, until its first run arrives.

The project need not exist yet.
"""

from datetime import timedelta
from typing import ClassVar
from uuid import UUID

from msgspec.structs import replace
from quart import Blueprint, Response, request, url_for
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import keys
from runtally.access.projects import find_by_id
from runtally.access.scopes import Scope, may
from runtally.errors import InvalidName, InvalidPayload, NotFound
from runtally.fields import parse_project_id
from runtally.models.project import ApiKey, Project
from webapp import formats
from webapp.addresses import address_of, chosen_project, server_url
from webapp.assets import served_clients
from webapp.form import Form, sent_form
from webapp.pages.admin.clients import clients_table
from webapp.rendering import Page, done, no_content, render, render_once, see_other
from webapp.report import Table
from webapp.security import admin, project_editor
from webapp.snippets import EXAMPLE_PROJECT, SetupGuide, ways_to_send
from webapp.zone import local

PATH = "/projects/<project_id:project_id>/send"
NO_KEY = "YOUR_KEY"
SHOWN_CLIENTS = 20
KEY_FORM = Form("send", {"project": (EXAMPLE_PROJECT,), "name": ("production",)})

blueprint = Blueprint("send_runs", __name__)


LIFETIME = timedelta(days=90)
"""The time for which a key of this page is taken, as one of the settings is unless its maker chooses otherwise."""


class ArrivalPage(Page, frozen=True):
    """The message that runs have arrived; the browser asks every few seconds until then."""

    template: ClassVar[str] = "runs/_arrival.html"
    fragment: ClassVar[str] = "runs/_arrival.html"

    project_id: str
    waits_for: str | None
    """The text while no run has arrived; None after that."""
    received: str
    url: str
    """The URL to ask again."""


class SendPage(Page, frozen=True):
    """Each way to send runs, filled with the server's address, the project and the key."""

    template: ClassVar[str] = "runs/send_runs.html"
    fragment: ClassVar[str] = "runs/_send_runs.html"

    project_id: str
    project: Project | None
    """The project; None before its first run."""
    arrival: ArrivalPage
    ways: tuple[SetupGuide, ...]
    clients: Table | None
    """What came by OpenTelemetry, also before there is a run."""
    takes_project_keys: bool
    may_choose: bool
    """Whether the reader may send to a project of another name."""
    secret: str | None = None
    """A key that was just made: here once, and never again."""
    key_form: Form = KEY_FORM

    @property
    def document_title(self) -> str:
        return f"Send runs · {self.project.name if self.project else self.project_id}"


@blueprint.get("/send")
@admin
async def choose() -> ResponseReturnValue:
    """Go on to the page of a project, which may be a new one."""
    return see_other(url_for("send_runs.show", project_id=chosen_project(request.args) or EXAMPLE_PROJECT))


@blueprint.post("/send")
@admin
async def create_first_key() -> ResponseReturnValue:
    """Create a key for the project that the form names, which may be a new one."""
    form = await sent_form(KEY_FORM.id)
    try:
        project_id = parse_project_id(form.value("project"))
    except InvalidPayload:
        async with services().cells.for_project(EXAMPLE_PROJECT).database.session() as session:
            page = await _send_page(session, EXAMPLE_PROJECT)
        refused = form.refused(InvalidName("Enter a name of up to 128 characters."), "project")
        return await render(replace(page, may_choose=True, key_form=refused), 422)
    return await _with_new_key(project_id, form)


@blueprint.get(PATH)
@project_editor
async def show(project_id: str) -> ResponseReturnValue:
    """Show how to send runs to the project."""
    async with services().cells.for_project(project_id).database.session() as session:
        return await render(await _send_page(session, project_id))


@blueprint.post(PATH)
@project_editor
async def create_key(project_id: str) -> ResponseReturnValue:
    """Create a key for this project."""
    return await _with_new_key(project_id, await sent_form(KEY_FORM.id))


@blueprint.get(f"{PATH}/arrival")
@project_editor
async def arrival(project_id: str) -> ResponseReturnValue:
    """Answer that runs have arrived, or 204, on which the page stays unchanged and asks again."""
    async with services().sessions_of(project_id) as (session, cell):
        key_id = request.args.get("key", type=UUID)
        key = await keys.get(session, project_id, key_id) if key_id else None
        page = _arrival(project_id, await find_by_id(cell, project_id), key)
    if page.waits_for:
        return no_content()
    return await done(page, else_to=url_for("send_runs.show", project_id=project_id))


async def _with_new_key(project_id: str, form: Form) -> Response:
    """Create a key that sends runs, and show it this once, in everything that is to be pasted."""
    async with services().sessions_of(project_id) as (session, cell):
        page = await _send_page(cell, project_id)
        if not page.takes_project_keys:
            raise NotFound("This server accepts runs only with its shared key, INGEST_API_KEY.")
        try:
            issued = keys.issue(
                session,
                services().clock(),
                actor(),
                project_id=project_id,
                scopes=(Scope.RUNS_WRITE,),
                name=form.value("name"),
                lifetime=LIFETIME,
            )
        except InvalidName as error:
            return await render(replace(page, key_form=form.refused(error, "name")), 422)
        page = replace(
            page,
            secret=issued.secret,
            ways=_ways(project_id, issued.secret),
            arrival=_arrival(project_id, page.project, issued.row),
        )
    return await render_once(page)


async def _send_page(session: AsyncSession, project_id: str) -> SendPage:
    project = await find_by_id(session, project_id)
    return SendPage(
        project_id=project_id,
        project=project,
        arrival=_arrival(project_id, project, None),
        ways=_ways(project_id, NO_KEY),
        clients=await _clients(project_id),
        takes_project_keys=services().settings.ingest_project_keys,
        may_choose=project is None and may(actor(), Scope.ADMIN, None),
        key_form=replace(KEY_FORM, values={**KEY_FORM.values, "project": (project_id,)}),
    )


async def _clients(project_id: str) -> Table | None:
    async with services().cells.snapshots(project_id, is_current=True) as snapshots:
        return await clients_table(snapshots, project_id, SHOWN_CLIENTS, services().clock())


def _ways(project_id: str, key: str) -> tuple[SetupGuide, ...]:
    names_project = not services().settings.ingest_project_keys
    return ways_to_send(server_url(), key, project_id, names_project=names_project, clients=served_clients())


def _arrival(project_id: str, project: Project | None, key: ApiKey | None) -> ArrivalPage:
    """Wait for the project's first run, or for the first one with this key."""
    waits_for = None
    if project is None:
        waits_for = "the first run"
    elif key is not None and key.last_used_at is None:
        waits_for = "the first run with this key"
    return ArrivalPage(
        project_id=project_id,
        waits_for=waits_for,
        received=formats.minute(local(project.created_at)) if project else "",
        url=address_of("send_runs.arrival", {"key": key.id if key else None}, project_id=project_id),
    )
