"""Mark runs whose provider and model count as "(other)", because their project had so many names on their day.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "runs",
        sa.Column(
            "counted_as_other",
            sa.Boolean(),
            nullable=True,
            comment='True where sums, groups and filters have it under provider and model "(other)", because its project had so many names of models on that day; empty otherwise.',
        ),
    )


def downgrade() -> None:
    op.drop_column("runs", "counted_as_other")
