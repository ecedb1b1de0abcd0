"""The settings of a project: keys, alerts, sharing, name, retention, hiding and deletion."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import ClassVar

from quart import Blueprint, Response, url_for
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import keys as project_keys
from runtally.access import projects
from runtally.access.erasure import Places, erase_project
from runtally.access.keys import IssuedKey, is_active
from runtally.access.scopes import Scope, may
from runtally.alerts import rule_edit
from runtally.errors import InvalidName, InvalidRetention
from runtally.fields import parse_whole
from runtally.models.project import KEPT_FOR_EVER, ApiKey, Project
from webapp import formats
from webapp.form import Form, sent_form
from webapp.pages.project.alerts_part import AlertsPart, alerts_part
from webapp.pages.project.names_part import NamesPart, names_part
from webapp.pages.project.paths import PATH
from webapp.pages.project.shared_links import LinksPart, links_part
from webapp.pages.project.tracked_keys_part import TrackedKeysPart, tracked_keys_part
from webapp.rendering import Page, render, see_other
from webapp.security import admin, project_editor
from webapp.snippets import Snippet, snippets
from webapp.zone import local

EXPIRIES = (("30", "After 30 days"), ("90", "After 90 days"), ("365", "After 1 year"), ("", "Never"))
OVERLAPS = (("24", "24 hours"), ("168", "7 days"), ("0", "Not at all"))
PERMISSIONS = (
    (Scope.RUNS_WRITE, "Send runs", "from your services, scripts and coding agents"),
    (Scope.METRICS_READ, "Read metrics", "cost, errors, latency and tokens"),
    (Scope.RUNS_READ, "Read runs", "one by one, in these pages"),
)
RETENTIONS = (31, 60, 90, 180, 365, 730)
"""Days that are offered; the command line takes others."""
NAME_FORM = Form("name")
RETENTION_FORM = Form("retention")
DELETE_FORM = Form("delete")

blueprint = Blueprint("project_settings", __name__)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A key of the list; the key itself is nowhere."""

    id: str
    name: str | None
    prefix: str
    permissions: str
    state: str
    used: str
    created: str
    is_active: bool


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key that was just made: here once, and never again."""

    secret: str
    permissions: str
    expires: str
    replaces: str | None
    snippets: tuple[Snippet, ...]


@dataclass(frozen=True, slots=True)
class Retention:
    """The choices for how long runs are kept, and the result of the current one."""

    choices: tuple[tuple[str, str], ...]
    chosen: str
    dropped_before: str | None
    is_archiving: bool
    """Whether old runs go into the archive instead of being deleted."""

    @classmethod
    def of(cls, project: Project, default_days: int | None, *, is_archiving: bool) -> "Retention":
        own = project.retention_days
        days = sorted({*RETENTIONS, *([own] if own else [])})
        return cls(
            choices=(
                ("", f"Server default ({_kept(default_days, 'keep forever')})"),
                *((str(each), _kept(each)) for each in days),
                (str(KEPT_FOR_EVER), _kept(KEPT_FOR_EVER)),
            ),
            chosen="" if own is None else str(own),
            dropped_before=formats.day(project.dropped_before) if project.dropped_before else None,
            is_archiving=is_archiving,
        )


def _days(text: str) -> int | None:
    """Parse the number of days. Raises `InvalidRetention`."""
    if not text:
        return None
    days = parse_whole(text)
    if days is None:
        raise InvalidRetention
    return days


def _kept(days: int | None, without_end: str = "Forever") -> str:
    return f"{days:,} days" if days else without_end


@dataclass(frozen=True, slots=True)
class SettingsPage(Page):
    """A project's settings, with what was just made or refused."""

    template: ClassVar[str] = "project/settings.html"
    fragment: ClassVar[str] = "project/_project_settings.html"

    project: Project
    keys: tuple[KeyRow, ...]
    ended_keys: tuple[KeyRow, ...]
    may_delete: bool
    alerts: AlertsPart
    rules_form: Form
    names: NamesPart
    links: LinksPart
    has_public_charts: bool
    has_public_badges: bool
    retention: Retention
    tracked: TrackedKeysPart
    key_form: Form
    permissions: tuple[tuple[str, str, str], ...]
    """The permissions of a new key: value, name and meaning."""
    takes_project_keys: bool
    """Whether runs can be sent with a project key, and not only with the shared key."""
    new: ShownKey | None = None
    name_form: Form = NAME_FORM
    delete_form: Form = DELETE_FORM
    expiries: tuple[tuple[str, str], ...] = EXPIRIES
    overlaps: tuple[tuple[str, str], ...] = OVERLAPS
    retention_form: Form = RETENTION_FORM

    @property
    def document_title(self) -> str:
        return f"Settings · {self.project.name}"


@blueprint.get(PATH)
@project_editor
async def settings(project_id: str) -> ResponseReturnValue:
    """The project's settings."""
    async with services().sessions_of(project_id) as (control, session):
        return await render(await settings_page(control, session, project_id))


