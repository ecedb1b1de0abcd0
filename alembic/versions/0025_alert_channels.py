"""Alerts go through more channels, and a new channel or kind of alert needs no migration.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

from alembic import op

revision: str = "0025"
down_revision: str | None = "0024"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

# Table, column, comment before and after.
COMMENTS = (
    ("alert_targets", "kind", "webhook or email.", "Channel, such as slack or email."),
    (
        "alert_targets",
        "secret",
        "What signs webhooks, as whsec_ and base64; empty for mail.",
        "Key that signs generic webhooks, as whsec_ and base64.",
    ),
    (
        "alerts",
        "id",
        "Identity, the same for all who are told and all tries.",
        "Identity, the same for all targets and all tries.",
    ),
    ("alerts", "kind", "budget, anomaly or test.", "What it is about, such as budget or anomaly."),
    ("alert_deliveries", "target_id", "Who is told.", "Where it goes."),
)


def upgrade() -> None:
    # The code knows the kinds, and raises for any other.
    op.drop_constraint(op.f("ck_alert_targets_kind"), "alert_targets", type_="check")
    op.drop_constraint(op.f("ck_alerts_kind"), "alerts", type_="check")
    for table, column, before, after in COMMENTS:
        op.alter_column(table, column, existing_comment=before, comment=after)


def downgrade() -> None:
    # Refused where a kind has come that was not there before.
    op.create_check_constraint(op.f("ck_alert_targets_kind"), "alert_targets", "kind IN ('webhook', 'email')")
    op.create_check_constraint(op.f("ck_alerts_kind"), "alerts", "kind IN ('budget', 'anomaly', 'test')")
    for table, column, before, after in COMMENTS:
        op.alter_column(table, column, existing_comment=after, comment=before)
