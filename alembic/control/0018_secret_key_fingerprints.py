"""Keep a fingerprint of each SECRET_KEY, so that another one is noticed.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "secret_key_fingerprints",
        sa.Column(
            "fingerprint",
            sa.LargeBinary(),
            nullable=False,
            comment="HMAC-SHA256 of a constant, keyed with it; its first 16 bytes.",
        ),
        sa.Column(
            "first_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When the service first started with it (UTC).",
        ),
        sa.PrimaryKeyConstraint("fingerprint", name=op.f("pk_secret_key_fingerprints")),
    )


def downgrade() -> None:
    op.drop_table("secret_key_fingerprints")
