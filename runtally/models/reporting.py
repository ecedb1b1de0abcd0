"""The reporting table, which keeps runs longer than the live table, and the queue of runs on their way there."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Index, Integer, SmallInteger, text
from sqlmodel import SQLModel

from runtally.models.base import TextArray, Timestamp, column, identity
from runtally.models.run import RunColumns


class OutboxArrival(SQLModel, table=True):
    """Batches of stored runs that no relay has taken yet: one row per statement and project."""

    __tablename__ = "outbox_arrivals"
    __table_args__ = (
        # A relay takes the batches first that have waited longest.
        Index("ix_outbox_arrivals_queued_at", "queued_at"),
    )

    project_id: str = column("Project of the runs.", key=True)
    queued_at: datetime = column("When the first of the runs was stored (UTC).", Timestamp, key=True)
    id: int | None = identity()
    runs: int = column("How many they are.", Integer)
    run_ids: list[str] = column("The runs, in their first version.", TextArray)


class Outbox(SQLModel, table=True):
    """Runs that were changed, or whose batch was expanded, until they are delivered. A run is queued at most once."""

    __tablename__ = "outbox"
    __table_args__ = (
        # A relay takes the runs first that have been due longest; parked runs are never due.
        Index("ix_outbox_due_at", "due_at", postgresql_where=text("parked_at IS NULL")),
        # Parked runs are few, and must be found among a million that wait while a relay is away.
        Index("ix_outbox_parked", "parked_at", postgresql_where=text("parked_at IS NOT NULL")),
    )

    project_id: str = column("Project of the run.", key=True)
    run_id: str = column("The run.", key=True)
    version: int = column("Version of the run that is to be pushed.", Integer)
    queued_at: datetime = column("Since when the run waits (UTC).", Timestamp)
    due_at: datetime = column(
        "When it may be pushed next (UTC): at once, or after a pause, or when a relay that has it has had its time.",
        Timestamp,
    )
    attempts: int = column("Pushes of this version that failed.", SmallInteger, server_default="0")
    parked_at: datetime | None = column(
        "When the relay gave up, until somebody retries (UTC).", Timestamp, default=None
    )
    last_error: str | None = column("Why the last push failed; never content.", default=None)


class ReportingRun(RunColumns, table=True):
    """A run as business-intelligence tools read it: one wide, flat row."""

    __tablename__ = "reporting_runs"
    __table_args__ = (
        # Reports read days, of one project or of all.
        Index("ix_reporting_runs_project_id_occurred_at", "project_id", "occurred_at"),
        Index("ix_reporting_runs_occurred_at", "occurred_at"),
        {
            "comment": "Runs for business-intelligence tools: one wide, flat row each. Outlives the retention of live "
            "runs.",
        },
    )

    synced_at: datetime = column("When this version of the run arrived here (UTC).", Timestamp)


@dataclass(frozen=True, slots=True)
class DailyView:
    """A view over the reporting table: its measures by day and these columns, each with its description."""

    name: str
    comment: str
    keys: dict[str, str]

    @property
    def columns(self) -> dict[str, str]:
        return {"day": "Day in UTC."} | self.keys | MEASURES


MEASURES = {
    "runs": "Runs.",
    "errors": "Runs that failed.",
    "timeouts": "Runs that timed out.",
    "input_tokens": "Input tokens, cached ones included.",
    "output_tokens": "Output tokens, reasoning included.",
    "cost_usd": "Cost in US dollars, exact; runs without a known cost add nothing.",
    "estimated_cost_usd": "Part of the cost that is an estimate.",
    "unpriced_runs": "Runs whose cost is not known.",
    "p95_latency_ms": "Latency in milliseconds that 95 % of the runs stay within; empty when none reported its latency.",
}
_PROJECT = {"project_id": "Project."}
_PROVIDER = _PROJECT | {"provider": "Provider, as sent."}
DAILY_VIEWS = (
    DailyView("reporting_daily_projects", "Runs and cost by day and project.", _PROJECT),
    DailyView("reporting_daily_providers", "Runs and cost by day, project and provider.", _PROVIDER),
    DailyView(
        "reporting_daily_models",
        "Runs and cost by day, project and model.",
        _PROVIDER | {"model": "Model, as sent."},
    ),
    DailyView(
        "reporting_daily_experiments",
        "Runs and cost by day, project and experiment.",
        _PROJECT | {"experiment_id": "Experiment; runs without one are left out."},
    ),
)
