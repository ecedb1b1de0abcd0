"""Keep what caches saved, with each run and in every sum.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

COMMENT = "What caches saved in US dollars."
FILL = "UPDATE {table} SET cache_savings_usd = array_fill(0::numeric, ARRAY[cardinality(runs)])"


def upgrade() -> None:
    op.add_column(
        "runs",
        sa.Column(
            "cache_savings_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=True,
            comment="What the run would have cost more without a cache, in US dollars, below zero where writing to one cost "
            "more than reading from it saved; empty without cached tokens or without a price.",
        ),
    )
    op.add_column(
        "rollups",
        sa.Column("cache_savings_usd", sa.Numeric(), server_default=sa.text("0"), nullable=False, comment=COMMENT),
    )
    for table in ("dimension_sums", "dimension_deltas"):
        op.add_column(
            table,
            sa.Column("cache_savings_usd", postgresql.ARRAY(sa.Numeric()), nullable=True, comment=COMMENT),
        )
        # A sum for each of the others in its row.
        op.execute(FILL.format(table=table))
        op.alter_column(table, "cache_savings_usd", nullable=False)
    # As the other arrays of the table: read once, and soon.
    op.execute("ALTER TABLE dimension_deltas ALTER COLUMN cache_savings_usd SET STORAGE EXTERNAL")


def downgrade() -> None:
    for table in ("dimension_deltas", "dimension_sums", "rollups", "runs"):
        op.drop_column(table, "cache_savings_usd")
