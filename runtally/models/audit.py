"""The audit log, and erasures: whose runs are to go, how far that is, and afterwards a record of it without the name."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import CheckConstraint, Index, Integer, text
from sqlmodel import SQLModel

from runtally.models.base import Json, TextArray, Timestamp, column, identity


class AuditEntry(SQLModel, table=True):
    """A change of anything but a run, and who made it. Entries never hold a secret and are never changed."""

    __tablename__ = "audit_entries"
    __table_args__ = (
        # The history of one project, newest first.
        Index("ix_audit_entries_project_id_id", "project_id", "id"),
        # What sums over all projects lack.
        Index("ix_audit_entries_deleted", "id", postgresql_where=text("action = 'project.deleted'")),
    )

    id: int | None = identity()
    at: datetime = column("When (UTC).", Timestamp, default=None, server_default="now()")
    actor_kind: str = column("What kind of actor did it: user, key, developer, system.")
    actor_id: str = column("Who: id of the user or key.")
    actor_label: str = column("How they were called then: address, or start of the key.")
    action: str = column("What was done, such as key.revoked.")
    project_id: str | None = column("Project it belongs to; empty: none.", default=None)
    target: str = column("To what: name, address, or start of a key.")
    before: dict[str, Any] | None = column("What changed, as it was.", Json, default=None)
    after: dict[str, Any] | None = column("What changed, as it is since.", Json, default=None)


class ErasureState(StrEnum):
    """The state of an erasure. First runs are counted; nothing is deleted until it is started."""

    COUNTING = "counting"
    COUNTED = "counted"
    ERASING = "erasing"
    DONE = "done"
    CANCELLED = "cancelled"


class Erasure(SQLModel, table=True):
    """An erasure of all runs of a person, project after project."""

    __tablename__ = "erasures"
    __table_args__ = (
        CheckConstraint("state IN ('counting', 'counted', 'erasing', 'done', 'cancelled')", name="state"),
    )

    id: int | None = identity()
    state: str = column("counting, counted, erasing, done or cancelled.")
    names: list[str] = column("The name and its hash, as runs have them; none once it is done or cancelled.", TextArray)
    label: str = column("Hash of the name under a secret of the server, by which the record can be compared.")
    at_cell: str | None = column("Cell that it has come to.", default=None)
    at_project: str | None = column("The last project of this cell that was looked at.", default=None)
    projects: int = column("Projects when it began.", Integer)
    seen: int = column("Projects that were looked at.", Integer, default=0)
    found: list[dict[str, Any]] = column("By project: its runs in each place, as counted or as erased.", Json)
    problem: str | None = column("Why it waits; empty while it goes on.", default=None)
    author: str = column("Who asked for it.")
    created_at: datetime = column("When it was asked for (UTC).", Timestamp)
    updated_at: datetime = column("When it last went on (UTC).", Timestamp)
