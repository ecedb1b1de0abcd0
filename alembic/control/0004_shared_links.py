"""Add links that show a project without an account, and badges of its metrics that everybody sees.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "shared_links",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity; safe to show."),
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project it opens."),
        sa.Column("name", sa.Text(), nullable=False, comment="Name that people know it by."),
        sa.Column("token", sa.Text(), nullable=False, comment="What its address ends with."),
        sa.Column(
            "password_hash",
            sa.Text(),
            nullable=True,
            comment="Argon2id of the password that it asks for; empty: none.",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was made (UTC)."),
        sa.Column("created_by", sa.Text(), nullable=False, comment="Who made it."),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="From when it opens nothing (UTC); empty: never.",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shared_links")),
    )
    op.create_index("ix_shared_links_project_id", "shared_links", ["project_id"], unique=False)
    op.create_index("uq_shared_links_token", "shared_links", ["token"], unique=True)
    op.add_column(
        "projects",
        sa.Column(
            "has_public_badges",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether badges of its metrics are seen by everybody.",
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("It would lose the links.")
