"""Mark runs that report no usage.

Rules: expand first, backfill apart, contract a release later. The project leads the primary key. No triggers, and nothing
that the main tables are needed for: they may be in another database. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "reporting_runs",
        sa.Column(
            "without_usage",
            sa.Boolean(),
            nullable=True,
            comment="True where the cost is that of nothing: the model has a price, and the run neither tokens nor other units nor a reported cost; empty otherwise.",
        ),
    )


def downgrade() -> None:
    op.drop_column("reporting_runs", "without_usage")
