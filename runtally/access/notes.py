"""Notes on dates of a project, such as "switched to prompt v2", which its charts mark beside releases and price changes."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import func
from sqlmodel import col, or_, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.access import projects
from runtally.audit import Actor, Change, record
from runtally.errors import Detail, InvalidNote, NotFound
from runtally.fields import MAX_ROW, parse_whole, trimmed
from runtally.models.project import Note

MAX_TEXT = 200
MAX_TAG = 64
MAX_NOTES = 5_000
LISTED = 100
_FIRST = datetime(2000, 1, 1, tzinfo=UTC)
_MOST_AHEAD = timedelta(days=366)


async def list_latest(session: AsyncSession, project_id: str, tag: str | None = None) -> Sequence[Note]:
    """List the notes with the latest dates, the latest first; with a tag those about all runs, or about runs with it."""
    query = select(Note).where(Note.project_id == project_id)
    if tag is not None:
        query = query.where(or_(col(Note.tag).is_(None), Note.tag == tag))
    return (await session.exec(query.order_by(col(Note.at).desc(), col(Note.id).desc()).limit(LISTED))).all()


async def add(  # noqa: PLR0913  # What says what the note is has its name at the call.
    session: AsyncSession, by: Actor, project_id: str, *, text: str, tag: str | None, at: datetime | None, now: datetime
) -> Note:
    """Add a note, by default about this moment. Raises `InvalidNote` with every field that is wrong, and `NotFound`."""
    text, tag, at = trimmed(text), trimmed(tag or "") or None, at or now
    if wrong := tuple(_wrong(text, tag, at, now)):
        raise InvalidNote(details=wrong)
    await projects.get(session, project_id, is_locked=True)
    number = (await session.exec(select(func.count()).where(Note.project_id == project_id))).one()
    if number >= MAX_NOTES:
        raise InvalidNote(f"A project has at most {MAX_NOTES:,} notes; delete some first.")
    note = Note(project_id=project_id, at=at, text=text, tag=tag, author=by.label or by.name)
    session.add(note)
    await session.flush()
    record(session, by, Change("note.added", text, project_id, after={"at": at, "tag": tag}))
    return note


async def remove(session: AsyncSession, by: Actor, project_id: str, note_id: str | int) -> None:
    """Delete a note. Raises `NotFound`."""
    number = parse_whole(str(note_id), MAX_ROW)
    note = await session.get(Note, number, with_for_update=True) if number is not None else None
    if note is None or note.project_id != project_id:
        raise NotFound("This project has no such note.")
    await session.delete(note)
    record(session, by, Change("note.removed", note.text, project_id, {"at": note.at, "tag": note.tag}))


def _wrong(text: str, tag: str | None, at: datetime, now: datetime) -> Iterator[Detail]:
    if not 0 < len(text) <= MAX_TEXT or "\0" in text:
        yield Detail("text", f"Say what happened in 1 to {MAX_TEXT} characters.")
    if tag is not None and (len(tag) > MAX_TAG or "\0" in tag):
        yield Detail("tag", f"Give a tag of at most {MAX_TAG} characters, or none.")
    if not _FIRST <= at <= now + _MOST_AHEAD:
        yield Detail("at", "Enter a time such as 2026-12-01T09:30, from the year 2000 to a year from now.")
