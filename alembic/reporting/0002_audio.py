"""Tokens of audio.

Rules: expand first, backfill apart, contract a release later. The project leads the primary key. No triggers, and nothing
that the main tables are needed for: they may be in another database. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

COLUMNS = {"audio_input_tokens": "Input tokens of audio.", "audio_output_tokens": "Output tokens of audio."}


def upgrade() -> None:
    for name, comment in COLUMNS.items():
        op.add_column("reporting_runs", sa.Column(name, sa.BigInteger(), nullable=True, comment=comment))


def downgrade() -> None:
    for name in COLUMNS:
        op.drop_column("reporting_runs", name)
