"""The keys of a project: list, create, rotate and revoke them."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import ClassVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint, Response
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import keys, projects
from runtally.access.keys import IssuedKey, is_active
from runtally.access.scopes import Scope, parse_scopes
from runtally.errors import InvalidKey, InvalidName, InvalidScope
from runtally.models.project import ApiKey
from webapp import formats
from webapp.addresses import server_url
from webapp.form import Form, sent_form
from webapp.pages.project.settings import PATH, SettingsPage, back_to
from webapp.rendering import render, render_once
from webapp.security import project_editor
from webapp.snippets import Snippet, snippets
from webapp.zone import local

SECTION = "project_keys.show"
EXPIRIES = (("30", "After 30 days"), ("90", "After 90 days"), ("365", "After 1 year"), ("", "Never"))
OVERLAPS = (("24", "24 hours"), ("168", "7 days"), ("0", "Not at all"))
PERMISSIONS = (
    (Scope.RUNS_WRITE, "Send runs", "from your services, scripts and coding agents"),
    (Scope.METRICS_READ, "Read metrics", "cost, errors, latency and tokens"),
    (Scope.RUNS_READ, "Read runs", "one by one, in these pages"),
    (Scope.BUDGETS_WRITE, "Change budgets", "over the API"),
    (Scope.ALERTS_WRITE, "Change alerts", "over the API"),
    (Scope.EXPERIMENTS_WRITE, "Change experiments", "over the API"),
    (Scope.PROJECT_WRITE, "Change the project", "its name, retention, tracked keys and rules for names, over the API"),
)

blueprint = Blueprint("project_keys", __name__)


class ShownKey(Struct, frozen=True):
    """A key that was just made: here once, and never again."""

    secret: str
    permissions: str
    expires: str
    replaces: str | None
    snippets: tuple[Snippet, ...]


class KeysPage(SettingsPage, frozen=True):
    """A project's keys, with one that was just made or refused."""

    fragment: ClassVar[str] = "project/settings/keys.html"

    keys: tuple[ApiKey, ...]
    ended_keys: tuple[ApiKey, ...]
    now: datetime
    form: Form
    permissions: tuple[tuple[str, str, str], ...]
    """The permissions of a new key: value, name and meaning."""
    takes_project_keys: bool
    """Whether runs can be sent with a project key, and not only with the shared key."""
    new: ShownKey | None = None
    expiries: tuple[tuple[str, str], ...] = EXPIRIES
    overlaps: tuple[tuple[str, str], ...] = OVERLAPS

    def permissions_of(self, key: ApiKey) -> str:
        return _named(key.scopes)

    def state_of(self, key: ApiKey) -> str:
        if key.revoked_at is not None:
            return f"revoked {formats.day(local(key.revoked_at))}"
        if key.expires_at is None:
            return "active"
        return f"{'active until' if key.expires_at > self.now else 'expired'} {formats.minute(local(key.expires_at))}"


@blueprint.get(PATH)
@project_editor
async def show(project_id: str) -> ResponseReturnValue:
    """The project's keys, the first section of its settings."""
    async with services().sessions_of(project_id) as (session, cell):
        return await render(await _page(session, cell, project_id))


@blueprint.post(f"{PATH}/keys")
@project_editor
async def create(project_id: str) -> ResponseReturnValue:
    """Create a key and show it, this once."""
    form = await sent_form("key")
    async with services().sessions_of(project_id) as (session, cell):
        page = await _page(session, cell, project_id)
        try:
            scopes = _scopes(form.chosen("scopes"))
        except InvalidScope as error:
            return await render(replace(page, form=form.refused(error, "scopes")), 422)
        try:
            issued = keys.issue(
                session,
                services().clock(),
                actor(),
                project_id=project_id,
                scopes=scopes,
                name=form.value("name"),
                lifetime=_chosen(form.value("expires"), EXPIRIES, timedelta(days=1)),
            )
        except InvalidName as error:
            return await render(replace(page, form=form.refused(error, "name")), 422)
    return await _with_new(project_id, _shown(issued, server_url()))


