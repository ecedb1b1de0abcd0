"""Cells: which there are, which of them takes new projects, and where each project is."""

import uuid
from datetime import datetime

from sqlalchemy import Boolean, CheckConstraint, SmallInteger, Uuid
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column


class KnownCell(SQLModel, table=True):
    """A cell that was added; none until the first one is. The database of control is one of them."""

    __tablename__ = "cells"

    name: str = column("Name, as in CELL_URLS; main is the database of DATABASE_URL.", key=True)
    id: uuid.UUID = column("Identity, which the cell has in its table cell_identity.", Uuid)
    is_open: bool = column("Whether new projects are put there.", Boolean, server_default="false")
    added_at: datetime = column("When it was added (UTC).", Timestamp)


class ProjectPlace(SQLModel, table=True):
    """The cell of a project. It never changes, and stays when the project is deleted: processes remember it."""

    __tablename__ = "project_places"

    project_id: str = column("Project.", key=True)
    cell: str = column("Name of its cell.")
    placed_at: datetime = column("When it was put there (UTC).", Timestamp)


class CellIdentity(SQLModel, table=True):
    """The identity of a cell's database; at most one row."""

    __tablename__ = "cell_identity"
    __table_args__ = (CheckConstraint("number = 1", name="number"),)

    number: int = column("Always 1.", SmallInteger, key=True)
    id: uuid.UUID = column("Identity, made when the cell was added.", Uuid)
    name: str = column("Name that the cell has in CELL_URLS.")
