"""Sums of runs over all models.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # Filled by `runtally migrate` once it is there, like all rollups that are missing.
    op.create_table(
        "rollup_totals",
        sa.Column(
            "project_id", sa.Text(), nullable=False, comment="Project of the runs; empty for all projects together."
        ),
        sa.Column("grain", sa.SmallInteger(), nullable=False, comment="Length of the bucket in minutes."),
        sa.Column("bucket", sa.DateTime(timezone=True), nullable=False, comment="Start of the bucket (UTC)."),
        sa.Column("runs", sa.BigInteger(), nullable=False, comment="Runs."),
        sa.Column("errors", sa.BigInteger(), nullable=False, comment="Runs that ended in an error."),
        sa.Column("timeouts", sa.BigInteger(), nullable=False, comment="Runs that ended in a timeout."),
        sa.Column("unpriced", sa.BigInteger(), nullable=False, comment="Runs whose cost is not known."),
        sa.Column("estimated", sa.BigInteger(), nullable=False, comment="Runs whose cost is an estimate."),
        sa.Column("cost_usd", sa.Numeric(), nullable=False, comment="Cost in US dollars."),
        sa.Column("input_tokens", sa.Numeric(), nullable=False, comment="Input tokens, cached ones included."),
        sa.Column("output_tokens", sa.Numeric(), nullable=False, comment="Output tokens, reasoning included."),
        sa.PrimaryKeyConstraint("project_id", "grain", "bucket", name=op.f("pk_rollup_totals")),
    )
    # The buckets of the present are updated all the time: room on their pages keeps that from touching the index.
    op.execute("ALTER TABLE rollup_totals SET (fillfactor = 70)")


def downgrade() -> None:
    op.drop_table("rollup_totals")
