"""Budgets, alerts and where they go.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "budgets",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project whose cost it is for."),
        sa.Column(
            "amount_usd",
            sa.Numeric(precision=38, scale=12),
            nullable=False,
            comment="US dollars for a calendar month (UTC).",
        ),
        sa.Column(
            "alert_percents",
            postgresql.ARRAY(sa.SmallInteger()),
            nullable=False,
            comment="Shares in percent at which somebody is told, ascending.",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was first set (UTC)."),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, comment="When it was last changed (UTC)."),
        sa.CheckConstraint("amount_usd > 0", name=op.f("ck_budgets_amount")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_budgets")),
    )


def downgrade() -> None:
    op.drop_table("budgets")
