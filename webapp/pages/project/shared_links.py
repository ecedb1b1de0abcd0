"""Shared links and public badges of a project, and the first page of a reader without an account."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from msgspec.structs import replace
from quart import Blueprint, Response, request
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.access import public
from api.current import actor, services
from runtally.access import embeds, passwords, projects, shared_links
from runtally.access.scopes import Scope, may
from runtally.access.shared_links import OpenLink
from runtally.audit import Actor, ActorKind
from runtally.errors import InvalidCredentials, InvalidLink, InvalidName, PasswordsBusy, RateLimited
from runtally.models.project import SharedLink
from webapp import sessions
from webapp.addresses import address_of, here, path_to, url_of
from webapp.form import Form, sent_form
from webapp.pages.project.settings import PATH, SettingsPage, back_to
from webapp.rendering import Page, render, render_refused, see_other
from webapp.security import project_editor

blueprint = Blueprint("shared_links", __name__)

SECTION = "shared_links.show"
EXPIRIES = (("7", "After 7 days"), ("30", "After 30 days"), ("90", "After 90 days"), ("", "Never"))
SHARED_FORM = Form("shared")
FORM = Form("link", {"expires": ("30",)})
REOPENED_FOR = timedelta(days=30)
GONE = "This link has expired or was removed. Ask the person who sent it for a new one."


class SharingPage(SettingsPage, frozen=True):
    """Who sees the project without an account: its links, and its badges."""

    fragment: ClassVar[str] = "project/settings/sharing.html"

    links: Sequence[SharedLink]
    now: datetime
    here: str | None
    """The page that is shared: what its query chooses, the links choose."""
    form: Form = FORM
    expiries: tuple[tuple[str, str], ...] = EXPIRIES

    def is_open(self, link: SharedLink) -> bool:
        return link.expires_at is None or link.expires_at > self.now

    def address_of(self, link: SharedLink) -> str:
        query = dict(parse_qsl((self.here or "").partition("?")[2]))
        return url_of(address_of("shared_links.open_link", query, token=link.token))


class OpeningPage(Page, frozen=True):
    """A link that asks for its password."""

    fragment: ClassVar[str] = "project/_shared.html"
    tab_title: ClassVar[str] = "Shared project"
    has_navigation: ClassVar[bool] = False

    url: str
    form: Form
    has_password: bool
    notice: str
    """Whose session would end; empty where nobody's would."""


@blueprint.get(f"{PATH}/links")
@project_editor
async def show(project_id: str) -> ResponseReturnValue:
    """The project's links and badges."""
    async with services().sessions_of(project_id) as (session, cell):
        return await render(await _page(session, cell, project_id))


@blueprint.post(f"{PATH}/links")
@project_editor
async def create(project_id: str) -> ResponseReturnValue:
    """Create a link."""
    form = await sent_form("link")
    password = form.value("password")
    hash_ = await passwords.hashed(password, sessions.source()) if password else None
    days = form.value("expires", EXPIRIES[0][0])
    async with services().sessions_of(project_id) as (session, cell):
        page = await _page(session, cell, project_id)
        if days not in dict(EXPIRIES):
            refused = form.refused(InvalidName("Choose when the link expires."), "expires")
            return await render(replace(page, form=refused), 422)
        try:
            link = await shared_links.create(
                session,
                services().clock(),
                actor(),
                project_id=project_id,
                name=form.value("name"),
                lifetime=timedelta(days=int(days)) if days else None,
                password_hash=hash_,
            )
        except InvalidName as error:
            return await render(replace(page, form=form.refused(error, "name")), 422)
    address = address_of(SECTION, {"here": request.args.get("here")}, project_id=project_id)
    return see_other(address, flash=f"Link created: {link.name}. Copy its address below.")


@blueprint.post(f"{PATH}/links/<uuid:link_id>/remove")
@project_editor
async def remove(project_id: str, link_id: UUID) -> ResponseReturnValue:
    """Remove a link."""
    async with services().control.database.session() as session:
        link = await shared_links.remove(session, actor(), project_id, link_id)
    return back_to(SECTION, project_id, f"Link removed: {link.name}. It no longer works.")


