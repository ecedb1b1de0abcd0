"""Who acts, and what they did."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any
from uuid import UUID

from sqlmodel.ext.asyncio.session import AsyncSession

from runtally.models.audit import AuditEntry


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
    """Whoever makes a request: `scopes` says what they may do, `project_id` where (None: in every project)."""

    kind: ActorKind
    name: str
    scopes: frozenset[str]
    project_id: str | None = None
    label: str = ""
    """How people call them: an address, the start of a key."""
    grants: Mapping[str, frozenset[str]] = field(default_factory=dict, hash=False)
    """What a user may do in each project, beside `scopes`."""


ANYONE = Actor(ActorKind.ANYONE, "anyone", frozenset())
"""Whoever makes a request that needs no credentials."""

OPERATOR = Actor(ActorKind.SYSTEM, "command line", frozenset({"admin"}))
"""Whoever runs commands on the server."""


@dataclass(frozen=True, slots=True)
class Change:
    """What was done to what: `before` and `after` hold the fields that it is about, and never a secret."""

    action: str
    target: str
    project_id: str | None = None
    before: Mapping[str, object] = field(default_factory=dict)
    after: Mapping[str, object] = field(default_factory=dict)


def record(session: AsyncSession, by: Actor, change: Change) -> None:
    """Write the change down, in the transaction that makes it. Fields that stayed as they were are left out."""
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
