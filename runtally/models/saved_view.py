"""Report pages of a project that people saved under a name."""

import uuid
from datetime import datetime

from sqlalchemy import UniqueConstraint, Uuid
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column


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
