"""Lists of a project's settings: notes on dates, how people's names are stored, and tracked keys.

Each has a form for another one, and a button that takes one away.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import ClassVar

from msgspec.structs import replace
from quart import Blueprint
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally import names as name_rules
from runtally import tracking
from runtally.access import notes as project_notes
from runtally.access import projects
from runtally.errors import InvalidNameRule, InvalidNote, InvalidTrackedKey, StoreUnavailable
from runtally.models.dimension import MAX_TRACKED_KEYS, KeyState
from runtally.models.project import NameStorage, Note
from runtally.usage.dimensions import canonical_key
from webapp import zone
from webapp.form import Form, sent_form
from webapp.pages.project.settings import PATH, SettingsPage, back_to
from webapp.rendering import render
from webapp.security import project_editor

NOTES, NAMES, TRACKED_KEYS = "project_lists.notes", "project_lists.names", "project_lists.tracked_keys"
NOTE_FORM, NAMES_FORM, KEY_FORM = Form("note"), Form("names", {"key": ("user",)}), Form("track")
STORAGES = (
    (NameStorage.HASHED.value, "As a hash"),
    (NameStorage.DROPPED.value, "Not at all"),
    (NameStorage.PLAIN.value, "As sent, hidden from people who may not read runs"),
)
SAID = {
    NameStorage.HASHED.value: " Budgets count a name and its hash as one. A filter by a name finds only runs from before; later ones "
    "have the hash.",
    NameStorage.DROPPED.value: " Budgets by these values count no new runs, and filters find only runs from before.",
}
"""What happens to budgets and filters by the values of a key."""

blueprint = Blueprint("project_lists", __name__)


async def _shown(
    project_id: str, page_of: Callable[[AsyncSession, str], Awaitable[SettingsPage]]
) -> ResponseReturnValue:
    async with services().cells.for_project(project_id).database.session() as session:
        return await render(await page_of(session, project_id))


class NotesPage(SettingsPage, frozen=True):
    """The notes of a project."""

    fragment: ClassVar[str] = "project/settings/notes.html"

    rows: Sequence[Note]
    zone: str
    """The zone of the form's time, in words."""
    form: Form = NOTE_FORM


@blueprint.get(f"{PATH}/notes")
@project_editor
async def notes(project_id: str) -> ResponseReturnValue:
    """The latest notes, and a form for another."""
    return await _shown(project_id, _notes_page)


@blueprint.post(f"{PATH}/notes")
@project_editor
async def add_note(project_id: str) -> ResponseReturnValue:
    """Keep what the form says."""
    form, now = await sent_form(NOTE_FORM.id), services().clock()
    async with services().cells.for_project(project_id).database.session() as session:
        page = await _notes_page(session, project_id)
        try:
            at = _moment(form.value("at"))
            text, tag = form.value("text"), form.value("tag")
            await project_notes.add(session, actor(), project_id, text=text, tag=tag, at=at, now=now)
        except InvalidNote as error:
            return await render(replace(page, form=form.refused(error)), 422)
    return back_to(NOTES, project_id, "Note added. The project's charts mark it.")


@blueprint.post(f"{PATH}/notes/<row:note_id>/remove")
@project_editor
async def remove_note(project_id: str, note_id: int) -> ResponseReturnValue:
    """Delete a note."""
    async with services().cells.for_project(project_id).database.session() as session:
        await project_notes.remove(session, actor(), project_id, note_id)
    return back_to(NOTES, project_id, "Note deleted.")


def _moment(text: str) -> datetime | None:
    """Read a time in the reader's zone; nothing stands for now, and what is no time for one that no note can have."""
    with suppress(ValueError):
        at = datetime.fromisoformat(text.strip()) if text.strip() else None
        return at if at is None or at.tzinfo else at.replace(tzinfo=zone.current())
    return datetime.min.replace(tzinfo=UTC)


async def _notes_page(session: AsyncSession, project_id: str) -> NotesPage:
    """Return the page. Raises `NotFound`."""
    project = await projects.get(session, project_id)
    return NotesPage(project, NOTES, await project_notes.list_latest(session, project_id), zone.words())


class NamesPage(SettingsPage, frozen=True):
    """The keys whose values a project stores in a form of its own."""

    fragment: ClassVar[str] = "project/settings/names.html"

    rows: tuple[tuple[str, str], ...]
    """Key, and how its values are stored."""
    form: Form
    storages: tuple[tuple[str, str], ...] = STORAGES


@blueprint.get(f"{PATH}/names")
@project_editor
async def names(project_id: str) -> ResponseReturnValue:
    """The project's rules for people's names."""
    return await _shown(project_id, _names_page)


