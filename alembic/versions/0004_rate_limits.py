"""Rate limits that all workers share.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "rate_limits",
        sa.Column("key", sa.Text(), nullable=False, comment="What is limited, and by which limit."),
        sa.Column(
            "tat_ns",
            sa.BigInteger(),
            nullable=False,
            comment="When all that was granted is used up, in nanoseconds since 1970 (GCRA's TAT).",
        ),
        sa.Column("granted", sa.BigInteger(), nullable=False, comment="How many the last statement granted."),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_rate_limits")),
        prefixes=["UNLOGGED"],
    )
    # Busy rows change hundreds of times a second; with room on their page no index entry is written for that.
    op.execute("ALTER TABLE rate_limits SET (fillfactor = 50)")


def downgrade() -> None:
    op.drop_table("rate_limits")
