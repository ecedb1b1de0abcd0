"""Projects, their API keys, and what people keep of them: notes, views, shared links, colours and rules for names."""

import uuid
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Boolean, CheckConstraint, Index, Integer, LargeBinary, SmallInteger, UniqueConstraint, Uuid
from sqlmodel import SQLModel

from runtally.models.base import TextArray, Timestamp, column, identity

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


class Note(SQLModel, table=True):
    """What people or their CI wrote down about a moment of a project."""

    __tablename__ = "notes"
    __table_args__ = (Index("ix_notes_project_id_at", "project_id", "at"),)

    id: int | None = identity()
    project_id: str = column("Project whose charts mark it.")
    at: datetime = column("The moment that it is about (UTC).", Timestamp)
    text: str = column("What happened, in the words of who wrote it.")
    tag: str | None = column("Tag of the runs that it is about; empty: of all.", default=None)
    author: str = column("Who wrote it, as pages show them.")


class Colour(SQLModel, table=True):
    """The colour of a value of a dimension, such as a model: chosen when a chart first shows the value, and kept."""

    __tablename__ = "colours"

    dimension: str = column("What the value is one of, as queries name it.", key=True)
    value: str = column("The value.", key=True)
    number: int = column("Number of the colour, from 0 on.", SmallInteger)
    given_at: datetime = column("When it was given.", Timestamp)


class SavedView(SQLModel, table=True):
    """A report page of a project with its filters, grouping and range."""

    __tablename__ = "saved_views"
    __table_args__ = (UniqueConstraint("project_id", "name"),)

    id: uuid.UUID = column("Identity; safe to show.", Uuid, key=True)
    project_id: str = column("Project whose runs it shows.")
    name: str = column("Name that people know it by.")
    page: str = column("Report page, such as overview or runs.")
    query: str = column("Query string of the page, without the project.")
    created_at: datetime = column("When it was saved (UTC).", Timestamp)
    created_by: str = column("Who saved it, as pages show them.")
    author_id: str = column("Id of the user who saved it, who may rename and delete it.")


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


class NameStorage(StrEnum):
    """The form in which the values of a key are stored."""

    PLAIN = "plain"
    """They are stored as sent; readers who may not read runs see hashes."""
    HASHED = "hashed"
    """They are stored as a hash under a secret of the server."""
    DROPPED = "dropped"
    """Not at all."""


class NameRule(SQLModel, table=True):
    """A project's rule for storing the values of one key."""

    __tablename__ = "name_rules"
    __table_args__ = (CheckConstraint("storage IN ('plain', 'hashed', 'dropped')", name="storage"),)

    project_id: str = column("Project whose runs it is for.", key=True)
    key: str = column("Name of the dimension: user, session, tags, or a key of metadata.", key=True)
    storage: str = column("plain, hashed or dropped.")
    updated_at: datetime = column("When it was last changed (UTC).", Timestamp)
