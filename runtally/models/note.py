"""Notes on dates, which charts mark."""

from datetime import datetime

from sqlalchemy import Index
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column, identity


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
