"""GET /api/audit: the log of changes, for admins, as JSON or CSV."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from quart import Blueprint
from quart.typing import ResponseReturnValue

from api.auth import project_key
from api.cells import OfCell
from api.current import actor, services
from api.operation import Answer, Content, Operation, documents
from api.reply import Reply, Success, answered, reply
from api.sent import asked_as
from runtally.access.scopes import Scope, demand
from runtally.audit import list_entries
from runtally.errors import Forbidden, InvalidPayload, StoreUnavailable, UnknownCell
from runtally.fields import MAX_ROW, camel
from runtally.models.audit import AuditEntry
from runtally.settings import MAIN
from runtally.spreadsheets import csv_of, guarded

blueprint = Blueprint("audit", __name__, url_prefix="/api/audit")

MAX_ENTRIES = 1_000


class AuditedChange(msgspec.Struct, frozen=True, kw_only=True, rename=camel):
    """A change of anything but a run."""

    id: int
    at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    actor_kind: Annotated[str, Meta(description="user, key, developer or system.")]
    actor_id: str
    actor_label: Annotated[str, Meta(description="Address of a user, start of a key.")]
    action: Annotated[str, Meta(description="Such as key.revoked.")]
    project_id: str | None
    target: str
    before: Annotated[dict[str, Any] | None, Meta(description="What changed, as it was.")]
    after: Annotated[dict[str, Any] | None, Meta(description="What changed, as it is since.")]


class AuditLog(Success, frozen=True, kw_only=True, rename=camel):
    """Entries, the newest first."""

    entries: tuple[AuditedChange, ...]
    next_before: Annotated[int | None, Meta(description="`before` of the next page; null on the last.")]


class AuditQuery(msgspec.Struct, frozen=True, rename=camel):
    """Which entries."""

    project_id: Annotated[str | None, Meta(description="Only those of this project.")] = None
    before: Annotated[int, Meta(ge=1, le=MAX_ROW, description="Only entries before this `id`.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_ENTRIES, description="Entries on a page.")] = 50
    format: Annotated[Literal["json", "csv"], Meta(description="csv: a row for each entry.")] = "json"
    cell: OfCell = MAIN


@blueprint.get("")
@project_key
@documents(
    Operation(
        tag="Management",
        query=AuditQuery,
        answers={200: Answer("The entries.", (Content((AuditLog,), also_as=("text/csv",)),))},
        raises=(Forbidden, InvalidPayload, UnknownCell, StoreUnavailable),
    )
)
async def get_audit() -> ResponseReturnValue:
    """List who changed what, and when: the newest first. Needs an admin key."""
    demand(actor(), Scope.ADMIN, None)
    query = asked_as(AuditQuery)
    if query.cell not in services().cells.names:
        raise UnknownCell
    async with services().cells.named(query.cell).database.session() as session:
        found = await list_entries(session, project_id=query.project_id, before=query.before, limit=query.limit + 1)
    if query.format == "csv":
        return file_of(found[: query.limit])
    entries = tuple(answered(AuditedChange, row) for row in found[: query.limit])
    return reply(AuditLog(entries=entries, next_before=entries[-1].id if len(found) > query.limit else None))


def file_of(rows: Sequence[AuditEntry]) -> Reply:
    """Answer entries as a file with a row for each."""
    names = AuditedChange.__struct_fields__
    entries = [answered(AuditedChange, row) for row in rows]
    cells = [[guarded(_text(getattr(entry, name))) for name in names] for entry in entries]
    headers = {"Content-Type": "text/csv; charset=utf-8", "Cache-Control": "no-store"}
    return Reply(csv_of([names, *cells], line_end="\n").encode(), 200, headers)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
