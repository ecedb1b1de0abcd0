"""Give a cell an identity, so that a URL of another one is noticed.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "cell_identity",
        sa.Column("number", sa.SmallInteger(), autoincrement=False, nullable=False, comment="Always 1."),
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity, made when the cell was added."),
        sa.Column("name", sa.Text(), nullable=False, comment="Name that the cell has in CELL_URLS."),
        sa.CheckConstraint("number = 1", name=op.f("ck_cell_identity_number")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_cell_identity")),
    )
