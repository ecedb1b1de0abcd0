"""Add how projects store the values of keys that hold people's names.

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


def upgrade() -> None:
    op.create_table(
        "name_rules",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project whose runs it is for."),
        sa.Column(
            "key",
            sa.Text(),
            nullable=False,
            comment="Name of the dimension: user, session, tags, or a key of metadata.",
        ),
        sa.Column("storage", sa.Text(), nullable=False, comment="plain, hashed or dropped."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="When it was last changed (UTC)."),
        sa.CheckConstraint("storage IN ('plain', 'hashed', 'dropped')", name=op.f("ck_name_rules_storage")),
        sa.PrimaryKeyConstraint("project_id", "key", name=op.f("pk_name_rules")),
    )


def downgrade() -> None:
    raise NotImplementedError("Names would be stored as they are.")
