"""Latencies that wait to be folded into the sketches.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "latency_deltas",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the runs."),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of the bucket (UTC)."),
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column("latencies", postgresql.ARRAY(sa.Integer()), nullable=False, comment="As in a sketch, ascending."),
        sa.Column(
            "counts",
            postgresql.ARRAY(sa.Integer()),
            nullable=False,
            comment="Runs with each of these latencies; below zero, runs that went.",
        ),
        sa.PrimaryKeyConstraint("project_id", "bucket", "id", name=op.f("pk_latency_deltas")),
    )
    # Rows come and go by the second.
    op.execute(
        "ALTER TABLE latency_deltas SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)"
    )


def downgrade() -> None:
    op.drop_table("latency_deltas")
