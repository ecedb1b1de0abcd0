"""Let budgets be for a day, for one value of a dimension or for each, and add rules on errors, latency and caches.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    _budgets()
    _alerts()
    op.create_table(
        "alert_rules",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project whose runs are watched."),
        sa.Column("kind", sa.Text(), nullable=False, comment="What is watched: error_rate, latency or cache_hit_rate."),
        sa.Column(
            "threshold",
            sa.Numeric(),
            nullable=True,
            comment="Share from 0 to 1, or milliseconds; empty: no threshold.",
        ),
        sa.Column("of_unusual", sa.Boolean(), nullable=False, comment="Whether an hour that is far from usual alerts."),
        sa.Column("min_runs", sa.Integer(), nullable=False, comment="Runs that an hour needs to be judged."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="When it was last changed (UTC)."),
        sa.CheckConstraint("min_runs > 0", name=op.f("ck_alert_rules_min_runs")),
        sa.PrimaryKeyConstraint("project_id", "kind", name=op.f("pk_alert_rules")),
    )


def _budgets() -> None:
    columns = (
        ("dimension", "''", "Dimension whose values it is for, such as user; empty: all runs."),
        ("value", "''", "Value that it is for; empty: each value by itself, or all runs."),
        ("period", "'month'", "day or month (UTC)."),
    )
    for name, default, comment in columns:
        op.add_column(
            "budgets",
            sa.Column(name, sa.Text(), server_default=sa.text(default), nullable=False, comment=comment),
        )
    op.drop_constraint(op.f("pk_budgets"), "budgets", type_="primary")
    op.create_primary_key(op.f("pk_budgets"), "budgets", ["project_id", "dimension", "value", "period"])
    op.create_check_constraint(op.f("ck_budgets_period"), "budgets", "period IN ('day', 'month')")
    op.alter_column(
        "budgets",
        "project_id",
        comment="Project whose cost it is for; empty for all projects together.",
        existing_comment="Project whose cost it is for.",
    )
    op.alter_column(
        "budgets",
        "amount_usd",
        comment="US dollars for a period.",
        existing_comment="US dollars for a calendar month (UTC).",
    )


def _alerts() -> None:
    op.add_column(
        "alerts",
        sa.Column(
            "named",
            postgresql.ARRAY(sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="Values that it names, where it is about a budget for each value.",
        ),
    )
    op.alter_column(
        "alerts",
        "subject",
        comment="Period, amount and value of a budget, or an hour.",
        existing_comment="Month and amount of a budget, or an hour.",
    )
    op.alter_column(
        "alerts",
        "project_id",
        comment="Project it is about; empty: all projects together.",
        existing_comment="Project it is about.",
    )
    op.alter_column(
        "alert_targets",
        "project_id",
        comment="Project whose alerts they are; empty: of all projects together.",
        existing_comment="Project whose alerts they are.",
    )


def downgrade() -> None:
    raise NotImplementedError("It would lose budgets.")
