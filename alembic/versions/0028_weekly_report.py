"""Channels may get a weekly report.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0028"
down_revision: str | None = "0027"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "alert_targets",
        sa.Column(
            "weekly_report",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether it gets the weekly report.",
        ),
    )


def downgrade() -> None:
    op.drop_column("alert_targets", "weekly_report")
