"""Experiments, and the rules of their verdicts."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import BigInteger, CheckConstraint, Index, Integer, Numeric
from sqlmodel import SQLModel

from runtally.models.base import Timestamp, Usd, column

RATE_DECIMALS = 8
Rate = Numeric(RATE_DECIMALS + 1, RATE_DECIMALS)


class Experiment(SQLModel, table=True):
    """An experiment of one project. Its first run creates it, with the default rule."""

    __tablename__ = "experiments"
    __table_args__ = (
        CheckConstraint("window_runs > 0", name="window_runs"),
        CheckConstraint("window_hours > 0", name="window_hours"),
        CheckConstraint("window_runs IS NOT NULL OR window_hours IS NOT NULL", name="window"),
        CheckConstraint("max_error_rate BETWEEN 0 AND 1", name="max_error_rate"),
        CheckConstraint("max_p95_latency_ms >= 0", name="max_p95_latency_ms"),
        CheckConstraint("max_cost_per_run_usd >= 0", name="max_cost_per_run_usd"),
        CheckConstraint("max_total_cost_usd >= 0", name="max_total_cost_usd"),
        CheckConstraint("min_runs > 0", name="min_runs"),
        # The URL of a badge may have the experiment's id alone.
        Index("ix_experiments_id", "id"),
    )

    project_id: str = column("Project the experiment belongs to.", key=True)
    id: str = column("The experimentId of its runs.", key=True)
    created_at: datetime = column("When a run first named it (UTC).", Timestamp)
    window_runs: int | None = column(
        "Judge at most the last so many runs; empty: all of window_hours.", Integer, default=100, server_default="100"
    )
    window_hours: int | None = column("Judge the runs of the last so many hours.", Integer, default=None)
    max_error_rate: Decimal | None = column(
        "Largest share of failed runs, 0 to 1.", Rate, default=Decimal("0.05"), server_default="0.05"
    )
    max_p95_latency_ms: int | None = column("Largest p95 latency in milliseconds.", BigInteger, default=None)
    max_cost_per_run_usd: Decimal | None = column("Largest mean cost of a run in US dollars.", Usd, default=None)
    max_total_cost_usd: Decimal | None = column("Largest cost of all runs judged in US dollars.", Usd, default=None)
    min_runs: int = column("Fewer runs than this have no verdict.", Integer, default=1, server_default="1")
    # Stored in clear text, so that pages can show the badge's URL again: anybody who can read this table can read the
    # runs themselves.
    badge_token: str | None = column("What the badge's URL must carry; empty: the badge is public.", default=None)
