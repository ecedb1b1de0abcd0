"""Keep what caches saved, with each run.

Rules: expand first, backfill apart, contract a release later. The project leads the primary key. No triggers, and nothing
that the main tables are needed for: they may be in another database. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "reporting_runs",
        sa.Column(
            "cache_savings_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=True,
            comment="What the run would have cost more without a cache, in US dollars, below zero where writing to one cost "
            "more than reading from it saved; empty without cached tokens or without a price.",
        ),
    )


def downgrade() -> None:
    op.drop_column("reporting_runs", "cache_savings_usd")
