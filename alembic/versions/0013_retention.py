"""How long a project keeps its live runs, and since when it has them.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "projects",
        sa.Column(
            "retention_days",
            sa.Integer(),
            nullable=True,
            comment="Days that its live runs are kept; 0: for ever; empty: as RETENTION_DAYS says.",
        ),
    )
    op.add_column(
        "projects",
        sa.Column(
            "dropped_before",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="Start of a day (UTC): older live runs were dropped, and their sums are kept.",
        ),
    )
    # By default a fifth of a table must be dead before it is cleaned: of many millions of runs that is too late for their
    # place to be taken by the next ones.
    op.execute("ALTER TABLE runs SET (autovacuum_vacuum_scale_factor = 0.02)")


def downgrade() -> None:
    op.execute("ALTER TABLE runs RESET (autovacuum_vacuum_scale_factor)")
    op.drop_column("projects", "dropped_before")
    op.drop_column("projects", "retention_days")
