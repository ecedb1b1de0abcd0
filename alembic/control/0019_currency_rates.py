"""Keep the rates of a display currency.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0019"
down_revision: str | None = "0018"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "currency_rates",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="Number of the row."),
        sa.Column(
            "currency", sa.Text(), nullable=False, comment="Currency of pages, by ISO 4217; the same in all rows."
        ),
        sa.Column("since", sa.Date(), nullable=False, comment="First day of the rate (UTC)."),
        sa.Column("rate", sa.Numeric(precision=18, scale=8), nullable=False, comment="What one US dollar is worth."),
        sa.Column("author", sa.Text(), nullable=False, comment="Who entered it."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was entered (UTC)."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="When it last changed (UTC)."),
        sa.CheckConstraint("rate > 0", name=op.f("ck_currency_rates_rate")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_currency_rates")),
        sa.UniqueConstraint("since", name=op.f("uq_currency_rates_since")),
    )


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM currency_rates)")):
        raise NotImplementedError("It would lose rates.")
    op.drop_table("currency_rates")
