"""Find the runs of one session, at any time.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

INDEX = "ix_runs_session"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        # What was broken off left an index that no statement uses.
        op.drop_index(INDEX, "runs", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            INDEX,
            "runs",
            ["project_id", "session_id"],
            unique=False,
            postgresql_where=sa.text("session_id IS NOT NULL"),
            postgresql_concurrently=True,
        )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index(INDEX, "runs", postgresql_concurrently=True)
