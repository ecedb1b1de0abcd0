"""Projects and their API keys."""

import uuid
from datetime import datetime

from sqlalchemy import Boolean, Index, Integer, LargeBinary, Uuid
from sqlmodel import SQLModel

from runtally.models.base import TextArray, Timestamp, column

KEPT_FOR_EVER = 0
"""The value for no end, in place of a number of days."""
# Metrics in short buckets over the longest range are counted from the runs.
MIN_RETENTION_DAYS = 31
MAX_RETENTION_DAYS = 3650


class Project(SQLModel, table=True):
    """A project. Its first run creates it."""

    __tablename__ = "projects"

    id: str = column("The projectId of the API.", key=True)
    name: str = column("Name shown in pages.")
    created_at: datetime = column("When it was first seen (UTC).", Timestamp)
    archived_at: datetime | None = column("Since when it is hidden (UTC).", Timestamp, default=None)
    retention_days: int | None = column(
        "Days that its live runs are kept; 0: for ever; empty: as RETENTION_DAYS says.", Integer, default=None
    )
    dropped_before: datetime | None = column(
        "Start of a day (UTC): older live runs were dropped, and their sums are kept.", Timestamp, default=None
    )
    # Stored in clear text, like a badge's token: pages show the URL again, and it gives access to nothing but data of
    # this database.
    embed_token: str | None = column(
        "What the URL of its charts must carry to be seen without signing in; empty: there is none.", default=None
    )
    has_public_badges: bool = column(
        "Whether badges of its metrics are seen by everybody.", Boolean, default=False, server_default="false"
    )


class ApiKey(SQLModel, table=True):
    """A key of one project, or of all when `project_id` is empty. The key itself is never stored."""

    __tablename__ = "api_keys"
    # A request's key is looked up by its hash.
    __table_args__ = (Index("uq_api_keys_key_hash", "key_hash", unique=True),)

    id: uuid.UUID = column("Identity; safe to show.", Uuid, key=True)
    name: str | None = column("Name that people know it by; empty: its prefix.", default=None)
    prefix: str = column("First characters of the key, by which people recognise it.")
    key_hash: bytes = column("SHA-256 of the whole key.", LargeBinary)
    project_id: str | None = column("Project it opens; empty: all.", default=None)
    scopes: list[str] = column("What it may do.", TextArray)
    created_at: datetime = column("When it was issued (UTC).", Timestamp)
    expires_at: datetime | None = column("From when it is refused (UTC).", Timestamp, default=None)
    revoked_at: datetime | None = column("When it was revoked (UTC).", Timestamp, default=None)
    last_used_at: datetime | None = column("Last use, to the minute (UTC).", Timestamp, default=None)
    replaces_id: uuid.UUID | None = column("Key that this one replaced by rotation.", Uuid, default=None)
