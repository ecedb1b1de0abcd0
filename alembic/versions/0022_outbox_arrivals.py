"""Runs that were just stored wait for the relay as one row, not each as its own.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "outbox_arrivals",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the runs."),
        sa.Column(
            "queued_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the first of the runs was stored (UTC).",
        ),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column("runs", sa.Integer(), nullable=False, comment="How many they are."),
        sa.Column("run_ids", postgresql.ARRAY(sa.Text()), nullable=False, comment="The runs, in their first version."),
        sa.PrimaryKeyConstraint("project_id", "queued_at", "id", name=op.f("pk_outbox_arrivals")),
    )
    op.create_index("ix_outbox_arrivals_queued_at", "outbox_arrivals", ["queued_at"], unique=False)
    # Rows come and go by the second.
    op.execute(
        "ALTER TABLE outbox_arrivals SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)"
    )
    _comment("As in a sketch, in no order; one may be there several times.", "As in a sketch, ascending.")


def downgrade() -> None:
    _comment("As in a sketch, ascending.", "As in a sketch, in no order; one may be there several times.")
    # Else what comes meanwhile goes with the table.
    op.execute("LOCK TABLE outbox_arrivals IN ACCESS EXCLUSIVE MODE")
    op.execute(
        "INSERT INTO outbox (project_id, run_id, version, queued_at, due_at) "
        "SELECT project_id, run_id, 1, queued_at, queued_at FROM outbox_arrivals, unnest(run_ids) AS run_id "
        "ORDER BY project_id, run_id ON CONFLICT DO NOTHING"
    )
    op.drop_table("outbox_arrivals")


def _comment(new: str, old: str) -> None:
    op.alter_column(
        "latency_deltas",
        "latencies",
        existing_type=postgresql.ARRAY(sa.Integer()),
        existing_nullable=False,
        comment=new,
        existing_comment=old,
    )