@blueprint.post(f"{PATH}/keys/<uuid:key_id>/rotate")
@project_editor
async def rotate(project_id: str, key_id: UUID) -> ResponseReturnValue:
    """Make a successor and show it, this once; the old key works until the overlap is over."""
    form = await sent_form()
    overlap = _chosen(form.value("overlap"), OVERLAPS, timedelta(hours=1)) or timedelta(0)
    try:
        async with services().control.database.session() as session:
            key = await keys.get(session, project_id, key_id, is_locked=True)
            issued = keys.rotate(session, services().clock(), actor(), key, overlap)
    except InvalidKey as error:
        return back_to(SECTION, project_id, error.message)
    return await _with_new(project_id, _shown(issued, server_url(), key))


@blueprint.post(f"{PATH}/keys/<uuid:key_id>/revoke")
@project_editor
async def revoke(project_id: str, key_id: UUID) -> ResponseReturnValue:
    """Refuse the key from now on."""
    async with services().control.database.session() as session:
        key = await keys.get(session, project_id, key_id, is_locked=True)
        keys.revoke(session, services().clock(), actor(), key)
    return back_to(SECTION, project_id, f"{key.prefix} is revoked; requests with it are refused.")


async def _with_new(project_id: str, new: ShownKey) -> Response:
    """The page with the new key: no redirect, because the key must not be kept anywhere on the way."""
    async with services().sessions_of(project_id) as (session, cell):
        page = await _page(session, cell, project_id)
    return await render_once(replace(page, new=new))


def _scopes(names: tuple[str, ...]) -> tuple[Scope, ...]:
    scopes = parse_scopes(names)
    if not scopes or not {scope for scope, _, _ in offered_permissions()}.issuperset(scopes):
        raise InvalidScope("Choose at least one of these.")
    return scopes


def _chosen(sent: str, choices: tuple[tuple[str, str], ...], unit: timedelta) -> timedelta | None:
    """Parse one of the offered durations, the first one by default; None for no end."""
    number = sent if sent in dict(choices) else choices[0][0]
    return int(number) * unit if number else None


async def _page(session: AsyncSession, cell: AsyncSession, project_id: str) -> KeysPage:
    """Return the page. Raises `NotFound`."""
    project, now = await projects.get(cell, project_id), services().clock()
    rows = await keys.of_project(session, project_id)
    permissions = offered_permissions()
    return KeysPage(
        project,
        SECTION,
        keys=tuple(key for key in rows if is_active(key, now)),
        ended_keys=tuple(key for key in rows if not is_active(key, now)),
        now=now,
        form=Form("key", {"scopes": permissions[0][:1], "expires": ("90",)}),
        permissions=permissions,
        takes_project_keys=services().settings.ingest_project_keys,
    )


def offered_permissions() -> tuple[tuple[str, str, str], ...]:
    """Return the permissions that a new key may have, without ingest if the server accepts only its shared key."""
    takes_project_keys = services().settings.ingest_project_keys
    return tuple(
        permission for permission in PERMISSIONS if takes_project_keys or permission[0] is not Scope.RUNS_WRITE
    )


def _shown(issued: IssuedKey, server_url: str, replaces: ApiKey | None = None) -> ShownKey:
    row = issued.row
    return ShownKey(
        secret=issued.secret,
        permissions=_named(row.scopes),
        expires=formats.minute(local(row.expires_at)) if row.expires_at else "never",
        replaces=replaces.prefix if replaces else None,
        snippets=snippets(server_url, issued.secret, row.project_id or "", row.scopes),
    )


def _named(scopes: Collection[str]) -> str:
    """Name what a key may do, in the order of the form."""
    return ", ".join(name for scope, name, _ in PERMISSIONS if scope in scopes)
