"""Budgets, and alerts about them.

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
        "alert_deliveries",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project of the alert."),
        sa.Column("alert_id", sa.Uuid(), nullable=False, comment="The alert."),
        sa.Column("target_id", sa.Uuid(), nullable=False, comment="Who is told."),
        sa.Column("attempts", sa.SmallInteger(), nullable=False, comment="How often it was tried."),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False, comment="When it is tried next (UTC)."),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True, comment="When it was taken (UTC)."),
        sa.Column(
            "parked_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was given up after too many tries (UTC).",
        ),
        sa.Column("answer", sa.Text(), nullable=True, comment="What came of the last try, in a few words."),
        sa.PrimaryKeyConstraint("project_id", "alert_id", "target_id", name=op.f("pk_alert_deliveries")),
    )
    op.create_index(
        "ix_alert_deliveries_due",
        "alert_deliveries",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("delivered_at IS NULL AND parked_at IS NULL"),
    )
    op.create_table(
        "alert_targets",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project whose alerts they are."),
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity; safe to show."),
        sa.Column("kind", sa.Text(), nullable=False, comment="webhook or email."),
        sa.Column("address", sa.Text(), nullable=False, comment="URL or address."),
        sa.Column(
            "secret", sa.Text(), nullable=True, comment="What signs webhooks, as whsec_ and base64; empty for mail."
        ),
        sa.Column(
            "of_unusual_cost",
            sa.Boolean(),
            nullable=False,
            comment="Whether it is told of unusual cost as well as of the budget.",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was added (UTC)."),
        sa.CheckConstraint("kind IN ('webhook', 'email')", name=op.f("ck_alert_targets_kind")),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_alert_targets")),
        sa.UniqueConstraint("project_id", "kind", "address", name=op.f("uq_alert_targets_project_id_kind_address")),
    )
    op.create_table(
        "alerts",
        sa.Column("project_id", sa.Text(), nullable=False, comment="Project it is about."),
        sa.Column("id", sa.Uuid(), nullable=False, comment="Identity, the same for all who are told and all tries."),
        sa.Column("kind", sa.Text(), nullable=False, comment="budget, anomaly or test."),
        sa.Column("subject", sa.Text(), nullable=False, comment="Month and amount of a budget, or an hour."),
        sa.Column(
            "level",
            sa.SmallInteger(),
            nullable=False,
            comment="Percent of the budget that is reached; 0 where it is about none.",
        ),
        sa.Column("title", sa.Text(), nullable=False, comment="It in a line."),
        sa.Column("message", sa.Text(), nullable=False, comment="It in sentences, as mail has it."),
        sa.Column("document", sa.Text(), nullable=False, comment="It as JSON, as webhooks have it."),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, comment="When it was decided (UTC)."),
        sa.CheckConstraint("kind IN ('budget', 'anomaly', 'test')", name=op.f("ck_alerts_kind")),
        sa.PrimaryKeyConstraint("project_id", "id", name=op.f("pk_alerts")),
        sa.UniqueConstraint(
            "project_id", "kind", "subject", "level", name=op.f("uq_alerts_project_id_kind_subject_level")
        ),
    )
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
    op.drop_table("alerts")
    op.drop_table("alert_targets")
    op.drop_index(
        "ix_alert_deliveries_due",
        table_name="alert_deliveries",
        postgresql_where=sa.text("delivered_at IS NULL AND parked_at IS NULL"),
    )
    op.drop_table("alert_deliveries")
