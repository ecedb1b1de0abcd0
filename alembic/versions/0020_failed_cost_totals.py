"""What failed runs of all models cost.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0020"
down_revision: str | None = "0019"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "rollup_totals",
        sa.Column(
            "error_cost_usd",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Cost of runs that ended in an error.",
        ),
    )
    op.add_column(
        "rollup_totals",
        sa.Column(
            "timeout_cost_usd",
            sa.Numeric(),
            server_default=sa.text("0"),
            nullable=False,
            comment="Cost of runs that ended in a timeout.",
        ),
    )


def downgrade() -> None:
    op.drop_column("rollup_totals", "timeout_cost_usd")
    op.drop_column("rollup_totals", "error_cost_usd")
