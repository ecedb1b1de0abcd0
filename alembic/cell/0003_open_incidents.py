"""Note which deliveries have opened incidents, which are closed once their alerts are over.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "alert_deliveries",
        sa.Column(
            "is_open",
            sa.Boolean(),
            nullable=True,
            comment="Whether the target's incident is to be open: false once the alert is over, empty where nothing is "
            "opened.",
        ),
    )
    op.create_index(
        "ix_alert_deliveries_open",
        "alert_deliveries",
        ["project_id", "alert_id"],
        unique=False,
        postgresql_where=sa.text("is_open"),
    )


def downgrade() -> None:
    raise NotImplementedError("Nothing would know which incidents are open.")
