"""Links that show a project to people without an account."""

import uuid
from datetime import datetime

from sqlalchemy import Index, Uuid
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column


class SharedLink(SQLModel, table=True):
    """A link that opens one project for reading."""

    __tablename__ = "shared_links"
    # A visit is looked up by the token; the settings list a project's links.
    __table_args__ = (
        Index("uq_shared_links_token", "token", unique=True),
        Index("ix_shared_links_project_id", "project_id"),
    )

    id: uuid.UUID = column("Identity; safe to show.", Uuid, key=True)
    project_id: str = column("Project it opens.")
    name: str = column("Name that people know it by.")
    # In the clear, as that of a chart is: pages show the address again, and it opens nothing that is not in this database.
    token: str = column("What its address ends with.")
    password_hash: str | None = column("Argon2id of the password that it asks for; empty: none.", default=None)
    created_at: datetime = column("When it was made (UTC).", Timestamp)
    created_by: str = column("Who made it.")
    expires_at: datetime | None = column("From when it opens nothing (UTC); empty: never.", Timestamp, default=None)
