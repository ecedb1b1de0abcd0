"""Tokens of audio.

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
    # Without a rewrite: the columns are empty, or have a constant. A table each, and so a transaction each: who holds one
    # table while it waits for the next could wait for ingest, which waits for that one.
    op.add_column(
        "runs", sa.Column("audio_input_tokens", sa.BigInteger(), nullable=True, comment="Input tokens of audio.")
    )
    op.add_column(
        "runs", sa.Column("audio_output_tokens", sa.BigInteger(), nullable=True, comment="Output tokens of audio.")
    )


def downgrade() -> None:
    op.drop_column("runs", "audio_output_tokens")
    op.drop_column("runs", "audio_input_tokens")
