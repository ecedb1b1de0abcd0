"""Alerts: their targets, their messages, and their deliveries."""

import uuid
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from sqlalchemy import Boolean, CheckConstraint, Index, Integer, Numeric, SmallInteger, UniqueConstraint, Uuid, text
from sqlmodel import SQLModel

from runtally.models.base import TextArray, Timestamp, column


class TargetKind(StrEnum):
    WEBHOOK = "webhook"
    EMAIL = "email"
    SLACK = "slack"
    DISCORD = "discord"
    TEAMS = "teams"
    PAGERDUTY = "pagerduty"


OPENED_AT = (TargetKind.PAGERDUTY,)
"""The kinds of targets where an alert opens an incident, which is to be closed once the alert is over."""


CONFIRMED_FIRST = (TargetKind.EMAIL,)
"""The kinds of targets that may be a stranger's: nothing but the question is sent before somebody there confirms it."""


class AlertKind(StrEnum):
    BUDGET = "budget"
    """A share of the budget is used."""
    ANOMALY = "anomaly"
    """An hour costs far more than usual."""
    ERROR_RATE = "error_rate"
    """More runs of an hour fail than a rule allows, or than usual."""
    LATENCY = "latency"
    """The 95th percentile of an hour's latencies is above what a rule allows, or far above the usual one."""
    CACHE_HIT_RATE = "cache_hit_rate"
    """Fewer input tokens of an hour come from a cache than a rule allows, or than usual."""
    RUN_COST = "run_cost"
    """A single run cost more than a rule allows."""
    NEW_MODEL = "new_model"
    """A model is used for the first time."""
    UNPRICED_MODEL = "unpriced_model"
    """A model has its first runs without a price."""
    KEY_EXPIRY = "key_expiry"
    """A key will be refused in a few days."""
    REPORT = "report"
    """A week's cost, and the changes in it."""
    BILL = "bill"
    """A vendor's bill differs by more than an admin tolerates."""
    TEST = "test"
    CONFIRMATION = "confirmation"
    """The question whether alerts are wanted at an address."""


SWITCHES = (AlertKind.NEW_MODEL, AlertKind.UNPRICED_MODEL)
"""The kinds whose rules have no threshold: they are on or off."""
EVENT_KINDS = (AlertKind.RUN_COST, *SWITCHES, AlertKind.KEY_EXPIRY)
"""The kinds whose rules are about what happens once, not about an hour."""
NEVER_OVER = (*EVENT_KINDS, AlertKind.REPORT, AlertKind.BILL)
"""The kinds of alerts on what does not end, so that nothing resolves their incidents."""


class AlertRule(SQLModel, table=True):
    """A rule by which an hour of a project alerts: one for each kind of alert that has rules."""

    __tablename__ = "alert_rules"
    __table_args__ = (CheckConstraint("min_runs > 0", name="min_runs"),)

    project_id: str = column("Project whose runs are watched.", key=True)
    kind: str = column("What is watched, such as error_rate or run_cost.", key=True)
    threshold: Decimal | None = column(
        "Share from 0 to 1, milliseconds, US dollars or days; empty: no threshold.", Numeric, default=None
    )
    of_unusual: bool = column("Whether an hour that is far from usual alerts.", Boolean)
    min_runs: int = column("Runs that an hour needs to be judged.", Integer)
    updated_at: datetime = column("When it was last changed (UTC).", Timestamp)


class AlertTarget(SQLModel, table=True):
    """A target of a project's alerts."""

    __tablename__ = "alert_targets"
    __table_args__ = (UniqueConstraint("project_id", "kind", "address"),)

    project_id: str = column("Project whose alerts they are; empty: of all projects together.", key=True)
    id: uuid.UUID = column("Identity; safe to show.", Uuid, key=True)
    kind: str = column("Channel, such as slack or email.")
    address: str = column("URL or address.")
    secret: str | None = column("Key that signs generic webhooks, as whsec_ and base64.", default=None)
    of_unusual_cost: bool = column("Whether unusual cost is reported as well as the budget.", Boolean)
    weekly_report: bool = column("Whether it gets the weekly report.", Boolean, default=False, server_default="false")
    created_at: datetime = column("When it was added (UTC).", Timestamp)
    confirmed_at: datetime | None = column(
        "When somebody at the address confirmed it (UTC); of other channels empty.", Timestamp, default=None
    )

    @property
    def is_unconfirmed(self) -> bool:
        return self.kind in CONFIRMED_FIRST and self.confirmed_at is None


class Alert(SQLModel, table=True):
    """An alert, decided once. Its message never changes, however often it is tried."""

    __tablename__ = "alerts"
    # There is one such alert, however many processes evaluate at the same moment.
    __table_args__ = (UniqueConstraint("project_id", "kind", "subject", "level"),)

    project_id: str = column("Project it is about; empty: all projects together.", key=True)
    id: uuid.UUID = column("Identity, the same for all targets and all tries.", Uuid, key=True)
    kind: str = column("What it is about, such as budget or anomaly.")
    subject: str = column("Period, amount and value of a budget, or an hour.")
    level: int = column("Percent of the budget that is reached; 0 where it is about none.", SmallInteger)
    named: list[str] = column(
        "Values, runs, models or keys that it names, where there may be several.",
        TextArray,
        default=[],
        server_default="'{}'",
    )
    title: str = column("It in a line.")
    message: str = column("It in sentences, as mail has it.")
    document: str = column("It as JSON, as webhooks have it.")
    created_at: datetime = column("When it was decided (UTC).", Timestamp)


class AlertDelivery(SQLModel, table=True):
    """The delivery of one alert to one target: waiting, sent, or failed for good."""

    __tablename__ = "alert_deliveries"
    __table_args__ = (
        # Deliveries that are due, which all workers query again and again; delivered ones are left out.
        Index(
            "ix_alert_deliveries_due",
            "due_at",
            postgresql_where=text("delivered_at IS NULL AND parked_at IS NULL"),
        ),
        # The few incidents that are watched until they are over.
        Index("ix_alert_deliveries_open", "project_id", "alert_id", postgresql_where=text("is_open")),
    )

    project_id: str = column("Project of the alert.", key=True)
    alert_id: uuid.UUID = column("The alert.", Uuid, key=True)
    target_id: uuid.UUID = column("Where it goes.", Uuid, key=True)
    attempts: int = column("How often it was tried.", SmallInteger, default=0)
    due_at: datetime = column("When it is tried next (UTC).", Timestamp)
    delivered_at: datetime | None = column("When it was taken (UTC).", Timestamp, default=None)
    parked_at: datetime | None = column("When it was given up after too many tries (UTC).", Timestamp, default=None)
    answer: str | None = column("What came of the last try, in a few words.", default=None)
    is_open: bool | None = column(
        "Whether the target's incident is to be open: false once the alert is over, empty where nothing is opened.",
        Boolean,
        default=None,
    )
