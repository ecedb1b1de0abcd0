"""Keep further units, the service tier and the region of runs.

Rules: expand first, backfill apart, contract a release later. The project leads the primary key. No triggers, and nothing
that the main tables are needed for: they may be in another database. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "reporting_runs",
        sa.Column(
            "units",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="Counts of further units that are charged, by name, such as webSearch; empty without any.",
        ),
    )
    op.add_column(
        "reporting_runs",
        sa.Column(
            "service_tier", sa.Text(), nullable=True, comment="Service tier that the vendor charged, in lower case."
        ),
    )
    op.add_column(
        "reporting_runs",
        sa.Column(
            "region", sa.Text(), nullable=True, comment="Region in which the vendor processed the call, as sent."
        ),
    )


def downgrade() -> None:
    raise NotImplementedError("Runs would lose what they were charged for.")
