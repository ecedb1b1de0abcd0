"""Teams, and the projects that they own."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from sqlalchemy import ForeignKeyConstraint, Index
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column

Teams = Mapping[str, Sequence[str]]
"""The projects of teams, by the ids of those that have any."""
NO_TEAMS: Teams = MappingProxyType({})


class Team(SQLModel, table=True):
    """A team, whose members have their role in each of its projects. Its roles and budgets name it in place of a project."""

    __tablename__ = "teams"

    id: str = column("Identity: team:: and its short name, which no project can be called.", key=True)
    name: str = column("Name shown in pages.")
    created_at: datetime = column("When it was made (UTC).", Timestamp)


class TeamProject(SQLModel, table=True):
    """The one team that a project belongs to."""

    __tablename__ = "team_projects"
    __table_args__ = (
        ForeignKeyConstraint(["team_id"], ["teams.id"], ondelete="CASCADE"),
        # Each request of a member reads those of their teams.
        Index("ix_team_projects_team_id", "team_id"),
    )

    project_id: str = column("The project.", key=True)
    team_id: str = column("The team.")
