"""Keep notes on dates.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "notes",
        sa.Column("id", sa.BigInteger(), sa.Identity(), nullable=False, comment="Number of the row."),
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project whose charts mark it."),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False, comment="The moment that it is about (UTC)."),
        sa.Column("text", sa.Text(), nullable=False, comment="What happened, in the words of who wrote it."),
        sa.Column("tag", sa.Text(), nullable=True, comment="Tag of the runs that it is about; empty: of all."),
        sa.Column("author", sa.Text(), nullable=False, comment="Who wrote it, as pages show them."),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notes")),
    )
    op.create_index("ix_notes_project_id_at", "notes", ["project_id", "at"], unique=False)


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM notes)")):
        raise NotImplementedError("It would lose the notes.")
    op.drop_index("ix_notes_project_id_at", table_name="notes")
    op.drop_table("notes")
