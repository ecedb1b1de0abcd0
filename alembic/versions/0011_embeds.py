"""A token by which a project's charts are seen elsewhere.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
import sqlmodel
from alembic import op

revision: str = "0011"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "projects",
        sa.Column(
            "embed_token",
            sqlmodel.sql.sqltypes.AutoString(),
            nullable=True,
            comment="What the URL of its charts must carry to be seen without signing in; empty: there is none.",
        ),
    )


def downgrade() -> None:
    op.drop_column("projects", "embed_token")
