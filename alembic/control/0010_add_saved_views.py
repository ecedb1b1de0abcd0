"""Add saved views of a project's report pages.

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
        "saved_views",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity; safe to show."),
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project whose runs it shows."),
        sa.Column("name", sa.Text(), nullable=False, comment="Name that people know it by."),
        sa.Column("page", sa.Text(), nullable=False, comment="Report page, such as overview or runs."),
        sa.Column("query", sa.Text(), nullable=False, comment="Query string of the page, without the project."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was saved (UTC)."),
        sa.Column("created_by", sa.Text(), nullable=False, comment="Who saved it, as pages show them."),
        sa.Column(
            "author_id",
            sa.Text(),
            nullable=False,
            comment="Id of the user who saved it, who may rename and delete it.",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saved_views")),
        sa.UniqueConstraint("project_id", "name", name=op.f("uq_saved_views_project_id_name")),
    )


def downgrade() -> None:
    raise NotImplementedError("It would lose the views.")
