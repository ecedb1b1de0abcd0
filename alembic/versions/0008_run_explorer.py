"""What the run explorer looks runs up by.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


INDEXES = {
    "ix_runs_failed": (["project_id", "occurred_at"], "status <> 'success'"),
    "ix_runs_trace": (["project_id", "trace_id"], "trace_id IS NOT NULL"),
    "ix_runs_project_id_model": (["project_id", "model"], None),
}


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for name, (columns, where) in INDEXES.items():
            # What is left of an attempt that was broken off is no use to anybody.
            op.drop_index(name, table_name="runs", if_exists=True, postgresql_concurrently=True)
            op.create_index(
                name,
                "runs",
                columns,
                unique=False,
                postgresql_where=sa.text(where) if where else None,
                postgresql_concurrently=True,
            )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name in INDEXES:
            op.drop_index(name, table_name="runs", if_exists=True, postgresql_concurrently=True)
