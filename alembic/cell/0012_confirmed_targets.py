"""Let a mail address get alerts once somebody there confirmed it; those that get them already go on.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "alert_targets",
        sa.Column(
            "confirmed_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When somebody at the address confirmed it (UTC); of other channels empty.",
        ),
    )
    # A few rows for each project.
    op.execute("UPDATE alert_targets SET confirmed_at = created_at WHERE kind = 'email'")


def downgrade() -> None:
    waiting = "SELECT EXISTS (SELECT FROM alert_targets WHERE kind = 'email' AND confirmed_at IS NULL)"
    if op.get_bind().scalar(sa.text(waiting)):
        raise NotImplementedError("Alerts would go to addresses that nobody confirmed; remove these first.")
    op.drop_column("alert_targets", "confirmed_at")
