"""Mark runs of which a unit has no price.

Rules: expand first, backfill apart, contract a release later. The project leads the primary key. No triggers, and nothing
that the main tables are needed for: they may be in another database. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "reporting_runs",
        sa.Column(
            "cost_is_minimum",
            sa.Boolean(),
            nullable=True,
            comment="True where a unit of the run has no price, so that it cost more than this; empty otherwise.",
        ),
    )


def downgrade() -> None:
    op.drop_column("reporting_runs", "cost_is_minimum")
