"""Parked runs are found among a million that wait.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # Ingest writes to this table all the time.
    with op.get_context().autocommit_block():
        # What is left of an attempt that was broken off is no use to anybody.
        op.drop_index("ix_outbox_parked", table_name="outbox", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            "ix_outbox_parked",
            "outbox",
            ["parked_at"],
            unique=False,
            postgresql_where=sa.text("parked_at IS NOT NULL"),
            postgresql_concurrently=True,
        )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index("ix_outbox_parked", table_name="outbox", if_exists=True, postgresql_concurrently=True)
