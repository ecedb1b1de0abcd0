"""Keep which cells there are, and the cell of each project.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "cells",
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="Name, as in CELL_URLS; main is the database of DATABASE_URL.",
        ),
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity, which the cell has in its table cell_identity."),
        sa.Column(
            "is_open",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Whether new projects are put there.",
        ),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False, comment="When it was added (UTC)."),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_cells")),
    )
    op.create_table(
        "project_places",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project."),
        sa.Column("cell", sa.Text(), nullable=False, comment="Name of its cell."),
        sa.Column("placed_at", sa.DateTime(timezone=True), nullable=False, comment="When it was put there (UTC)."),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_project_places")),
    )


def downgrade() -> None:
    # The version before would look for the projects of all cells in its own database.
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM cells WHERE name <> 'main')")):
        message = "There are cells, which the version before does not know."
        raise RuntimeError(message)
    op.drop_table("project_places")
    op.drop_table("cells")
