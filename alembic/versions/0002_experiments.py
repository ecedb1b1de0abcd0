"""Experiments and their thresholds.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

USD = sa.Numeric(precision=38, scale=12)

# Runs that were stored before this table existed; one pass over the index of the experiments' runs alone.
INSERT_EXPERIMENTS_OF_STORED_RUNS = """
INSERT INTO experiments (project_id, id, created_at)
     SELECT project_id, experiment_id, min(occurred_at)
       FROM runs
      WHERE experiment_id IS NOT NULL
   GROUP BY project_id, experiment_id
ON CONFLICT DO NOTHING
"""


def upgrade() -> None:
    op.create_table(
        "experiments",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project the experiment belongs to."),
        sa.Column("id", sa.Text(), nullable=False, comment="The experimentId of its runs."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When a run first named it (UTC)."),
        sa.Column(
            "window_runs",
            sa.Integer(),
            server_default=sa.text("100"),
            nullable=True,
            comment="Judge at most the last so many runs; empty: all of window_hours.",
        ),
        sa.Column("window_hours", sa.Integer(), nullable=True, comment="Judge the runs of the last so many hours."),
        sa.Column(
            "max_error_rate",
            sa.Numeric(precision=9, scale=8),
            server_default=sa.text("0.05"),
            nullable=True,
            comment="Largest share of failed runs, 0 to 1.",
        ),
        sa.Column("max_p95_latency_ms", sa.BigInteger(), nullable=True, comment="Largest p95 latency in milliseconds."),
        sa.Column("max_cost_per_run_usd", USD, nullable=True, comment="Largest mean cost of a run in US dollars."),
        sa.Column("max_total_cost_usd", USD, nullable=True, comment="Largest cost of all runs judged in US dollars."),
        sa.Column(
            "min_runs",
            sa.Integer(),
            server_default=sa.text("1"),
            nullable=False,
            comment="Fewer runs than this have no verdict.",
        ),
        sa.Column(
            "badge_token",
            sa.Text(),
            nullable=True,
            comment="What the badge's URL must carry; empty: the badge is public.",
        ),
        sa.CheckConstraint("window_runs > 0", name=op.f("ck_experiments_window_runs")),
        sa.CheckConstraint("window_hours > 0", name=op.f("ck_experiments_window_hours")),
        sa.CheckConstraint("window_runs IS NOT NULL OR window_hours IS NOT NULL", name=op.f("ck_experiments_window")),
        sa.CheckConstraint("max_error_rate BETWEEN 0 AND 1", name=op.f("ck_experiments_max_error_rate")),
        sa.CheckConstraint("max_p95_latency_ms >= 0", name=op.f("ck_experiments_max_p95_latency_ms")),
        sa.CheckConstraint("max_cost_per_run_usd >= 0", name=op.f("ck_experiments_max_cost_per_run_usd")),
        sa.CheckConstraint("max_total_cost_usd >= 0", name=op.f("ck_experiments_max_total_cost_usd")),
        sa.CheckConstraint("min_runs > 0", name=op.f("ck_experiments_min_runs")),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_experiments")),
        # An attempt that failed at the index below has made the table already.
        if_not_exists=True,
    )
    op.create_index("ix_experiments_id", "experiments", ["id"], unique=False, if_not_exists=True)
    with op.get_context().autocommit_block():
        # What is left of an attempt that was broken off is no use to anybody.
        op.drop_index("ix_runs_experiment", table_name="runs", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            "ix_runs_experiment",
            "runs",
            ["project_id", "experiment_id", "occurred_at"],
            unique=False,
            postgresql_where=sa.text("experiment_id IS NOT NULL"),
            postgresql_concurrently=True,
        )
        op.execute(INSERT_EXPERIMENTS_OF_STORED_RUNS)


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index("ix_runs_experiment", table_name="runs", if_exists=True, postgresql_concurrently=True)
    # The runs name their experiments still; rules that were set by hand are lost.
    op.drop_table("experiments")
