"""Keep bills of vendors.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "bills",
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity; safe to show."),
        sa.Column("provider", sa.Text(), nullable=False, comment="Provider that sent it, as runs name it."),
        sa.Column("since", sa.Date(), nullable=False, comment="First day (UTC)."),
        sa.Column("until", sa.Date(), nullable=False, comment="Day after the last one (UTC)."),
        sa.Column(
            "amount_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=True,
            comment="US dollars that were billed; NULL: the report has counts alone.",
        ),
        sa.Column(
            "tolerance_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=True,
            comment="Difference in US dollars above which an alert is sent; NULL: none.",
        ),
        sa.Column(
            "files",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="Kind and SHA-256 of each file that was read; empty for an amount.",
        ),
        sa.Column(
            "rows",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
            comment="Sums of the report by day, model, line, key, tier and region.",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was stored (UTC)."),
        sa.Column("created_by", sa.Text(), nullable=False, comment="Who stored it, as pages show them."),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bills")),
    )


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM bills)")):
        raise NotImplementedError("It would lose the bills.")
    op.drop_table("bills")
