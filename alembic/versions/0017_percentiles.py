"""Percentiles beside the latencies that they are of.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "latency_sketches",
        sa.Column(
            "p50",
            sa.Integer(),
            comment="Of these latencies the median, by nearest rank; not known until runs are added.",
        ),
    )
    op.add_column(
        "latency_sketches",
        sa.Column(
            "p95",
            sa.Integer(),
            comment="Of these latencies the 95th percentile; not known until runs are added.",
        ),
    )


def downgrade() -> None:
    op.drop_column("latency_sketches", "p95")
    op.drop_column("latency_sketches", "p50")
