"""/api/notes: notes on dates, which charts mark; from CI or by a program."""

from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint, request
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.current import actor, services
from api.operation import Answer, Content, Operation, documents
from api.reply import Success, answered, reply
from api.sent import asked_as, sent_as
from runtally.access import notes
from runtally.access.scopes import Scope, demand
from runtally.errors import (
    Forbidden,
    InvalidJson,
    InvalidNote,
    InvalidPayload,
    NotFound,
    ProjectNotInferred,
    StoreUnavailable,
)
from runtally.fields import MAX_ROW, ProjectId, camel, parse_project_id

blueprint = Blueprint("notes", __name__, url_prefix="/api/notes")

Tag = Annotated[str | None, Meta(description="A tag of runs that it is about; without one it is about all.")]


class NoteInfo(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """A note on a date."""

    id: int
    project_id: str
    at: Annotated[str, Meta(description="The moment, UTC.", extra_json_schema={"format": "date-time"})]
    text: str
    tag: Tag
    author: str


class NoteAnswer(Success, frozen=True, kw_only=True):
    """A note."""

    note: NoteInfo


class NoteList(Success, frozen=True, kw_only=True):
    """Notes of a project, the latest date first."""

    notes: tuple[NoteInfo, ...]


class SentNote(msgspec.Struct, frozen=True, kw_only=True, rename=camel, forbid_unknown_fields=True):
    """What happened, and when."""

    text: Annotated[str, Meta(min_length=1, max_length=notes.MAX_TEXT, description="Such as: switched to prompt v2.")]
    at: Annotated[datetime | None, Meta(description="The moment; UTC without an offset. By default now.")] = None
    tag: Tag = None
    project_id: Annotated[str | None, Meta(description="By default the project of the key.")] = None


class NotesQuery(msgspec.Struct, frozen=True, rename=camel):
    """Which notes."""

    project_id: Annotated[ProjectId | None, Meta(description="By default the project of the key.")] = None
    tag: Annotated[str | None, Meta(description="Only notes about all runs or about those with this tag.")] = None


class NotePath(msgspec.Struct, frozen=True):
    """A note."""

    note_id: Annotated[int, Meta(ge=1, le=MAX_ROW, description="The `id` of the note.")]


class NoteQuery(msgspec.Struct, frozen=True, rename=camel):
    """The project of the note."""

    project_id: Annotated[ProjectId | None, Meta(description="By default the project of the key.")] = None


class Removed(msgspec.Struct, frozen=True):
    """It is gone."""

    ok: Literal[True] = True


_NOTE = {
    "id": 7, "projectId": "support-agent", "at": "2026-11-18T12:00:00Z", "text": "Switched to prompt v2", "tag": None, "author": "rt_ab12cd",
}  # fmt: skip
_ALWAYS = (Forbidden, ProjectNotInferred, NotFound, StoreUnavailable)
POST_NOTE = Operation(
    tag="Notes",
    body=Content((SentNote,), {"From CI": {"text": "Deployed 2026.47"}}),
    answers={201: Answer("The note is kept.", (Content((NoteAnswer,), {"One": {"ok": True, "note": _NOTE}}),))},
    raises=(*_ALWAYS, InvalidJson, InvalidPayload, InvalidNote),
)
LIST_NOTES = Operation(
    tag="Notes",
    query=NotesQuery,
    answers={200: Answer("Notes.", (Content((NoteList,), {"One": {"ok": True, "notes": [_NOTE]}}),))},
    raises=(*_ALWAYS, InvalidPayload),
)
DELETE_NOTE = Operation(
    tag="Notes",
    path=NotePath,
    query=NoteQuery,
    answers={200: Answer("The note is deleted.", (Content((Removed,), {"Done": {"ok": True}}),))},
    raises=_ALWAYS,
)


@blueprint.post("")
@project_key
@documents(POST_NOTE)
async def post_note() -> ResponseReturnValue:
    """Mark a moment on the charts of a project. Needs the scope `runs:write`."""
    sent = await sent_as(SentNote)
    project_id = _project(sent.project_id, Scope.RUNS_WRITE)
    at = sent.at if sent.at is None or sent.at.tzinfo else sent.at.replace(tzinfo=UTC)
    async with services().cells.for_project(project_id).database.session() as session:
        note = await notes.add(
            session, actor(), project_id, text=sent.text, tag=sent.tag, at=at, now=services().clock()
        )
    return reply(NoteAnswer(note=answered(NoteInfo, note)), 201)


@blueprint.get("")
@project_key
@documents(LIST_NOTES)
async def list_notes() -> ResponseReturnValue:
    """List the notes of a project, at most 100, the latest date first. Needs the scope `metrics:read`."""
    asked = asked_as(NotesQuery)
    project_id = _project(asked.project_id, Scope.METRICS_READ)
    async with services().cells.for_project(project_id).database.session() as session:
        found = await notes.list_latest(session, project_id, asked.tag or None)
    return reply(NoteList(notes=tuple(answered(NoteInfo, note) for note in found)))


@blueprint.delete("/<note_id>")
@project_key
@documents(DELETE_NOTE)
async def delete_note(note_id: str) -> ResponseReturnValue:
    """Delete a note. Needs the scope `runs:write`."""
    project_id = _project(request.args.get("projectId"), Scope.RUNS_WRITE)
    async with services().cells.for_project(project_id).database.session() as session:
        await notes.remove(session, actor(), project_id, note_id)
    return reply(Removed())


def _project(named: str | None, scope: Scope) -> str:
    """Return the project that is named, or else that of the key. Raises `Forbidden` and `ProjectNotInferred`."""
    project_id = parse_project_id(named) if named else actor().project_id
    if project_id is None:
        raise ProjectNotInferred
    demand(actor(), scope, project_id)
    return project_id
