"""Price further units, and vary prices by service tier, region, hours and tokens.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column(
        "price_entries",
        sa.Column(
            "unit_rates",
            sa.Text(),
            nullable=True,
            comment="USD of further units: names and amounts, such as webSearch 10 (per thousand requests); empty: none.",
        ),
    )
    op.add_column(
        "price_entries",
        sa.Column(
            "variants",
            sa.Text(),
            nullable=True,
            comment="Other rates or factors for some runs, one a line: by service tier, region, hours, weekdays or input tokens; empty: none.",
        ),
    )


def downgrade() -> None:
    # Those of the catalogue come back with a sync.
    own = "SELECT EXISTS (SELECT FROM price_entries WHERE source = 'admin' AND coalesce(unit_rates, variants) IS NOT NULL)"
    if op.get_bind().scalar(sa.text(own)):
        message = "Prices would lose what they are for some runs."
        raise RuntimeError(message)
    op.drop_column("price_entries", "variants")
    op.drop_column("price_entries", "unit_rates")
