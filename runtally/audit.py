"""Actors, and the audit log of what they change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.models.audit import AuditEntry

PAGE = 50
"""The entries of the log on one page."""


class ActorKind(StrEnum):
    ANYONE = "anyone"
    INGEST = "ingest"
    KEY = "key"
    USER = "user"
    LINK = "link"
    DEVELOPER = "developer"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of a request: `scopes` are its permissions in `project_id` (None: in every project)."""

    kind: ActorKind
    name: str
    scopes: frozenset[str]
    project_id: str | None = None
    label: str = ""
    """The name that people know: an address, the start of a key."""
    grants: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    """The scopes of a user in each project, in addition to `scopes`."""

    @property
    def reader(self) -> str | None:
        """Who takes turns with its other requests; None for anyone, who is many."""
        return None if self.kind is ActorKind.ANYONE else f"{self.kind} {self.name}"


ANYONE = Actor(ActorKind.ANYONE, "anyone", frozenset())
"""The actor of requests that need no credentials."""

OPERATOR = Actor(ActorKind.SYSTEM, "command line", frozenset({"admin"}))
"""The actor of commands that run on the server."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a subject: `before` and `after` hold the changed fields, and never a secret."""

    action: str
    target: str
    project_id: str | None = None
    before: Mapping[str, object] = field(default_factory=dict)
    after: Mapping[str, object] = field(default_factory=dict)


def record(session: AsyncSession, by: Actor, change: Change) -> None:
    """Record the change in the transaction that makes it. Unchanged fields are left out."""
    before = {name: value for name, value in change.before.items() if change.after.get(name, ...) != value}
    after = {name: value for name, value in change.after.items() if change.before.get(name, ...) != value}
    session.add(
        AuditEntry(
            actor_kind=by.kind,
            actor_id=by.name,
            actor_label=by.label or by.name,
            action=change.action,
            project_id=change.project_id,
            target=change.target,
            before=_plain(before) or None,
            after=_plain(after) or None,
        )
    )


async def list_entries(
    session: AsyncSession,
    *,
    project_id: str | None = None,
    who: str | None = None,
    before: int | None = None,
    limit: int = PAGE,
) -> Sequence[AuditEntry]:
    """List entries, newest first: those of one project and of one actor, if any, older than the entry numbered `before`."""
    query = select(AuditEntry).order_by(col(AuditEntry.id).desc()).limit(limit)
    if project_id is not None:
        query = query.where(col(AuditEntry.project_id) == project_id)
    if who is not None:
        query = query.where(col(AuditEntry.actor_label) == who)
    if before is not None:
        query = query.where(col(AuditEntry.id) < before)
    return (await session.exec(query)).all()


def _plain(values: Mapping[str, object]) -> dict[str, Any]:
    return {name: _as_json(value) for name, value in values.items()}


def _as_json(value: object) -> Any:  # noqa: ANN401  # What JSON has.
    match value:
        case datetime():
            return value.isoformat(timespec="seconds")
        case Enum():
            return value.value
        case Decimal() | UUID():
            return str(value)
        case list() | tuple() | set() | frozenset():
            return [_as_json(each) for each in value]
        case _:
            return value
