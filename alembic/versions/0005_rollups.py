"""Sums of runs by project and time.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "rollups",
        sa.Column(
            "project_id", sa.Text(), nullable=False, comment="Project of the runs; empty for all projects together."
        ),
        sa.Column("grain", sa.SmallInteger(), nullable=False, comment="Length of the bucket in minutes."),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of the bucket (UTC)."),
        sa.Column("provider", sa.Text(), nullable=False, comment="Provider of the runs."),
        sa.Column("model", sa.Text(), nullable=False, comment="Model of the runs."),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="Runs."),
        sa.Column("errors", sa.BigInteger(), nullable=False, comment="Runs that ended in an error."),
        sa.Column("timeouts", sa.BigInteger(), nullable=False, comment="Runs that ended in a timeout."),
        sa.Column("unpriced", sa.BigInteger(), nullable=False, comment="Runs whose cost is not known."),
        sa.Column("estimated", sa.BigInteger(), nullable=False, comment="Runs whose cost is an estimate."),
        sa.Column("cost_usd", sa.Numeric(), nullable=False, comment="Cost in US dollars."),
        sa.Column("input_tokens", sa.Numeric(), nullable=False, comment="Input tokens, cached ones included."),
        sa.Column("output_tokens", sa.Numeric(), nullable=False, comment="Output tokens, reasoning included."),
        sa.Column("cached_input_tokens", sa.Numeric(), nullable=False, comment="Input tokens read from a cache."),
        sa.Column("cache_write_tokens", sa.Numeric(), nullable=False, comment="Input tokens written to a cache."),
        sa.Column("reasoning_tokens", sa.Numeric(), nullable=False, comment="Output tokens spent on reasoning."),
        sa.PrimaryKeyConstraint("project_id", "grain", "bucket", "provider", "model", name=op.f("pk_rollups")),
    )
    op.create_table(
        "latency_sketches",
        sa.Column(
            "project_id", sa.Text(), nullable=False, comment="Project of the runs; empty for all projects together."
        ),
        sa.Column("grain", sa.SmallInteger(), nullable=False, comment="Length of the bucket in minutes."),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of the bucket (UTC)."),
        sa.Column(
            "latencies",
            postgresql.ARRAY(sa.Integer()),
            nullable=False,
            comment="Twice each latency in milliseconds, or twice the middle of its bin where there are many, ascending; "
            "from 1e9 on the number of a bin.",
        ),
        sa.Column(
            "counts", postgresql.ARRAY(sa.Integer()), nullable=False, comment="Runs with each of these latencies."
        ),
        sa.PrimaryKeyConstraint("project_id", "grain", "bucket", name=op.f("pk_latency_sketches")),
    )
    # The buckets of the present are updated all the time: room on their pages keeps that from touching the indexes.
    op.execute("ALTER TABLE rollups SET (fillfactor = 70)")
    op.execute("ALTER TABLE latency_sketches SET (fillfactor = 70)")


def downgrade() -> None:
    op.drop_table("latency_sketches")
    op.drop_table("rollups")
