"""A token by which a project's charts are seen elsewhere, and who users are for an OpenID provider.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "projects",
        sa.Column(
            "embed_token",
            sa.Text(),
            nullable=True,
            comment="What the URL of its charts must carry to be seen without signing in; empty: there is none.",
        ),
    )
    op.create_table(
        "identities",
        sa.Column("issuer", sa.Text(), nullable=False, comment="URL of the provider."),
        sa.Column("subject", sa.Text(), nullable=False, comment="Who they are there, for ever."),
        sa.Column("user_id", sa.Uuid(), nullable=False, comment="The user."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When they first signed in with it (UTC).",
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_identities_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("issuer", "subject", name=op.f("pk_identities")),
    )
    op.create_index("ix_identities_user_id", "identities", ["user_id"])


def downgrade() -> None:
    op.drop_table("identities")
    op.drop_column("projects", "embed_token")
