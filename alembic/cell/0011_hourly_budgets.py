"""Let budgets be for an hour, and rules watch single runs, models and keys.

Rules: expand first, backfill apart, contract a release later. Indexes on runs CONCURRENTLY, in an autocommit block.
The project leads every primary key and unique constraint of runs. No triggers. Downgrade only where it loses nothing.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_COMMENTS = (
    ("budgets", "period", "day or month (UTC).", "hour, day or month (UTC)."),
    (
        "alert_rules",
        "kind",
        "What is watched: error_rate, latency or cache_hit_rate.",
        "What is watched, such as error_rate or run_cost.",
    ),
    (
        "alert_rules",
        "threshold",
        "Share from 0 to 1, or milliseconds; empty: no threshold.",
        "Share from 0 to 1, milliseconds, US dollars or days; empty: no threshold.",
    ),
    (
        "alerts",
        "named",
        "Values that it names, where it is about a budget for each value.",
        "Values, runs, models or keys that it names, where there may be several.",
    ),
)


def upgrade() -> None:
    op.drop_constraint(op.f("ck_budgets_period"), "budgets", type_="check")
    op.create_check_constraint(op.f("ck_budgets_period"), "budgets", "period IN ('hour', 'day', 'month')")
    for table, name, before, after in _COMMENTS:
        op.alter_column(table, name, comment=after, existing_comment=before)


def downgrade() -> None:
    if op.get_bind().scalar(sa.text("SELECT EXISTS (SELECT FROM budgets WHERE period = 'hour')")):
        raise NotImplementedError("It would lose hourly budgets.")
    op.drop_constraint(op.f("ck_budgets_period"), "budgets", type_="check")
    op.create_check_constraint(op.f("ck_budgets_period"), "budgets", "period IN ('day', 'month')")
    for table, name, before, after in _COMMENTS:
        op.alter_column(table, name, comment=before, existing_comment=after)