@blueprint.post(f"{PATH}/names")
@project_editor
async def set_rule(project_id: str) -> ResponseReturnValue:
    """Store the values of a key in another form from now on."""
    form = await sent_form(NAMES_FORM.id)
    async with services().cells.for_project(project_id).database.session() as session:
        await projects.get(session, project_id, is_locked=True)
        page = await _names_page(session, project_id)
        if conflict := form.conflict_with(_stored(page, form), storage=dict(STORAGES)):
            return await render(replace(page, form=conflict), 422)
        now, can_hash = services().clock(), services().names.can_hash
        try:
            await name_rules.set_rule(
                session, actor(), project_id, form.value("key"), form.value("storage"), now, can_hash=can_hash
            )
        except InvalidNameRule as error:
            return await render(replace(page, form=form.refused(error, "key")), 422)
    await _apply(project_id)
    return back_to(
        NAMES, project_id, f"Saved. It applies to new runs within seconds.{SAID.get(form.value('storage'), '')}"
    )


@blueprint.post(f"{PATH}/names/remove")
@project_editor
async def remove_rule(project_id: str) -> ResponseReturnValue:
    """Remove a key's rule, so that its values are stored as they are sent."""
    form = await sent_form(NAMES_FORM.id)
    async with services().cells.for_project(project_id).database.session() as session:
        await name_rules.remove_rule(session, actor(), project_id, form.value("key"))
    await _apply(project_id)
    return back_to(NAMES, project_id, "Removed. Values are stored as they are sent.")


async def _apply(project_id: str) -> None:
    """Read the rules at once. They are committed: if they cannot be read now, the next pass of the job reads them."""
    with suppress(StoreUnavailable):
        await services().cells.for_project(project_id).names.refresh()


async def _names_page(session: AsyncSession, project_id: str) -> NamesPage:
    """Return the page. Raises `NotFound`."""
    words, project = dict(STORAGES), await projects.get(session, project_id)
    rows = tuple((rule.key, words[rule.storage]) for rule in await name_rules.list_rules(session, project_id))
    return NamesPage(project, NAMES, rows, NAMES_FORM.at_version(rows))


def _stored(page: NamesPage, sent: Form) -> Form:
    """Return the form of the key that one names, whose version is that of the list above it."""
    words = dict(page.rows).get(canonical_key(sent.value("key")))
    values = {"storage": next(storage for storage, one in STORAGES if one == words)} if words else {}
    return Form.showing(NAMES_FORM.id, values, of=page.rows)


class TrackedKeysPage(SettingsPage, frozen=True):
    """The tracked keys, their progress, and suggestions."""

    fragment: ClassVar[str] = "project/settings/tracked_keys.html"

    rows: Sequence[tracking.Tracked]
    """Keys that are tracked, or whose sums are being deleted."""
    suggestions: Sequence[tracking.SeenKey]
    """Keys that runs have and that are not tracked."""
    most: int = MAX_TRACKED_KEYS
    form: Form = KEY_FORM

    @property
    def count(self) -> int:
        return sum(row.state is not KeyState.DROPPING for row in self.rows)

    @property
    def is_under_way(self) -> bool:
        """Whether a key is being filled or deleted, so that the section should refresh itself."""
        return any(row.state in {KeyState.FILLING, KeyState.DROPPING} for row in self.rows)

    def facts_of(self, row: tracking.Tracked) -> Iterator[str]:
        if row.state is KeyState.FILLING:
            yield f"Counting earlier runs: {int(100 * row.filled)}%"
        elif row.state is KeyState.DROPPING:
            yield "Deleting its totals"
        if row.complete_since:
            yield f"Totals since {row.complete_since}: earlier runs were deleted before it became tracked"


@blueprint.get(f"{PATH}/tracked-keys")
@project_editor
async def tracked_keys(project_id: str) -> ResponseReturnValue:
    """The project's tracked keys."""
    return await _shown(project_id, _keys_page)


@blueprint.post(f"{PATH}/tracked-keys")
@project_editor
async def track(project_id: str) -> ResponseReturnValue:
    """Track a key: its runs count from now on, and a job counts those of before."""
    form = await sent_form(KEY_FORM.id)
    async with services().cells.for_project(project_id).database.session() as session:
        page = await _keys_page(session, project_id)
        try:
            await tracking.track(session, actor(), project_id, form.value("key"), services().clock())
        except InvalidTrackedKey as error:
            return await render(replace(page, form=form.refused(error, "key")), 422)
    return back_to(TRACKED_KEYS, project_id, "Key tracked. Earlier runs are counted in the background.")


@blueprint.post(f"{PATH}/tracked-keys/untrack")
@project_editor
async def untrack(project_id: str) -> ResponseReturnValue:
    """Track a key no more: a job deletes its sums. Its runs keep it."""
    form = await sent_form(KEY_FORM.id)
    async with services().cells.for_project(project_id).database.session() as session:
        await tracking.untrack(session, actor(), project_id, form.value("key"), services().clock())
    return back_to(TRACKED_KEYS, project_id, "Key no longer tracked. Its totals are deleted; runs keep the key.")


async def _keys_page(session: AsyncSession, project_id: str) -> TrackedKeysPage:
    """Return the page. Raises `NotFound`."""
    project = await projects.get(session, project_id)
    tracked = await tracking.list_keys(session, project_id, services().clock())
    return TrackedKeysPage(project, TRACKED_KEYS, tracked, await tracking.list_seen(session, project_id))
