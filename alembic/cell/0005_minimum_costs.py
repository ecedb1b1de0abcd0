"""Mark runs of which a unit has no price.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "runs",
        sa.Column(
            "cost_is_minimum",
            sa.Boolean(),
            nullable=True,
            comment="True where a unit of the run has no price, so that it cost more than this; empty otherwise.",
        ),
    )


def downgrade() -> None:
    op.drop_column("runs", "cost_is_minimum")
