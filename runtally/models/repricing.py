"""Repricings: their scope, their progress, and the changed costs."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint
from sqlmodel import SQLModel

from runtally.models.base import Json, Timestamp, column, identity


class RepricingState(StrEnum):
    """The state of a repricing. First costs are compared without a change; once it is started, they are changed."""

    COMPARING = "comparing"
    COMPARED = "compared"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


class Repricing(SQLModel, table=True):
    """A repricing: its scope is read by project and time, first to compare and then to change costs."""

    __tablename__ = "repricings"
    __table_args__ = (
        CheckConstraint(
            "state IN ('comparing', 'compared', 'running', 'paused', 'done', 'cancelled')",
            name="state",
        ),
    )

    id: int | None = identity()
    state: str = column("comparing, compared, running, paused, done or cancelled.")
    project_id: str | None = column("Only runs of this project; empty: of all.", default=None)
    provider: str | None = column("Only runs of this provider, as sent; empty: of all.", default=None)
    model: str | None = column("Only runs of this model, as sent; empty: of all.", default=None)
    since: datetime | None = column("Only runs from then on (UTC).", Timestamp, default=None)
    until: datetime | None = column("Only runs before then (UTC).", Timestamp, default=None)
    at_project: str | None = column("Project that it has come to.", default=None)
    at_time: datetime | None = column("Time of the last run that was looked at (UTC).", Timestamp, default=None)
    at_run: str | None = column("The last run that was looked at.", default=None)
    runs: int = column("Runs in its scope when it began.", BigInteger)
    seen: int = column("Runs that were looked at.", BigInteger, default=0)
    changed: int = column("Runs whose cost was changed.", BigInteger, default=0)
    found: list[dict[str, Any]] = column(
        "By project, provider and model: runs that change, with their cost before and after.", Json
    )
    author: str = column("Who asked for it.")
    created_at: datetime = column("When it was asked for (UTC).", Timestamp)
    updated_at: datetime = column("When it last went on (UTC).", Timestamp)
