"""Projects and the keys that open them."""

import uuid
from datetime import datetime

from sqlalchemy import Index, LargeBinary, Uuid
from sqlmodel import SQLModel

from runtally.models.base import TextArray, Timestamp, column


class Project(SQLModel, table=True):
    """A project; made by the first run that names it."""

    __tablename__ = "projects"

    id: str = column("The projectId of the API.", key=True)
    name: str = column("Name shown in pages.")
    created_at: datetime = column("When it was first seen (UTC).", Timestamp)
    archived_at: datetime | None = column("Since when it is hidden (UTC).", Timestamp, default=None)


class ApiKey(SQLModel, table=True):
    """A key of one project, or of all when `project_id` is empty. The key itself is never stored."""

    __tablename__ = "api_keys"
    # A request's key is looked up by its hash.
    __table_args__ = (Index("uq_api_keys_key_hash", "key_hash", unique=True),)

    id: uuid.UUID = column("Identity; safe to show.", Uuid, key=True)
    prefix: str = column("First characters of the key, by which people recognise it.")
    key_hash: bytes = column("SHA-256 of the whole key.", LargeBinary)
    project_id: str | None = column("Project it opens; empty: all.", default=None)
    scopes: list[str] = column("What it may do.", TextArray)
    created_at: datetime = column("When it was issued (UTC).", Timestamp)
    expires_at: datetime | None = column("From when it is refused (UTC).", Timestamp, default=None)
    revoked_at: datetime | None = column("When it was revoked (UTC).", Timestamp, default=None)
    last_used_at: datetime | None = column("Last use, to the minute (UTC).", Timestamp, default=None)
    replaces_id: uuid.UUID | None = column("Key that this one replaced by rotation.", Uuid, default=None)