@blueprint.post(f"{PATH}/links/<uuid:link_id>/<any(close,open):act>")
@project_editor
async def set_open(project_id: str, link_id: UUID, act: str) -> ResponseReturnValue:
    """Close a link, which ends the access of everybody who used it, or open it again."""
    now = services().clock()
    until = now if act == "close" else now + REOPENED_FOR
    async with services().control.database.session() as session:
        link = await shared_links.set_expiry(session, actor(), project_id, link_id, until)
    said = (
        "Link closed: {}. It no longer works, until it is opened again." if act == "close" else "Link open again: {}."
    )
    return back_to(SECTION, project_id, said.format(link.name))


@blueprint.post(f"{PATH}/badges")
@project_editor
async def publish_badges(project_id: str) -> ResponseReturnValue:
    """Let everybody see badges of the project's metrics, or not."""
    is_public = (await sent_form()).value("badges") == "public"
    async with services().cells.for_project(project_id).database.session() as session:
        embeds.set_public_badges(session, actor(), await projects.get(session, project_id), is_public=is_public)
    said = "Metric badges are public." if is_public else "Metric badges need the token of the charts' address."
    return back_to(SECTION, project_id, said)


@blueprint.get("/shared/<token>")
@public
async def open_link(token: str) -> ResponseReturnValue:
    """Start a read-only session for the reader of a link, or ask for its password first."""
    link = await _find(token)
    reader = await sessions.holder()
    if reader is not None and may(reader, Scope.METRICS_READ, link.project_id):
        return _to_project(link)
    if reader is not None or link.password_hash is not None:
        return _unlisted(await render(_opening(link, reader)))
    await sessions.begin_by_link(token)
    return _to_project(link)


@blueprint.post("/shared/<token>")
@public
async def open_with_password(token: str) -> ResponseReturnValue:
    """Start a read-only session after the link's password, if it has one; a wrong one shows the form again."""
    link, form = await _find(token), await sent_form("shared")
    try:
        if link.password_hash is not None:
            await sessions.check_link_password(link, form.value("password"))
    except (InvalidCredentials, RateLimited, PasswordsBusy) as error:
        page = _opening(link, await sessions.holder(), form.refused(error, "password"))
        return _unlisted(await render_refused(page, error))
    await sessions.begin_by_link(token)
    return _to_project(link)


def _opening(link: OpenLink, reader: Actor | None, form: Form = SHARED_FORM) -> OpeningPage:
    notice = ""
    if reader is not None and reader.kind is ActorKind.LINK:
        notice = "Another shared project is open in this browser. This link takes its place."
    elif reader is not None:
        who = reader.label or "a key"
        notice = f"You are signed in as {who}, who can't read this project. Opening the link signs you out here."
    return OpeningPage(here(), form, link.password_hash is not None, notice)


async def _find(token: str) -> OpenLink:
    """Raises `InvalidLink`."""
    async with services().control.database.connection() as connection:
        link = await shared_links.find_by_token(connection, services().clock(), token)
    if link is None:
        raise InvalidLink(GONE)
    return link


def _to_project(link: OpenLink) -> Response:
    """With the range, filter and grouping that the address was given in its query."""
    path, query = path_to("project.project", project_id=link.project_id), urlencode([*request.args.items(multi=True)])
    return _unlisted(see_other(f"{path}?{query}" if query else path))


def _unlisted(response: Response) -> Response:
    """The address is a secret: it is not to be passed on to other sites, nor found by search."""
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Robots-Tag"] = "noindex"
    response.headers["Cache-Control"] = "no-store"
    return response


async def _page(session: AsyncSession, cell: AsyncSession, project_id: str) -> SharingPage:
    """Return the page. Raises `NotFound`."""
    project, now = await projects.get(cell, project_id), services().clock()
    links = await shared_links.list_links(session, project_id)
    shared = request.args.get("here")
    return SharingPage(project, SECTION, links, now, shared)
