"""Find the deletions of projects in the audit log, as sums over all projects say what they lack.

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

NAME = "ix_audit_entries_deleted"


def upgrade() -> None:
    op.create_index(NAME, "audit_entries", ["id"], unique=False, postgresql_where=sa.text("action = 'project.deleted'"))


def downgrade() -> None:
    op.drop_index(NAME, table_name="audit_entries")
