"""The tracked keys of a project: tracked ones, suggestions, and forms to track and untrack a key."""

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally import tracking
from runtally.access import projects
from runtally.errors import InvalidTrackedKey
from runtally.models.dimension import MAX_TRACKED_KEYS, KeyState
from webapp.form import Form, sent_form
from webapp.pages.project.settings import PATH, SettingsPage, back_to
from webapp.rendering import render
from webapp.security import project_editor

SECTION = "project_tracked_keys.show"
FORM = Form("track")

blueprint = Blueprint("project_tracked_keys", __name__)


class TrackedKeyRow(Struct, frozen=True):
    """A key that is tracked, or whose sums are being deleted."""

    key: str
    facts: tuple[str, ...]
    percent: int | None
    """Share of the past that is counted, while it is being counted."""
    may_untrack: bool


class Suggestion(Struct, frozen=True):
    """A key that runs have and that is not tracked."""

    key: str
    said: str


class TrackedKeysPage(SettingsPage, frozen=True):
    """The tracked keys, their progress, and suggestions."""

    fragment: ClassVar[str] = "project/settings/tracked_keys.html"

    rows: tuple[TrackedKeyRow, ...]
    suggestions: tuple[Suggestion, ...]
    most: int = MAX_TRACKED_KEYS
    form: Form = FORM

    @property
    def count(self) -> int:
        return sum(row.may_untrack for row in self.rows)

    @property
    def is_under_way(self) -> bool:
        """Whether a key is being filled or deleted, so that the section should refresh itself."""
        return any(row.percent is not None or not row.may_untrack for row in self.rows)


@blueprint.get(f"{PATH}/tracked-keys")
@project_editor
async def show(project_id: str) -> ResponseReturnValue:
    """The project's tracked keys."""
    async with services().cells.of(project_id).database.session() as session:
        return await render(await _page(session, project_id))


@blueprint.post(f"{PATH}/tracked-keys")
@project_editor
async def track(project_id: str) -> ResponseReturnValue:
    """Track a key: its runs count from now on, and a job counts those of before."""
    form = await sent_form(FORM.id)
    async with services().cells.of(project_id).database.session() as session:
        page = await _page(session, project_id)
        try:
            await tracking.track(session, actor(), project_id, form.value("key"), services().clock())
        except InvalidTrackedKey as error:
            return await render(replace(page, form=form.refused(error, "key")), 422)
    return back_to(SECTION, project_id, "Key tracked. Earlier runs are counted in the background.")


@blueprint.post(f"{PATH}/tracked-keys/untrack")
@project_editor
async def untrack(project_id: str) -> ResponseReturnValue:
    """Track a key no more: a job deletes its sums. Its runs keep it."""
    form = await sent_form(FORM.id)
    async with services().cells.of(project_id).database.session() as session:
        await tracking.untrack(session, actor(), project_id, form.value("key"), services().clock())
    return back_to(SECTION, project_id, "Key no longer tracked. Its totals are deleted; runs keep the key.")


async def _page(session: AsyncSession, project_id: str) -> TrackedKeysPage:
    """Return the page. Raises `NotFound`."""
    project = await projects.get(session, project_id)
    tracked = await tracking.list_keys(session, project_id, services().clock())
    seen = await tracking.list_seen(session, project_id)
    return TrackedKeysPage(
        project,
        SECTION,
        tuple(_row(one) for one in tracked),
        tuple(
            Suggestion(one.key, f"{one.values:,} {'value' if one.values == 1 else 'values'} in {one.runs:,} runs")
            for one in seen
        ),
    )


def _row(tracked: tracking.Tracked) -> TrackedKeyRow:
    percent = int(100 * tracked.filled) if tracked.state is KeyState.FILLING else None
    is_dropping, since = tracked.state is KeyState.DROPPING, tracked.complete_since
    state = (
        f"Counting earlier runs: {percent}%" if percent is not None else "Deleting its totals" if is_dropping else ""
    )
    lacks = f"Totals since {since.isoformat()}: earlier runs were deleted before it became tracked" if since else ""
    return TrackedKeyRow(tracked.key, tuple(filter(None, (state, lacks))), percent, not is_dropping)
