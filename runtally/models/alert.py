"""Alerts: their targets, their messages, and their deliveries."""

import uuid
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Boolean, Index, SmallInteger, UniqueConstraint, Uuid, text
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, column


class TargetKind(StrEnum):
    WEBHOOK = "webhook"
    EMAIL = "email"
    SLACK = "slack"
    DISCORD = "discord"
    TEAMS = "teams"
    PAGERDUTY = "pagerduty"


class AlertKind(StrEnum):
    BUDGET = "budget"
    """A share of the budget is used."""
    ANOMALY = "anomaly"
    """An hour costs far more than usual."""
    REPORT = "report"
    """A week's cost, and the changes in it."""
    TEST = "test"


class AlertTarget(SQLModel, table=True):
    """A target of a project's alerts."""

    __tablename__ = "alert_targets"
    __table_args__ = (UniqueConstraint("project_id", "kind", "address"),)

    project_id: str = column("Project whose alerts they are.", key=True)
    id: uuid.UUID = column("Identity; safe to show.", Uuid, key=True)
    kind: str = column("Channel, such as slack or email.")
    address: str = column("URL or address.")
    secret: str | None = column("Key that signs generic webhooks, as whsec_ and base64.", default=None)
    of_unusual_cost: bool = column("Whether it is told of unusual cost as well as of the budget.", Boolean)
    weekly_report: bool = column("Whether it gets the weekly report.", Boolean, default=False, server_default="false")
    created_at: datetime = column("When it was added (UTC).", Timestamp)


class Alert(SQLModel, table=True):
    """An alert, decided once. Its message never changes, however often it is tried."""

    __tablename__ = "alerts"
    # There is one such alert, however many processes evaluate at the same moment.
    __table_args__ = (UniqueConstraint("project_id", "kind", "subject", "level"),)

    project_id: str = column("Project it is about.", key=True)
    id: uuid.UUID = column("Identity, the same for all targets and all tries.", Uuid, key=True)
    kind: str = column("What it is about, such as budget or anomaly.")
    subject: str = column("Month and amount of a budget, or an hour.")
    level: int = column("Percent of the budget that is reached; 0 where it is about none.", SmallInteger)
    title: str = column("It in a line.")
    message: str = column("It in sentences, as mail has it.")
    document: str = column("It as JSON, as webhooks have it.")
    created_at: datetime = column("When it was decided (UTC).", Timestamp)


class AlertDelivery(SQLModel, table=True):
    """One alert for one target: waiting, sent, or given up."""

    __tablename__ = "alert_deliveries"
    __table_args__ = (
        # Deliveries that are due, which all workers query again and again; delivered ones are left out.
        Index(
            "ix_alert_deliveries_due",
            "due_at",
            postgresql_where=text("delivered_at IS NULL AND parked_at IS NULL"),
        ),
    )

    project_id: str = column("Project of the alert.", key=True)
    alert_id: uuid.UUID = column("The alert.", Uuid, key=True)
    target_id: uuid.UUID = column("Where it goes.", Uuid, key=True)
    attempts: int = column("How often it was tried.", SmallInteger, default=0)
    due_at: datetime = column("When it is tried next (UTC).", Timestamp)
    delivered_at: datetime | None = column("When it was taken (UTC).", Timestamp, default=None)
    parked_at: datetime | None = column("When it was given up after too many tries (UTC).", Timestamp, default=None)
    answer: str | None = column("What came of the last try, in a few words.", default=None)
