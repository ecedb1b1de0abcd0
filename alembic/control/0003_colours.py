"""Keep the colours of models and other values.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "colours",
        sa.Column("dimension", sa.Text(), nullable=False, comment="What the value is one of, as queries name it."),
        sa.Column("value", sa.Text(), nullable=False, comment="The value."),
        sa.Column("number", sa.SmallInteger(), nullable=False, comment="Number of the colour, from 0 on."),
        sa.Column("given_at", sa.DateTime(timezone=True), nullable=False, comment="When it was given."),
        sa.PrimaryKeyConstraint("dimension", "value", name=op.f("pk_colours")),
    )
