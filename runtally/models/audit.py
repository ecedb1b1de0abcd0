"""The audit log."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, text
from sqlmodel import SQLModel

from runtally.models.base import Json, Timestamp, column, identity


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
