"""Prices of audio.

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
    # Without a rewrite: the columns are empty, or have a constant. A table each, and so a transaction each: who holds one
    # table while it waits for the next could wait for ingest, which waits for that one.
    op.add_column(
        "price_entries",
        sa.Column(
            "audio_input_per_million",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per million input tokens of audio; empty: as input.",
        ),
    )
    op.add_column(
        "price_entries",
        sa.Column(
            "audio_output_per_million",
            sa.Numeric(precision=14, scale=6),
            nullable=True,
            comment="USD per million output tokens of audio; empty: as output.",
        ),
    )


def downgrade() -> None:
    op.drop_column("price_entries", "audio_output_per_million")
    op.drop_column("price_entries", "audio_input_per_million")