@blueprint.post(f"{PATH}/name")
@project_editor
async def rename(project_id: str) -> ResponseReturnValue:
    """Change the name that pages show."""
    form = await sent_form("name")
    async with services().sessions_of(project_id) as (control, session):
        page = await settings_page(control, session, project_id)
        try:
            await projects.rename(session, actor(), project_id, form.value("name"))
        except InvalidName as error:
            return await render(replace(page, name_form=form.refused(error, "name")), 422)
    return back_to_settings(project_id, "Name saved.", "#naming")


@blueprint.post(f"{PATH}/retention")
@project_editor
async def retain(project_id: str) -> ResponseReturnValue:
    """Change how long runs are kept."""
    form = await sent_form("retention")
    async with services().sessions_of(project_id) as (control, session):
        page = await settings_page(control, session, project_id)
        try:
            await projects.retain(session, actor(), project_id, _days(form.value("days")))
        except InvalidRetention as error:
            return await render(replace(page, retention_form=form.refused(error, "days")), 422)
    return back_to_settings(
        project_id,
        f"Saved. Older runs are {'archived' if services().cells.of(project_id).archive else 'deleted'} within minutes.",
        "#retention",
    )


@blueprint.post(f"{PATH}/hide")
@project_editor
async def hide(project_id: str) -> ResponseReturnValue:
    """Hide the project from the overview."""
    async with services().cells.of(project_id).database.session() as session:
        await projects.hide(session, actor(), project_id, services().clock())
    return back_to_settings(project_id, "Project hidden. New runs are still accepted.", "#hiding")


@blueprint.post(f"{PATH}/show-again")
@project_editor
async def show_again(project_id: str) -> ResponseReturnValue:
    """Show the project in the overview again."""
    async with services().cells.of(project_id).database.session() as session:
        await projects.show_again(session, actor(), project_id)
    return back_to_settings(project_id, "Project shown in the overview again.", "#hiding")


@blueprint.post(f"{PATH}/delete")
@admin
async def delete(project_id: str) -> ResponseReturnValue:
    """Delete the project with its runs and keys, if its name was typed."""
    form = await sent_form("delete")
    async with services().sessions_of(project_id) as (control, session):
        page = await settings_page(control, session, project_id)
    if form.value("typed").strip() != page.project.name:
        refused = form.refused(InvalidName("This is not the project's name; nothing was deleted."), "typed")
        return await render(replace(page, delete_form=refused), 422)
    cell = services().cells.of(project_id)
    places = Places(services().control.database, cell.database, cell.reporting.database, cell.archive)
    runs = await erase_project(places, actor(), project_id)
    return see_other(url_for("overview.overview"), flash=f"{page.project.name} and its {runs:,} runs are deleted.")


def back_to_settings(project_id: str, said: str, at: str = "") -> Response:
    """After a form of theirs: on to the page, or to this part of it, which says once what was done."""
    return see_other(f"{url_for('project_settings.settings', project_id=project_id)}{at}", flash=said)


async def settings_page(control: AsyncSession, session: AsyncSession, project_id: str) -> SettingsPage:
    """Return the project. Raises `NotFound`."""
    project, now = await projects.get(session, project_id), services().clock()
    found = await project_keys.of_project(control, project_id)
    rows = [_row(key, now) for key in found]
    permissions = offered_permissions()
    return SettingsPage(
        project=project,
        keys=tuple(row for row in rows if row.is_active),
        ended_keys=tuple(row for row in rows if not row.is_active),
        may_delete=may(actor(), Scope.ADMIN, None),
        alerts=await alerts_part(session, project_id, services().channels, now),
        names=await names_part(session, project_id),
        rules_form=Form("rules", rule_edit.as_fields(await rule_edit.list_rules(session, project_id))),
        links=await links_part(control, project_id, now),
        has_public_charts=project.embed_token is not None,
        has_public_badges=project.has_public_badges,
        key_form=Form("key", {"scopes": permissions[0][:1], "expires": ("90",)}),
        permissions=permissions,
        takes_project_keys=services().settings.ingest_project_keys,
        retention=Retention.of(
            project,
            services().settings.retention_days,
            is_archiving=services().cells.of(project_id).archive is not None,
        ),
        tracked=await tracked_keys_part(session, project_id, now),
    )


def offered_permissions() -> tuple[tuple[str, str, str], ...]:
    """Return the permissions that a new key may have, without ingest if the server accepts only its shared key."""
    takes_project_keys = services().settings.ingest_project_keys
    return tuple(one for one in PERMISSIONS if takes_project_keys or one[0] is not Scope.RUNS_WRITE)


def shown_key(issued: IssuedKey, server_url: str, replaces: ApiKey | None = None) -> ShownKey:
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


def _state(key: ApiKey, now: datetime) -> str:
    if key.revoked_at is not None:
        return f"revoked {formats.day(local(key.revoked_at))}"
    if key.expires_at is None:
        return "active"
    return f"{'active until' if key.expires_at > now else 'expired'} {formats.minute(local(key.expires_at))}"


def _row(key: ApiKey, now: datetime) -> KeyRow:
    return KeyRow(
        id=str(key.id),
        name=key.name,
        prefix=key.prefix,
        permissions=_named(key.scopes),
        state=_state(key, now),
        used=f"used {formats.ago(key.last_used_at, now)}" if key.last_used_at else "never used",
        created=formats.ago(key.created_at, now),
        is_active=is_active(key, now),
    )
