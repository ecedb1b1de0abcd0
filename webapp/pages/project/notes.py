"""Notes on dates of a project: a list, a form for another, and a button to delete each."""

from datetime import datetime
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from quart import Blueprint
from quart.typing import ResponseReturnValue
from sqlmodel.ext.asyncio.session import AsyncSession

from api.current import actor, services
from runtally.access import notes, projects
from runtally.errors import Detail, InvalidNote
from webapp import formats, zone
from webapp.form import Form, sent_form
from webapp.pages.project.settings import PATH, SettingsPage, back_to
from webapp.rendering import render
from webapp.security import project_editor

SECTION = "project_notes.show"
FORM = Form("note")

blueprint = Blueprint("project_notes", __name__)


class NoteRow(Struct, frozen=True):
    """A note of the list."""

    id: int
    at: str
    text: str
    tag: str | None
    author: str


class NotesPage(SettingsPage, frozen=True):
    """The notes of a project."""

    fragment: ClassVar[str] = "project/settings/notes.html"

    rows: tuple[NoteRow, ...]
    form: Form
    zone: str
    """The zone of the form's time, in words."""


@blueprint.get(f"{PATH}/notes")
@project_editor
async def show(project_id: str) -> ResponseReturnValue:
    """The latest notes, and a form for another."""
    async with services().cells.of(project_id).database.session() as session:
        return await render(await _page(session, project_id))


@blueprint.post(f"{PATH}/notes")
@project_editor
async def add(project_id: str) -> ResponseReturnValue:
    """Keep what the form says."""
    form, now = await sent_form(FORM.id), services().clock()
    async with services().cells.of(project_id).database.session() as session:
        page = await _page(session, project_id)
        try:
            at = _moment(form.value("at"))
            text, tag = form.value("text"), form.value("tag")
            await notes.add(session, actor(), project_id, text=text, tag=tag, at=at, now=now)
        except InvalidNote as error:
            return await render(replace(page, form=form.refused(error)), 422)
    return back_to(SECTION, project_id, "Note added. The project's charts mark it.")


@blueprint.post(f"{PATH}/notes/<row:note_id>/remove")
@project_editor
async def remove(project_id: str, note_id: int) -> ResponseReturnValue:
    """Delete a note."""
    async with services().cells.of(project_id).database.session() as session:
        await notes.remove(session, actor(), project_id, note_id)
    return back_to(SECTION, project_id, "Note deleted.")


def _moment(text: str) -> datetime | None:
    """Read a time in the reader's zone; nothing stands for now. Raises `InvalidNote`."""
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        return at if at.tzinfo else at.replace(tzinfo=zone.current())
    except ValueError:
        raise InvalidNote(
            details=(Detail("at", "Enter a time such as 2026-12-01T09:30, or leave it empty."),)
        ) from None


async def _page(session: AsyncSession, project_id: str) -> NotesPage:
    """Return the page. Raises `NotFound`."""
    project = await projects.get(session, project_id)
    rows = tuple(
        NoteRow(one.id or 0, formats.moment(zone.local(one.at)), one.text, one.tag, one.author)
        for one in await notes.list_latest(session, project_id)
    )
    return NotesPage(project, SECTION, rows, FORM, zone.words())
