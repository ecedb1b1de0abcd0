"""The form in which the values of chosen keys are stored, such as people's names."""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import CheckConstraint
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column


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
